import { once } from 'node:events';
import { connect, type AddressInfo, type Socket } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { buildApp } from '../../src/app.ts';
import { parseConfig } from '../../src/process/config.ts';
import { exportContacts } from '../../src/queries/crm/contacts.ts';
import { exportPage } from '../../src/queries/crm/record-pages.ts';
import { importFile } from '../jobs/importing.ts';
import { customerOfEachTest, startApp } from '../setup/app.ts';
import { asSuperuser, isOnCitus } from '../setup/database.ts';
import { companyBody, contactBody, dbOf, make, type TestCustomer } from '../setup/factories.ts';
import { addTotals } from '../setup/journal.ts';
import { lockTable, waitersOf } from '../setup/locks.ts';

type Json = any; // eslint-disable-line typescript/no-explicit-any -- tests read any field of responses

const app = await startApp();

const customer = customerOfEachTest(app);

/** More records than two pages of an export hold. */
const many = 2 * exportPage + 7;

/** Creates contacts in bulk. Many have the same name, score or time of the last update, and some have no company. */
async function fillContacts({ id }: TestCustomer, count: number, note = ''): Promise<void> {
  await app.owner`
    with company as (
      insert into companies (customer_id, company_name, industry, folded)
      values (${id}, 'Acme', 'Mining', '{"company_name": "acme", "industry": "mining"}')
      returning id
    )
    insert into contacts (customer_id, first_name, last_name, work_email, job_title, company_id, score, updated_at, custom_fields, folded)
    select ${id}, 'Ada', last, mail, title, case when n % 3 = 0 then (select id from company) end, n % 7,
      '2026-01-01T00:00:00Z'::timestamptz + make_interval(secs => n % 11), jsonb_build_object('n', n, 'note', ${note}::text),
      jsonb_build_object('first_name', 'ada', 'last_name', lower(last), 'work_email', mail, 'job_title', lower(title),
        'industry', '', 'location_locality', '', 'location_country', '', 'location_region', '')
    from (
      select n, 'Last' || n % 13 as last, 'ada' || n % 997 || '@example.com' as mail,
        (array['Engineer', 'Clerk', 'Senior Engineer', ''])[1 + n % 4] as title
      from generate_series(1, ${count}::int) n
    ) one`;
  await addTotals(app.owner, id, { contacts: count, companies: 1 });
  await app.owner`analyze contacts`;
}

/** Creates companies in bulk. Many have the same name or score. */
async function fillCompanies({ id }: TestCustomer, count: number): Promise<void> {
  await app.owner`
    insert into companies (customer_id, company_name, score, folded)
    select ${id}, name, n % 7, jsonb_build_object('company_name', lower(name), 'type', '', 'size', '', 'industry', '', 'location_country', '')
    from (select n, 'Company ' || n % 17 as name from generate_series(1, ${count}::int) n) one`;
  await addTotals(app.owner, id, { companies: count });
  await app.owner`analyze companies`;
}

/** Reads all pages of a list call. */
async function pagesOf(path: string, body: object, caller = customer): Promise<Json[]> {
  const rows: Json[] = [];
  for (let cursor: string | undefined; ;) {
    const page = await caller.post(`${path}/list`, { ...body, paginate: { limit: 100, ...(cursor && { cursor }) } });
    expect(page.status, JSON.stringify(page.body)).toBe(200);
    rows.push(...page.body);
    cursor = page.headers['x-next-cursor'] as string | undefined;
    if (cursor === undefined) return rows;
  }
}

/** Exports everything as NDJSON, and returns the records. */
async function exported(path: string, body: object, caller = customer): Promise<Json[]> {
  const answer = await caller.post(`${path}/export`, { format: 'ndjson', fields: 'all', ...body });
  expect(answer.status, JSON.stringify(answer.body)).toBe(200);
  return String(answer.body)
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line));
}

/** Returns a record as a file shows it: without the members that a request could not contain. */
const inFile = ({ first_name, last_name, work_email, assigned_to, type, ...record }: Json): Json => ({
  ...record,
  ...(first_name === '' ? {} : { first_name }),
  ...(last_name === '' ? {} : { last_name }),
  ...(work_email === '' ? {} : { work_email }),
  ...(assigned_to === null ? {} : { assigned_to }),
  ...(type === '' ? {} : { type }),
});

/** Compares values as JSON, so that a member that is undefined counts as missing. */
const asJson = (value: unknown): unknown => JSON.parse(JSON.stringify(value));

test.each([
  [
    '/contacts',
    fillContacts,
    ['created_at', 'updated_at', 'score', 'last_name', 'work_email'],
    { score: { gte: 1 }, _or: [{ 'company.company_name': 'ACME' }, { job_title: { contains: 'e' } }] },
  ],
  ['/company', fillCompanies, ['created_at', 'updated_at', 'score', 'company_name'], { score: [1, 2, 3, 4, 5] }],
] as const)(
  'an export holds what the list call pages through, in the same order, of %s, in every order that it allows, with filters',
  async (path, fill, fields, filters) => {
    await fill(customer, many);
    for (const field of fields)
      for (const body of [{ order_by: { [field]: 'ASC' } }, { order_by: [{ field, direction: 'DESC' }], filters }])
        expect(await exported(path, body), JSON.stringify(body)).toEqual(
          asJson((await pagesOf(path, body)).map(inFile)),
        );
    expect((await exported(path, {})).length).toBe(many);
  },
);

