import { beforeAll, describe, expect, test } from 'vitest';
import { startApp } from '../setup/app.ts';
import { companyBody, contactBody, make, recordKinds, unique, type Answer } from '../setup/factories.ts';

type Json = any; // eslint-disable-line typescript/no-explicit-any -- tests read any field of responses

// The largest batches take long on a busy machine.
const app = await startApp({ REQUEST_TIMEOUT_MS: '120000', STATEMENT_TIMEOUT_MS: '60000' });
const absent = '0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b';
const [customer, stranger] = [await app.customer(), await app.customer()];

describe.each(recordKinds)('batches of $path', ({ path, bodyOf: newBodyOf }) => {
  let bodies: [own: object, theirs: object];
  beforeAll(async () => {
    bodies = [await newBodyOf(customer), await newBodyOf(stranger)];
  });
  const bodyOf = (more: object = {}, by = customer) => ({ ...bodies[by === customer ? 0 : 1], ...more });
  const created = (more: object = {}, by = customer): Promise<string> => make(by, path, bodyOf(more, by));
  const send = (operation: string, body: object): Promise<Answer> => customer.post(`${path}/batch/${operation}`, body);
  const newest = async (): Promise<string[]> =>
    (await customer.post(`${path}/list`, { paginate: { limit: 100 } })).body.map(({ id }: Json) => id);

  test('answer with one result for each item, in order, and with counts', async () => {
    const [first, second] = [unique('x'), unique('x')];
    const answer = await send('create', {
      items: [bodyOf({ external_id: first }), bodyOf({ external_id: first }), bodyOf({ external_id: second }), 7],
    });
    expect(answer.status).toBe(200);
    const { success, message, data } = answer.body;
    expect({ success, message }).toEqual({ success: false, message: 'Batch done, 2 of 4 items failed' });
    expect(data.counts).toEqual({ created: 2, updated: 0, unchanged: 0, deleted: 0, found: 0, failed: 2 });
    expect(data.results.map(({ index, status }: Json) => [index, status])).toEqual([
      [0, 'created'],
      [1, 'failed'],
      [2, 'created'],
      [3, 'failed'],
    ]);
    expect(data.results[1].error).toMatchObject({ code: 'conflict', errors: [{ path: '/external_id' }] });
    expect(data.results[3].error).toMatchObject({ code: 'validation_failed', errors: [{ path: '' }] });
    const ids = [0, 2].map((i) => data.results[i].id);
    const found = await send('read', { items: ids.map((id) => ({ id })) });
    expect(found.body.data.results.map(({ record }: Json) => record.external_id)).toEqual([first, second]);
    for (const [i, id] of ids.entries())
      expect(found.body.data.results[i].record).toEqual((await customer.get(`${path}/${id}`)).body);
  });

  test('pass an external id from one record to another, in the order of the items', async () => {
    const [a, b] = [unique('x'), unique('x')];
    const [first, second] = [await created({ external_id: a }), await created({ external_id: b })];
    const patch = (id: string, external_id: string | null) => ({ id, external_id });
    const swapped = await send('update', { items: [patch(first, b), patch(second, a)] });
    expect(swapped.body.data.results.map(({ status }: Json) => status)).toEqual(['failed', 'failed']);
    const moved = await send('update', { items: [patch(second, null), patch(first, b)] });
    expect(moved.body.data.counts).toMatchObject({ updated: 2, failed: 0 });
    const chained = await send('update', { items: [patch(first, a), patch(second, b)] });
    expect(chained.body.data.counts).toMatchObject({ updated: 2, failed: 0 });
    expect((await customer.get(`${path}/${second}`)).body.external_id).toBe(b);
  });

  test('with atomic write nothing if one item fails, and name the faults of all', async () => {
    const before = await newest();
    const taken = unique('x');
    await created({ external_id: taken });
    const after = await newest();
    expect(after).not.toEqual(before);
    const items = [bodyOf({ external_id: unique('x') }), bodyOf({ external_id: taken }), {}, bodyOf()];
    const answer = await send('create', { items, atomic: true });
    expect(answer.body).toMatchObject({ statusCode: 409, code: 'conflict' });
    const paths = answer.body.errors.map((fault: Json) => fault.path);
    expect(paths).toEqual(expect.arrayContaining(['/items/1/external_id', expect.stringMatching('^/items/2(/|$)')]));
    expect(await newest()).toEqual(after);
    const conflicting = await send('create', { items: items.toSpliced(2, 1), atomic: true });
    expect(conflicting.status).toBe(409);
    expect(conflicting.body).toMatchObject({ code: 'conflict', errors: [{ path: '/items/1/external_id' }] });
    expect(await newest()).toEqual(after);
    const missing = await send('delete', { items: [{ id: absent }], atomic: true });
    expect(missing.body).toMatchObject({ statusCode: 404, code: 'not_found', errors: [{ path: '/items/0/id' }] });
    expect((await send('create', { items: [bodyOf(), bodyOf()], atomic: true })).body.success).toBe(true);
  });

  test('find no record of another customer, and change none', async () => {
    const external_id = unique('x');
    const id = await created({ external_id }, stranger);
    const before = (await stranger.get(`${path}/${id}`)).body;
    for (const [match, value] of [
      ['id', id],
      ['external_id', external_id],
    ] as const)
      for (const operation of ['update', 'delete', 'read']) {
        const answer = await send(operation, { match, items: [{ [match]: value }] });
        expect(answer.body.data.results[0].error.code, `${operation} by ${match}`).toBe('not_found');
      }
    const own = await send('upsert', { match: 'external_id', items: [bodyOf({ external_id })] });
    expect(own.body.data.results[0]).toMatchObject({ status: 'created' });
    expect((await stranger.get(`${path}/${id}`)).body).toEqual(before);
  });
});

