import { randomUUID } from 'node:crypto';
import postgres from 'postgres';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { buildApp } from '../../src/app.ts';
import { openCatalog } from '../../src/catalog/open.ts';
import { parseConfig } from '../../src/process/config.ts';
import { insertUnlocks } from '../../src/queries/jobs/unlocks.ts';
import type { Prospect } from '../../src/schemas/prospects.ts';
import { person, writePeople } from '../catalog/people.ts';
import { creditsOf, customerWith, read, select, unlock, verify } from '../jobs/calls.ts';
import { jobBatches } from '../../src/jobs/workers.ts';
import { takeTurn } from '../../src/jobs/turns.ts';
import { contextOf, echo, entriesOf, verifyTurn, waitingMessages } from '../jobs/working.ts';
import { startApp } from '../setup/app.ts';
import { contactBody, inject, make, unique, type Answer, type TestCustomer } from '../setup/factories.ts';

const app = await startApp({ UNLOCK_COST: '3', VERIFY_COST: '2' });

/** Twelve people of one town, used by this file only. */
const town = unique('Town');
const people: Prospect[] = Array.from({ length: 12 }, (_, i) => person({ location_locality: town, score: i }));
const inTown = { filters: { location_locality: [town] } };

/** A service on the same database, with an unavailable search cluster. */
const down = buildDown();

beforeAll(async () => {
  await app.catalog.prepare();
  await writePeople(app.catalog, people);
  await app.catalog.finish();
});

afterAll(async () => {
  await down.app.close();
  await down.catalog.close();
});

function buildDown() {
  const dead = { ELASTICSEARCH_URL: 'http://127.0.0.1:9', ELASTICSEARCH_TIMEOUT_MS: '100' };
  const config = parseConfig({ LOG_LEVEL: 'trace', OVERLOAD_MS: '0', DATABASE_URL: app.url, ...dead });
  const catalog = openCatalog(config, app.db);
  return { app: buildApp({ config, db: app.db, catalog }), catalog };
}

const whileDown = (customer: TestCustomer, path: string, body: object, headers: object = {}): Promise<Answer> =>
  inject(down.app, 'POST', `/api/ext${path}`, body, { authorization: `X-API-Key ${customer.key}`, ...headers });

const countJobs = async (customer: TestCustomer): Promise<number> =>
  (await app.owner`select from jobs where customer_id = ${customer.id}`).count;

const starts: [name: string, start: (customer: TestCustomer) => Promise<Answer>, pool: string, cost: number][] = [
  ['unlock-contacts', (c) => unlock(c, { ...inTown, total_records: 2 }), 'subscription', 6],
  ['unlock-selected-contacts', (c) => select(c, { ids: [people[0]!._id, people[1]!._id] }), 'subscription', 6],
  [
    'verify-email',
    (c) => verify(c, { emails: [{ email: 'a@x.example' }, { email: 'b@x.example' }] }),
    'verification',
    4,
  ],
];

test.each(starts)(
  '%s returns the id and PENDING, and reserves the maximum cost of the job; with less it is 402, and changes nothing',
  async (_name, start, pool, cost) => {
    const queue = pool === 'subscription' ? 'unlock' : 'verify';
    const [customer, poor] = [
      await customerWith(app, { subscription: 10, verification: 10 }),
      await customerWith(app, { subscription: 1, verification: 1 }),
    ];
    const { status, body } = await start(customer);
    expect({ status, body }).toEqual({ status: 200, body: { id: expect.any(String), status: 'PENDING' } });
    const job = (await read(customer, body.id)).body;
    const none = { processed: 0, succeeded: 0, failed: 0, skipped: 0, error: null, waiting_for: null };
    expect(job).toEqual({
      id: body.id,
      type: expect.any(String),
      status: 'PENDING',
      sync_crm: false,
      total: 2,
      ...none,
      credits: { pool, reserved: cost, charged: 0, refunded: 0 },
      created_at: expect.any(String),
      started_at: null,
      finished_at: null,
    });
    expect((await creditsOf(customer))[pool]).toEqual({ balance: 10 - cost, reserved: cost });
    expect(await waitingMessages(app, queue, customer.id)).toBe(1);

    const refused = await start(poor);
    const shortage = { code: 'insufficient_credits', required: cost, available: 1, pool };
    const error = { statusCode: 402, error: 'Payment Required', message: expect.stringMatching(/\S/) };
    expect([refused.status, refused.body]).toEqual([402, { ...error, ...shortage }]);
    expect([await countJobs(poor), await waitingMessages(app, queue, poor.id)]).toEqual([0, 0]);
    expect((await creditsOf(poor))[pool]).toEqual({ balance: 1, reserved: 0 });
  },
);