test('records that are deleted or changed meanwhile neither end an export nor repeat in it', async () => {
  await fillContacts(customer, many);
  // Too long for a cursor, so that a cursor would name the record itself.
  const long = 'ß'.repeat(255);
  await app.owner`
      update contacts
      set last_name = ${long}, folded = folded || jsonb_build_object('last_name', ${'ss'.repeat(255)}::text)
      where customer_id = ${customer.id}`;
  const expected = (await pagesOf('/contacts', { order_by: { last_name: 'DESC' } })).map(({ id }) => id as string);
  const order_by = { last_name: 'DESC' };
  const pages = await exportContacts(dbOf(app.fastify), customer.id, { order_by }).read(false);
  // The first page has been read. Everything in it is deleted before the second one is.
  await app.owner`
      delete from contacts
      where customer_id = ${customer.id}
        and id = any(${expected.slice(0, exportPage)}::uuid[])`;
  const ids: string[] = [];
  for await (const page of pages) ids.push(...page.map((record) => (record as Json).id));
  expect(ids).toEqual(expected);
});

test('the file of an export is CSV or NDJSON, with a name and the chosen fields; of no records a header line, or empty', async () => {
  const empty = await customer.post('/company/export', { format: 'csv', fields: ['id', 'company_name'] });
  expect(empty.body).toBe('id,company_name\r\n');
  expect((await customer.post('/company/export', { format: 'ndjson' })).body).toBe('');
  const company = await make(customer, '/company', companyBody({ company_name: 'Engines, Ltd' }));
  const custom_fields = { plan: '7', seats: 12, trial: false };
  const phone_numbers = [{ country_code: '+44', number: '20 7946 0000' }];
  const id = await make(
    customer,
    '/contacts',
    contactBody({ company: { id: company }, custom_fields, phone_numbers, first_name: '=Ada' }),
  );
  const fields = ['id', 'first_name', 'middle_name', 'job_title', 'phone_numbers', 'company', 'assigned_to'];
  const body = { fields: [...fields, 'custom_fields.plan', 'custom_fields.seats', 'custom_fields.none'] };
  const csv = await customer.post('/contacts/export', { format: 'csv', ...body });
  expect(csv.headers).toMatchObject({
    'content-type': 'text/csv; charset=utf-8',
    'content-disposition': 'attachment; filename="contacts.csv"',
  });
  expect(csv.body).toBe(
    'id,first_name,middle_name,job_title,phone_numbers,company.id,company.name,company.industry,assigned_to,' +
      'custom_fields.plan,custom_fields.seats,custom_fields.none\r\n' +
      `${id},=Ada,\\N,,+44 20 7946 0000,${company},"Engines, Ltd",,,"7",12,\r\n`,
  );
  const ndjson = await customer.post('/contacts/export', { format: 'ndjson', ...body });
  expect(ndjson.headers).toMatchObject({
    'content-type': 'application/x-ndjson',
    'content-disposition': 'attachment; filename="contacts.ndjson"',
  });
  expect(ndjson.headers['content-length']).toBeUndefined();
  expect(JSON.parse(ndjson.body)).toEqual({
    id,
    first_name: '=Ada',
    middle_name: null,
    job_title: '',
    phone_numbers,
    company: { id: company, external_id: null, company_name: 'Engines, Ltd', industry: '' },
    custom_fields: { plan: '7', seats: 12 },
  });
});

test('an import of an export of companies changes nothing, whatever its records hold or lack', async () => {
  await make(customer, '/company', companyBody({ size: '', location_country: 'GB', domain: 'müller.de' }));
  await make(customer, '/company', companyBody({ custom_fields: { a: '1', b: 1, 'a.b': true, c: 'true' } }));
  await make(customer, '/contacts', contactBody({ company: { name: 'Made by name' } }));
  const before = await pagesOf('/company', {});
  const { body } = await customer.post('/company/export', { format: 'csv' });
  const settings = { object: 'companies', mode: 'update', match: 'id', format: 'csv' };
  const done = await importFile(app, customer, settings, String(body));
  expect(done).toMatchObject({ unchanged: before.length, failed: 0, warnings: 0 });
  expect(await pagesOf('/company', {})).toEqual(before);
});

/** Contacts that make a file larger than what the kernel buffers for a connection that nobody reads. */
const wide = 12_000;
const note = 'x'.repeat(4_000);
const silence = 5_000;
let owner: TestCustomer;
const open: Socket[] = [];
const config = parseConfig({
  LOG_LEVEL: 'silent',
  OVERLOAD_MS: '0',
  RATE_LIMITS: 'off',
  DATABASE_URL: app.url,
  REQUEST_TIMEOUT_MS: '700',
});
const server = buildApp({ config, db: app.db, catalog: app.catalog });
server.server.timeout = silence;
/** What requests have logged as a warning. */
const logged: unknown[][] = [];
server.addHook('onRequest', async ({ log }) => {
  log.warn = (...line: unknown[]) => void logged.push(line);
});