const send = (operation: string, body: object): Promise<Answer> => customer.post(`/contacts/batch/${operation}`, body);

test('batches of contacts keep hostile items apart from the others, and create with what a record needs only', async () => {
  const hostile = [
    null,
    [],
    'x',
    { __proto_: 1 },
    { ...contactBody(), custom_fields: { a: '\0' } },
    { ...contactBody(), ['\ud800']: 1 },
    Object.fromEntries(Array.from({ length: 10_000 }, (_, i) => [`f${i}`, i])),
  ];
  // A contact needs no more than a name and something to find it by.
  const least = { first_name: 'Al', external_id: unique('x') };
  const answer = await send('create', { items: [...hostile, { first_name: 'Al' }, least] });
  expect(answer.body.data.counts).toMatchObject({ created: 1, failed: hostile.length + 1 });
  for (const { error } of answer.body.data.results.slice(0, -1)) {
    expect(error.code).toBe('validation_failed');
    expect(error.errors.length).toBeGreaterThan(0);
    expect(error.errors.length).toBeLessThanOrEqual(10);
  }
});

test('batches of contacts of 5 MiB are read like small ones, with the most values that records may have', async () => {
  const most = (i: number) => ({
    ...contactBody(),
    custom_fields: Object.fromEntries(Array.from({ length: 100 }, (_, k) => [`${i} ${k}`, 'v'.repeat(10)])),
    phone_numbers: Array.from({ length: 20 }, (_, k) => ({ country_code: '+49', number: `${k}` })),
  });
  const items = Array.from({ length: 1_000 }, (_, i) => most(i));
  const padding = ' '.repeat(5 * 2 ** 20 - Buffer.byteLength(JSON.stringify({ items })));
  const { status, body } = await customer.post('/contacts/batch/create', JSON.stringify({ items }) + padding);
  expect([status, body.data?.counts]).toMatchObject([200, { created: 1_000, failed: 0 }]);
});