test('unlock-contacts reserves credits only for matching prospects that are not unlocked yet, and a dry run says so', async () => {
  const customer = await customerWith(app, { subscription: 1_000 });
  await app.db.transaction((sql) => insertUnlocks(sql, customer.id, [people[0]!._id, people[1]!._id]));
  const dry = await unlock(customer, { ...inTown, total_records: 4, dry_run: true });
  expect([dry.status, dry.body]).toEqual([200, { matches: 10, cost: 12, available: 1_000 }]);
  expect(await countJobs(customer)).toBe(0);
  const { body } = await unlock(customer, { ...inTown, total_records: 10_000 });
  const job = (await read(customer, body.id)).body;
  expect(job).toMatchObject({ total: 10, credits: { reserved: 30 } });
  const [kept] = await app.owner`select request, cost from jobs where id = ${body.id}`;
  expect(kept).toEqual({ request: { filters: inTown.filters, total_records: 10_000 }, cost: 3 });
});

test('unlock-contacts is 503 while the catalog is down, and changes nothing', async () => {
  const customer = await customerWith(app, { subscription: 50 });
  for (const dry_run of [false, true]) {
    const body = { ...inTown, total_records: 1, dry_run };
    const answer = await whileDown(customer, '/service-handler/unlock-contacts', body);
    expect(answer).toMatchObject({ status: 503, body: { code: 'unavailable' } });
  }
  expect(await countJobs(customer)).toBe(0);
});

test('unlock-selected-contacts reserves for distinct ids that are not unlocked, known to the catalog or not, even while the catalog is down', async () => {
  const customer = await customerWith(app, { subscription: 100 });
  await app.db.transaction((sql) => insertUnlocks(sql, customer.id, [people[0]!._id]));
  const ids = [people[0]!._id, people[1]!._id, people[1]!._id.toUpperCase(), randomUUID()];
  const { body } = await whileDown(customer, '/service-handler/unlock-selected-contacts', { ids, sync_crm: true });
  const job = (await read(customer, body.id)).body;
  // The price is that of the other service, which uses the default.
  expect(job).toMatchObject({ total: 4, sync_crm: true, credits: { reserved: 2 } });
  const inputs = await app.owner`
      select position, item, is_duplicate from job_inputs where job_id = ${body.id} order by position`;
  expect(inputs.map((input) => ({ ...input }))).toEqual(
    ids.map((id, i) => ({ position: i + 1, item: id.toLowerCase(), is_duplicate: i === 2 })),
  );
});

test('unlock-selected-contacts reserves nothing for people who are known to be free, who stay free if they get an address meanwhile', async () => {
  const customer = await customerWith(app, { subscription: 3 });
  const work_email = 'gone@free.example';
  const free = [
    person({ work_email, emails: [work_email.toUpperCase()], verification_status: 'invalid' }),
    person({ work_email: 'n/a', emails: [] }),
  ];
  await writePeople(app.catalog, [...free, person(people[3])]);
  const ids = [...free, people[3]!].map(({ _id }) => _id);
  expect((await select(customer, { ids, dry_run: true })).body).toMatchObject({ matches: 3, cost: 3 });
  const { body } = await select(customer, { ids, max_credits: 3 });
  expect((await read(customer, body.id)).body.credits).toMatchObject({ reserved: 3 });
  await writePeople(app.catalog, [{ ...free[1]!, work_email: 'now@free.example' }]);
  await takeTurn('unlock', jobBatches)(contextOf(app), { customerId: customer.id });
  expect((await read(customer, body.id)).body).toMatchObject({
    status: 'COMPLETED',
    succeeded: 3,
    credits: { charged: 3, refunded: 0 },
  });
});

const verifyList = (customer: TestCustomer, list: string, headers?: Record<string, string>) =>
  customer.post(`/list-contact/verify-contacts/${list}`, undefined, headers);