beforeAll(async () => {
  owner = await app.customer();
  await fillContacts(owner, wide, note);
  await server.listen({ host: '127.0.0.1', port: 0 });
});
afterAll(async () => {
  for (const socket of open) socket.destroy();
  await server.close();
});

/** Starts an export. The socket reads nothing until somebody listens to it. */
function start({ key }: TestCustomer = owner, format = 'csv'): Socket {
  const socket = connect((server.server.address() as AddressInfo).port, '127.0.0.1');
  open.push(socket);
  socket.on('error', () => undefined);
  const body = JSON.stringify({ format, fields: 'all' });
  const head = ['POST /api/ext/contacts/export HTTP/1.1', 'host: x', `authorization: X-API-Key ${key}`];
  socket.write(
    `${head.join('\r\n')}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
  );
  return socket;
}

/** Reads the first bytes of a response, then stops reading. */
async function firstBytes(socket: Socket): Promise<string> {
  const [bytes] = (await once(socket, 'data')) as [Buffer];
  socket.pause();
  return bytes.toString('latin1');
}

/** Reads until the server closes the connection or the response is complete. Returns its last bytes. */
function rest(socket: Socket): Promise<{ end: string; length: number }> {
  const read = { end: '', length: 0 };
  return new Promise((resolve) => {
    socket.on('data', (bytes: Buffer) => {
      read.length += bytes.length;
      read.end = (read.end + bytes.toString('latin1')).slice(-20);
      if (isComplete(read)) resolve(read);
    });
    socket.on('close', () => resolve(read));
    if (socket.closed) resolve(read);
    socket.resume();
  });
}

const isComplete = ({ end }: { end: string }): boolean => end.endsWith('\r\n0\r\n\r\n');
const patience = { timeout: 60_000, interval: 20 };
const status = async (socket: Socket): Promise<string> => (await firstBytes(socket)).slice(9, 12);
const searches = (): number => app.db.limiters.find(({ name }) => name === 'search')!.inside;

test('an export may last longer than other requests', async () => {
  const socket = start();
  await firstBytes(socket);
  await new Promise((resolve) => setTimeout(resolve, 1_000));
  const read = await rest(socket);
  expect(isComplete(read)).toBe(true);
  expect(read.length).toBeGreaterThan(wide * note.length);
});

test('an export reads no further while its caller reads nothing, and is closed then', async () => {
  const socket = start();
  await firstBytes(socket);
  await expect.poll(searches, patience).toBe(0);
  await expect.poll(() => server.inFlight.taken, patience).toBe(0);
  const read = await rest(socket);
  expect(isComplete(read)).toBe(false);
  expect(read.length).toBeLessThan(wide * note.length);
});

// The lock holds up other sessions on a cluster than the one that reads.
test.skipIf(isOnCitus()).each(['csv', 'xlsx'])(
  'an export as %s breaks the encoding if the database fails half-way (needs one server)',
  async (format) => {
    const socket = start(owner, format);
    await firstBytes(socket);
    const release = await lockTable(app, 'contacts');
    const read = rest(socket);
    await killWaiting();
    expect(isComplete(await read)).toBe(false);
    await expect
      .poll(() => logged, patience)
      .toContainEqual([{ customer: owner.id, err: expect.anything() }, 'export cut: it failed half-way']);
    await release();
    // Until the lost connections are replaced, a call can be 503.
    await expect.poll(async () => isComplete(await rest(start(owner, format))), patience).toBe(true);
  },
);

test.skipIf(isOnCitus())(
  'an export is an error response if it fails before its first record (needs one server)',
  async () => {
    const release = await lockTable(app, 'contacts');
    const socket = start();
    await killWaiting();
    const answer = await firstBytes(socket);
    expect(answer).toMatch(/^HTTP\/1\.1 503 /);
    expect(answer).toContain('content-type: application/json');
    expect(answer).not.toContain('content-disposition');
    await release();
  },
);

test('an export runs beside one other of the same customer; a third one is 429, without rate limits too', async () => {
  const running = [start(), start()];
  for (const socket of running) expect(await status(socket)).toBe('200');
  const third = await firstBytes(start());
  expect(third).toMatch(/^HTTP\/1\.1 429 /);
  expect(third).toMatch(/^retry-after: [1-9]/im);
  expect(third).toMatch(/"code":"rate_limited".*exports/);
  expect(await status(start(customer))).toBe('200');
  running[0]!.destroy();
  await expect.poll(async () => status(start()), patience).toBe('200');
  for (const socket of open) socket.destroy();
});

/** Terminates the session that waits for the lock. */
async function killWaiting(): Promise<void> {
  const [pid] = await waitersOf(app, 1);
  await asSuperuser((sql) => sql`select pg_terminate_backend(${pid!})`);
}
