import { beforeAll, describe, expect, test } from 'vitest';
import { startApp } from '../setup/app.ts';
import { contactBody, make, recordKinds, type Answer, type TestCustomer } from '../setup/factories.ts';
let customer: TestCustomer;

const app = await startApp();

describe.each(recordKinds)('the external_id of $path', ({ path, bodyOf }) => {
  beforeAll(async () => {
    customer = await app.customer();
  });

  const create = async (external_id?: string | null): Promise<Answer> =>
    customer.post(path, await bodyOf(customer, external_id === undefined ? {} : { external_id }));
  const idOf = async (answer: Promise<Answer>): Promise<string> => (await answer).body.data.id;
  const found = async (filters: object): Promise<string[]> =>
    (await customer.post(`${path}/list`, { filters })).body.map(({ id }: { id: string }) => id);

  const expectConflict = ({ status, body }: Answer) => {
    expect(status).toBe(409);
    expect(body).toMatchObject({ code: 'conflict', errors: [{ path: '/external_id' }] });
  };

  test('is unique for each customer: a second record with it is refused, and nothing is written', async () => {
    await create('twice');
    const before = (await found({})).length;
    expectConflict(await create('twice'));
    expect(await found({})).toHaveLength(before);
    const other = await idOf(create('other'));
    expectConflict(await customer.patch(`${path}/${other}`, { external_id: 'twice' }));
    expect((await customer.patch(`${path}/${other}`, { external_id: 'other' })).status).toBe(200);
    customer = await app.customer();
    expect((await create('twice')).status).toBe(201);
  });

  test('is taken once by many concurrent callers', async () => {
    const answers = await Promise.all(Array.from({ length: 12 }, () => create('raced')));
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(1);
    for (const answer of answers.filter(({ status }) => status !== 201)) expectConflict(answer);
    expect(await found({ external_id: 'raced' })).toHaveLength(1);
  });

  test('is free again when it was cleared with null, or when its record was deleted', async () => {
    const id = await idOf(create('freed'));
    expect((await customer.patch(`${path}/${id}`, { external_id: null })).status).toBe(200);
    const next = await idOf(create('freed'));
    await customer.delete(`${path}/${next}`);
    expect((await create('freed')).status).toBe(201);
  });

  test('has up to 255 characters of any script, and is shown as given', async () => {
    for (const given of ['𝒳'.repeat(255), ' \t', 'ÁDA\u0301']) {
      const id = await idOf(create(given));
      expect((await customer.get(`${path}/${id}`)).body.external_id).toBe(given);
    }
  });
});

test('a contact with a taken external_id that also refers to an unknown list and user is 404, not 409', async () => {
  const by = await app.customer();
  await make(by, '/contacts', contactBody({ external_id: 'taken' }));
  const id = await make(by, '/contacts', contactBody());
  const unknown = { external_id: 'taken', list_ids: [crypto.randomUUID()], assigned_to: crypto.randomUUID() };
  const about = { code: 'not_found', errors: [{ path: '/list_ids/0' }, { path: '/assigned_to' }] };
  for (const given of [
    await by.post('/contacts', contactBody(unknown)),
    await by.patch(`/contacts/${id}`, unknown),
    await by.call('PATCH', `/contacts/${id}`, unknown, { 'if-match': '"old"' }),
  ])
    expect(given).toMatchObject({ status: 404, body: about });
});

test('rules of a list compare external_id exactly, with white space kept', async () => {
  const own = await app.customer();
  const make = async (external_id: string): Promise<string> =>
    (await own.post('/contacts', contactBody({ external_id }))).body.data.id;
  const [upper, lower, spaced] = [await make('ADA'), await make('ada'), await make(' ada')];
  const members = async (operator: string, value: string): Promise<string[]> => {
    const rules = [{ field: 'external_id', operator, value }];
    const list = (await own.post('/list-contact', { name: value, rules })).body.id;
    const { body } = await own.post('/contacts/list', { filters: { list_id: list } });
    return body.map(({ id }: { id: string }) => id).sort();
  };
  expect(await members('equals', 'ada')).toEqual([lower]);
  expect(await members('equals', ' ada')).toEqual([spaced]);
  expect(await members('contains', 'ada')).toEqual([lower, spaced].sort());
  expect(await members('ends_with', 'DA')).toEqual([upper]);
  expect(await members('in', 'ADA, ada')).toEqual([upper, lower].sort());
});