async function listOf(customer: TestCustomer, emails: string[]): Promise<{ list: string; contacts: string[] }> {
  const contacts: string[] = [];
  for (const work_email of emails) contacts.push(await make(customer, '/contacts', contactBody({ work_email })));
  const list = (await customer.post('/list-contact', { name: unique('List') })).body.id as string;
  await customer.post('/list-contact-details/add-contacts', { list_id: list, contact_ids: contacts });
  return { list, contacts };
}

test('verify-contacts of more than 100,000 members is 409, and so is a copy of the list; neither changes anything', async () => {
  const customer = await customerWith(app, { verification: 1_000_000 });
  const { list, contacts } = await listOf(customer, ['a@x.example']);
  // Without the checks of each reference, which take most of the time.
  const superuser = postgres(app.superuserUrl, { max: 1 });
  await superuser`set session_replication_role = replica`;
  await superuser`
      with copies as (
        insert into contacts (customer_id, first_name, last_name, work_email, folded)
        select customer_id, '', '', '', (select jsonb_object_agg(key, '') from jsonb_object_keys(folded) key)
        from contacts, generate_series(1, 100000) where id = ${contacts[0]!}
        returning customer_id, id
      )
      insert into list_members (customer_id, list_id, contact_id) select customer_id, ${list}, id from copies`;
  await superuser.end();
  expect(await verifyList(customer, list)).toMatchObject({ status: 409, body: { code: 'conflict' } });
  expect(await countJobs(customer)).toBe(0);
  const copy = await customer.post('/list-contact/duplicate', { list_id: list, new_name: 'Copy' });
  expect(copy).toMatchObject({ status: 409, body: { errors: [{ path: '/list_id' }] } });
  expect((await customer.post('/list-contact/list', {})).body).toHaveLength(1);
});

const turn = ({ id }: TestCustomer, limit: number) => verifyTurn(echo(limit))(contextOf(app), { customerId: id });

const start = async (customer: TestCustomer, count: number): Promise<string> =>
  (await verify(customer, { emails: Array.from({ length: count }, (_, i) => ({ email: `${i}@x.example` })) })).body.id;

test('a job shows its progress, its results in order and its cost, page by page', async () => {
  const customer = await customerWith(app, { verification: 100 });
  const id = await start(customer, 5);
  await turn(customer, 3);
  const half = (await read(customer, id)).body;
  expect(half).toMatchObject({
    status: 'PROCESSING',
    processed: 3,
    succeeded: 3,
    credits: { reserved: 10, charged: 6, refunded: 0 },
  });
  expect(half.started_at).not.toBeNull();
  await turn(customer, 3);
  const whole = (await read(customer, id)).body;
  expect(whole).toMatchObject({
    status: 'COMPLETED',
    processed: 5,
    credits: { reserved: 10, charged: 10, refunded: 0 },
  });
  const results = (paginate?: object) => customer.post(`/service-handler/${id}/results`, paginate ? { paginate } : {});
  const first = await results({ limit: 2 });
  expect(first.body[0]).toMatchObject({ item: '0@x.example', status: 'succeeded', charged: 2, reused: false });
  const items = first.body.map(({ item }: { item: string }) => item);
  let cursor = first.headers['x-next-cursor'];
  while (cursor) {
    const next = await results({ limit: 2, cursor });
    items.push(...next.body.map(({ item }: { item: string }) => item));
    cursor = next.headers['x-next-cursor'];
  }
  expect(items).toEqual(Array.from({ length: 5 }, (_, i) => `${i}@x.example`));
  expect((await results({ page: 2, limit: 3 })).body.map(({ item }: { item: string }) => item)).toEqual(items.slice(3));
  expect((await results({ page: 1, cursor: first.headers['x-next-cursor'] })).status).toBe(400);
  expect((await results({ cursor: 'nonsense' })).body.errors).toMatchObject([{ path: '/paginate/cursor' }]);
});