test('batches of contacts of 5 MiB are refused before they are parsed if no schema allows them', async () => {
  const list = (count: number, one: (i: number) => string) => Array.from({ length: count }, (_, i) => one(i)).join();
  const members = list(4_000, (i) => `"m${i}":"${'x'.repeat(300)}"`);
  for (const [text, fault] of [
    [`{"items":[{"m7":0,${members}}]}`, 'names a property of one object twice'],
    [`{"items":[{${members},}]}`, 'is not valid JSON: it breaks off at character'],
    [
      `{"items":[{"__proto__":[],${members}}]}`,
      'names a property `__proto__`, or `prototype` of a `constructor`, which is not allowed',
    ],
    [`{"items":[${list(300, () => `[${list(2_000, () => '0')}]`)}]}`, 'has more than 400000 values'],
    [`{"items":${'['.repeat(2 ** 20)}`, 'is nested deeper than 64 levels'],
  ] as const)
    expect(await customer.post('/contacts/batch/create', text), fault).toMatchObject({
      status: 400,
      body: { errors: [{ path: '', message: expect.stringContaining(`the body ${fault}`) }] },
    });
});

test('batches of contacts list at most 1,000 faults, and never those of a valid item', async () => {
  const faulty = Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`f${i}`, i]));
  const answer = await send('create', { items: [...Array.from({ length: 900 }, () => faulty), contactBody()] });
  const { results, counts } = answer.body.data;
  expect(counts).toMatchObject({ created: 1, failed: 900 });
  const listed = results.flatMap(({ error }: Json) => error?.errors ?? []);
  expect(listed).toHaveLength(1_000);
  expect(JSON.stringify(answer.body).length).toBeLessThan(600_000);
});

test('batches of contacts refuse a number that JSON does not hold exactly, as single calls and filters do', async () => {
  const bodies = (value: string) =>
    JSON.stringify({ items: [contactBody({ custom_fields: { crm: '#' } })] }).replace('"#"', value);
  const results = async (value: string) =>
    (await customer.post('/contacts/batch/create', bodies(value))).body.data.results[0];
  expect(await results('9007199254740991')).toMatchObject({ status: 'created' });
  expect(await results('-9007199254740991')).toMatchObject({ status: 'created' });
  for (const value of ['9007199254740992', '9007199254740993', '-9007199254740993', '1e300']) {
    const fault = { path: '/custom_fields/crm', message: expect.stringMatching(/send it as a text$/) };
    expect((await results(value)).error, value).toMatchObject({ code: 'validation_failed', errors: [fault] });
    const single = JSON.stringify(contactBody({ custom_fields: { crm: '#' } })).replace('"#"', value);
    expect(await customer.post('/contacts', single)).toMatchObject({ status: 400, body: { errors: [fault] } });
    const filter = `{"filters":{"custom_fields.crm":${value}}}`;
    expect(await customer.post('/contacts/list', filter)).toMatchObject({
      status: 400,
      body: { errors: [{ path: '/filters/custom_fields.crm', message: fault.message }] },
    });
  }
});

test('batches of contacts refer to companies, users and lists of the same customer only', async () => {
  const company = await make(stranger, '/company', companyBody());
  const list = (await stranger.post('/list-contact', { name: 'L' })).body.id;
  const items = [
    contactBody({ company: { id: company } }),
    contactBody({ assigned_to: stranger.adminId }),
    contactBody({ list_ids: [list] }),
  ];
  const { results } = (await send('create', { items })).body.data;
  expect(results.map(({ error }: Json) => [error.code, error.errors[0].path])).toEqual([
    ['not_found', '/company/id'],
    ['not_found', '/assigned_to'],
    ['not_found', '/list_ids/0'],
  ]);
});

test('batches of contacts name the records that an e-mail address matches, if there are several', async () => {
  const work_email = `${unique('many')}@example.com`;
  const ids: string[] = [];
  for (let i = 0; i < 12; i += 1) ids.push(await make(customer, '/contacts', contactBody({ work_email })));
  const item = { work_email: work_email.toUpperCase() };
  for (const operation of ['update', 'upsert', 'delete', 'read']) {
    const { results } = (await send(operation, { match: 'work_email', items: [item] })).body.data;
    expect(results[0].error).toMatchObject({ code: 'conflict', matching_ids: ids.slice(0, 10) });
  }
  const atomic = await send('delete', { match: 'work_email', items: [item], atomic: true });
  expect(atomic.body).toMatchObject({
    statusCode: 409,
    matching_ids: ids.slice(0, 10),
    errors: [{ path: '/items/0/work_email' }],
  });
});