test('a job that is cancelled keeps its results, skips the open items, returns their credits, and stays cancelled', async () => {
  const customer = await customerWith(app, { verification: 100 });
  const id = await start(customer, 5);
  await turn(customer, 2);
  const { status, body } = await customer.post(`/service-handler/${id}/cancel`);
  expect(status).toBe(200);
  expect(body).toMatchObject({
    status: 'CANCELLED',
    processed: 5,
    succeeded: 2,
    skipped: 3,
    credits: { reserved: 10, charged: 4, refunded: 6 },
  });
  expect(body).toEqual((await read(customer, id)).body);
  const results = (await customer.post(`/service-handler/${id}/results`)).body;
  expect(results.map((one: { status: string; reason: string | null }) => [one.status, one.reason])).toEqual([
    ['succeeded', null],
    ['succeeded', null],
    ['skipped', 'cancelled'],
    ['skipped', 'cancelled'],
    ['skipped', 'cancelled'],
  ]);
  expect(await customer.post(`/service-handler/${id}/cancel`)).toMatchObject({
    status: 409,
    body: { code: 'conflict' },
  });
  expect(await entriesOf(app, id)).toEqual(['reserve 10', 'charge 4', 'release 6']);
  expect((await creditsOf(customer)).verification).toEqual({ balance: 96, reserved: 0 });
});

test('a job is visible only to keys that could have started it', async () => {
  const customer = await customerWith(app, { subscription: 100, verification: 100 });
  const list = (await customer.post('/list-contact', { name: 'List' })).body.id;
  const jobs = {
    unlock_contacts: (await unlock(customer, { ...inTown, total_records: 1 })).body.id,
    unlock_selected_contacts: (await select(customer, { ids: [people[0]!._id] })).body.id,
    verify_email: await start(customer, 1),
    verify_list: (await customer.post(`/list-contact/verify-contacts/${list}`)).body.data.id,
  };
  for (const [scope, seen] of [
    ['payment_prospect:create', ['unlock_contacts', 'unlock_selected_contacts']],
    ['verify_email:create', ['verify_email', 'verify_list']],
    ['list_contacts:read', ['verify_list']],
  ] as const) {
    const key = await customer.withScopes([scope]);
    const listed = (await key.post('/service-handler/list')).body;
    expect(listed.map(({ type }: { type: string }) => type).toSorted(), scope).toEqual(seen);
    const hidden = Object.entries(jobs).filter(([type]) => !(seen as readonly string[]).includes(type));
    for (const [, id] of hidden) expect((await key.post(`/service-handler/${id}/cancel`)).status).toBe(404);
    for (const [type, id] of Object.entries(jobs)) {
      const expected = (seen as readonly string[]).includes(type) ? 200 : 404;
      expect((await read(key, id)).status, `${scope} ${type}`).toBe(expected);
      expect((await key.post(`/service-handler/${id}/results`)).status, `${scope} ${type}`).toBe(expected);
    }
  }
});

test('credits have a ledger, newest first, page by page, and the summary shows them without the reserved ones', async () => {
  const customer = await customerWith(app, { subscription: 100, verification: 50 });
  const { id } = (await select(customer, { ids: [randomUUID()] })).body;
  expect((await customer.get('/customer/summary')).body.subscription.balance).toBe(97);
  await customer.post(`/service-handler/${id}/cancel`);
  const ledger = (paginate: object) => customer.post('/customer/credits/ledger', { paginate });
  const { body, headers } = await ledger({ limit: 3 });
  const entry = { id: expect.any(String), pool: 'subscription', note: null, created_at: expect.any(String) };
  expect(body).toEqual([
    { ...entry, kind: 'release', amount: 3, balance_after: 100, reserved_after: 0, job_id: id },
    { ...entry, kind: 'reserve', amount: 3, balance_after: 97, reserved_after: 3, job_id: id },
    { ...entry, pool: 'verification', kind: 'grant', amount: 50, balance_after: 50, reserved_after: 0, job_id: null },
  ]);
  const rest = await ledger({ limit: 3, cursor: headers['x-next-cursor'] });
  expect(rest.body).toMatchObject([{ pool: 'subscription', kind: 'grant', amount: 100 }]);
  expect(rest.headers).not.toHaveProperty('x-next-cursor');
  expect((await ledger({ limit: 3, page: 2 })).body).toEqual(rest.body);
  expect(
    (
      await app
        .customer()
        .then((other) => other.post('/customer/credits/ledger', { paginate: { cursor: headers['x-next-cursor'] } }))
    ).status,
  ).toBe(400);
});
