import { randomInt } from 'node:crypto';
import { beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { settleCompanies } from '../../../src/jobs/settle-companies.ts';
import { sweepJobs } from '../../../src/jobs/sweep-jobs.ts';
import { settleBatch } from '../../../src/queries/memberships/company-settlements.ts';
import { updateContact } from '../../../src/queries/crm/contacts.ts';
import { syncProspects } from '../../../src/queries/crm/crm-sync.ts';
import { person } from '../../catalog/people.ts';
import { contextOf, waitingMessages } from '../../jobs/working.ts';
import { startApp, type TestApp } from '../../setup/app.ts';
import {
  companyBody,
  contactBody,
  grant,
  make,
  opportunityBody,
  type Answer,
  type TestCustomer,
} from '../../setup/factories.ts';
import { somebodyWaitsFor, waitingFor } from '../../setup/locks.ts';
import { startServerProcess } from '../../setup/server-process.ts';
import { recount } from './recount.ts';

// Tests companies that are too large to be changed or deleted with all their contacts in one transaction. No worker
// runs unless a test starts one, and reads must be exact until a worker settles the contacts.

let app: TestApp;
let customer: TestCustomer;

beforeAll(async () => {
  app = await startApp();
});
beforeEach(async () => {
  customer = await app.customer();
});

/** Number of contacts of a large company. A small company has up to 500. */
const large = 520;
const titles = ['Engineer', 'Clerk', ''];
const long = '2001-01-01T00:00:00.000Z';

const rulesets = [
  [{ field: 'company.company_name', operator: 'equals', value: 'acme' }],
  [
    { field: 'company.industry', operator: 'equals', value: 'mining' },
    { field: 'job_title', operator: 'equals', value: 'engineer' },
  ],
  [
    { field: 'company.company_name', operator: 'is_empty', value: '' },
    { field: 'job_title', operator: 'equals', value: 'clerk', logic_operator: 'OR' },
  ],
  [{ field: 'company_id', operator: 'is_not_empty', value: '' }],
  [{ field: 'company.company_name', operator: 'contains', value: 'glob' }],
  [{ field: 'job_title', operator: 'equals', value: 'engineer' }],
  [],
];

/**
 * Creates a company whose contacts were last updated long ago. Inserts the contacts in bulk, with the values that the
 * service would have written.
 */
async function companyOf(contacts: number, body: object = {}): Promise<string> {
  const id = await make(customer, '/company', companyBody({ company_name: 'Acme', industry: 'Mining', ...body }));
  await app.owner`
    insert into contacts (customer_id, first_name, last_name, work_email, job_title, company_id, updated_at, folded)
    select ${customer.id}, 'Ada', 'Lovelace', 'ada' || n || '@example.com', title, ${id}, ${long}::timestamptz + n * interval '-1 second',
      jsonb_build_object('first_name', 'ada', 'last_name', 'lovelace', 'work_email', 'ada' || n || '@example.com', 'job_title', lower(title),
        'industry', '', 'location_locality', '', 'location_country', '', 'location_region', '')
    from (select n, (${titles}::text[])[1 + n % 3] as title from generate_series(1, ${contacts}::int) n) one`;
  await app.owner`
    insert into counters values (${customer.id}, 'contacts', 0, ${contacts})
    on conflict (customer_id, counted, shard) do update set records = counters.records + excluded.records`;
  return id;
}

async function makeLists(): Promise<string[]> {
  const lists: string[] = [];
  for (const rules of rulesets) lists.push((await customer.post('/list-contact', { name: 'List', rules })).body.id);
  return lists;
}

const contactsOf = async (company: string): Promise<string[]> =>
  (
    await app.owner`select id from contacts where customer_id = ${customer.id} and company_id = ${company} order by id`
  ).map(({ id }) => id as string);
const isSettling = async (): Promise<boolean> =>
  (await app.owner`select from company_settlements where customer_id = ${customer.id}`).count > 0;
const settleSome = (size: number, by = customer) => app.db.transaction((sql) => settleBatch(sql, by.id, size));

async function settleAll(size: number, by = customer): Promise<void> {
  let outcome = await settleSome(size, by);
  while (outcome !== 'done') outcome = await settleSome(size, by);
}

type Contact = { id: string; updated_at: string; company: { id: string | null } };

/** Returns the contacts of all pages, read by cursor. */
async function pages(body: object): Promise<Contact[]> {
  const rows: Contact[] = [];
  let cursor: string | undefined;
  do {
    const answer = await customer.post('/contacts/list', {
      ...body,
      paginate: { limit: 100, ...(cursor ? { cursor } : {}) },
    });
    expect(answer.status).toBe(200);
    rows.push(...answer.body);
    cursor = answer.headers['x-next-cursor'] as string | undefined;
  } while (cursor);
  return rows;
}

const total = async (filters: object): Promise<number> =>
  (await customer.post('/contacts/metadata', { filters })).body.pagination.total_records;
const ids = (contacts: readonly { id: string }[]): string[] => contacts.map(({ id }) => id);
const sorted = (some: readonly string[]): string[] => some.toSorted().toReversed();

/**
 * Expects that every read equals the result computed directly from the rows. Nobody but settling workers may write
 * meanwhile.
 */
async function expectExact(): Promise<void> {
  const { lists, contacts, companies } = await recount(app.owner, customer.id);
  expect([contacts.kept, companies.kept]).toEqual([contacts.real, companies.real]);
  const shown = new Map<string, number>(
    (await customer.post('/list-contact/list', { limit: 100 })).body.map(
      ({ id, contacts_count }: { id: string; contacts_count: number }) => [id, contacts_count] as const,
    ),
  );
  for (const { id, shouldBe } of lists) {
    const filters = { list_id: id };
    expect(shown.get(id)).toBe(shouldBe.length);
    expect((await customer.get(`/list-contact/${id}`)).body.contacts_count).toBe(shouldBe.length);
    expect(await total(filters)).toBe(shouldBe.length);
    expect(ids(await pages({ filters }))).toEqual(sorted(shouldBe));
    const second = await customer.post('/contacts/list', { filters, paginate: { page: 2, limit: 50 } });
    expect(ids(second.body)).toEqual(sorted(shouldBe).slice(50, 100));
  }
  const inSome = new Set(lists.flatMap(({ shouldBe }) => shouldBe));
  expect(await total({ list_id: null })).toBe(contacts.real - inSome.size);
  const two = lists.slice(0, 2);
  const either = { list_id: two.map(({ id }) => id), job_title: 'clerk' };
  expect(await total(either)).toBe((await pages({ filters: either })).length);
}

async function expectOrderedByTime(): Promise<void> {
  const ascending = await pages({ order_by: { updated_at: 'ASC' } });
  const descending = await pages({ order_by: { updated_at: 'DESC' } });
  expect(ascending).toHaveLength(await total({}));
  for (const rows of [ascending, descending.toReversed()])
    expect(rows.map(({ updated_at }) => updated_at)).toEqual(rows.map(({ updated_at }) => updated_at).toSorted());
  const recent = { updated_at: { gt: long } };
  expect(await total(recent)).toBe(ascending.filter(({ updated_at }) => updated_at > long).length);
}

/** Expects that the rows themselves are right after all contacts are settled. */
async function expectSettled(): Promise<void> {
  expect(await isSettling()).toBe(false);
  for (const { kept, members, shouldBe, wrong, isFilling } of (await recount(app.owner, customer.id)).lists) {
    if (isFilling) continue;
    expect(wrong).toEqual([]);
    expect(members).toEqual(shouldBe);
    expect(kept).toBe(members.length);
  }
  await expectExact();
  await expectOrderedByTime();
}

describe('a change of a large company', () => {
  test('waits for no lock on its contacts, and every read is exact while they are settled', async () => {
    const company = await companyOf(large);
    await makeLists();
    const [first] = await contactsOf(company);
    const writer = await app.owner.reserve();
    await writer`begin`;
    await writer`select from contacts where customer_id = ${customer.id} and id = ${first!} for update`;
    const renamed = await customer.patch(`/company/${company}`, { company_name: 'Globex', industry: 'Food' });
    expect(renamed.status).toBe(200);
    await writer`rollback`;
    writer.release();
    expect(await isSettling()).toBe(true);
    await expectExact();
    expect(await settleSome(300)).toBe('more');
    await expectExact();
    await customer.patch(`/company/${company}`, { industry: 'Mining' });
    await expectExact();
    await settleAll(300);
    await expectSettled();
  });

  test('is settled for a contact only after an earlier write of this contact has ended', async () => {
    const company = await companyOf(large);
    await makeLists();
    const [first] = await contactsOf(company);
    let settling: Promise<void> | undefined;
    await app.db.transaction(async (sql) => {
      await updateContact(sql, customer.id, first!, { job_title: 'Engineer' });
      expect((await customer.patch(`/company/${company}`, { company_name: 'Globex', industry: 'Food' })).status).toBe(
        200,
      );
      settling = settleAll(300);
      await somebodyWaitsFor(sql, app.owner);
    });
    await settling;
    await expectSettled();
  });

  test('leaves nothing to settle if no list uses the changed fields', async () => {
    const company = await companyOf(large);
    await customer.post('/list-contact', { name: 'By title', rules: rulesets[5] });
    await customer.post('/list-contact', { name: 'By industry', rules: rulesets[1] });
    await customer.patch(`/company/${company}`, { company_name: 'Globex' });
    expect(await isSettling()).toBe(false);
    await customer.patch(`/company/${company}`, { industry: 'Food' });
    expect(await isSettling()).toBe(true);
    await settleAll(large);
    await expectSettled();
  });

  test('is exact in the counts of manual members and members by rule while contacts are written', async () => {
    const company = await companyOf(large);
    const lists = await makeLists();
    await customer.patch(`/company/${company}`, { company_name: 'Globex' });
    const [one, two, three, four] = await contactsOf(company);
    await settleSome(2);
    await customer.patch(`/contacts/${one!}`, { job_title: 'Engineer' });
    await customer.patch(`/contacts/${two!}`, { company: null });
    await customer.delete(`/contacts/${three!}`);
    await make(customer, '/contacts', contactBody({ company: { id: company }, list_ids: [lists[6]!] }));
    await make(customer, '/contacts', contactBody({ company: { name: 'Globex' } }));
    const add = (list: string, contact: string) =>
      customer.post('/list-contact-details/add-contacts', { list_id: list, contact_ids: [contact] });
    // By rule the contact is no longer a member of the first list; its row from the old company name still exists. It
    // is a member by rule of the list of all contacts with a company.
    expect((await add(lists[0]!, four!)).body.data).toEqual({ added: 1, already_members: 0 });
    expect((await add(lists[3]!, four!)).body.data).toEqual({ added: 0, already_members: 1 });
    await expectExact();
    await settleAll(100);
    await expectSettled();
  });

  test('stays exact while rules change and lists are duplicated or deleted', async () => {
    const company = await companyOf(2_500); // so many that a worker also fills lists whose rules change
    const lists = await makeLists();
    await customer.patch(`/company/${company}`, { company_name: 'Globex' });
    await settleSome(300);
    await customer.patch(`/list-contact/${lists[5]!}`, {
      rules: rulesets[0]!.map((rule) => ({ ...rule, value: 'GLOBEX' })),
    });
    await customer.post('/list-contact/duplicate', { list_id: lists[0]!, new_name: 'Copy' });
    await customer.delete(`/list-contact/${lists[1]!}`);
    await expectExact();
    await settleAll(1_000);
    await expectExact();
  });

  test('changes the tags of lists at once, and settling does not change them again', async () => {
    const company = await companyOf(large);
    const [list] = await makeLists();
    const tag = async () => (await customer.get(`/list-contact/${list!}`)).headers['etag'] as string;
    const before = await tag();
    await customer.patch(`/company/${company}`, { company_name: 'Globex' });
    const change = (etag: string) =>
      customer.patch(`/list-contact/${list!}`, { name: 'Renamed' }, { 'if-match': etag });
    expect((await change(before)).status).toBe(412);
    const meanwhile = await tag();
    await settleAll(300);
    expect(await tag()).toBe(meanwhile);
    expect((await change(meanwhile)).status).toBe(200);
  });

  test('lets a verification of a list cover exactly the members that the list shows', async () => {
    const company = await companyOf(large);
    const lists = await makeLists();
    await grant(app.fastify, customer.id, 'verification', 10_000);
    await customer.patch(`/company/${company}`, { industry: 'Food' });
    await make(
      customer,
      '/contacts',
      contactBody({ company: { name: 'Other', industry: 'Mining' }, job_title: 'Engineer' }),
    );
    for (const [list, addresses] of [
      [lists[0]!, large],
      [lists[1]!, 1],
    ] as const) {
      const { body } = await customer.post(`/list-contact/verify-contacts/${list}`);
      expect((await customer.get(`/service-handler/${body.data.id}`)).body.total).toBe(addresses);
    }
  });
});

describe('a deletion of a large company', () => {
  test('waits for no lock on its contacts, and is complete for every reader at once', async () => {
    const company = await companyOf(large);
    await companyOf(3, { company_name: 'Globex' });
    await makeLists();
    const [first, second, third] = await contactsOf(company);
    const opportunity = await make(
      customer,
      '/opportunities',
      await opportunityBody(customer, { company_id: company }),
    );
    const before = (await customer.get(`/contacts/${second!}`)).headers['etag'] as string;
    const writer = await app.owner.reserve();
    await writer`begin`;
    await writer`select from contacts where customer_id = ${customer.id} and id = ${first!} for update`;
    expect((await customer.delete(`/company/${company}`)).status).toBe(200);
    await writer`rollback`;
    writer.release();
    expect(await isSettling()).toBe(true);

    expect((await customer.get(`/company/${company}`)).body).toBeNull();
    expect((await customer.post('/company/list', {})).body).toHaveLength(1);
    expect((await customer.post('/company/metadata', {})).body.pagination.total_records).toBe(1);
    const named = await customer.post('/company/metadata', { filters: { company_name: 'Acme' } });
    expect(named.body.pagination.total_records).toBe(0);
    expect((await customer.patch(`/company/${company}`, { size: 'x' })).status).toBe(404);
    expect((await customer.delete(`/company/${company}`)).status).toBe(404);
    const refer = { company: { id: company } };
    expect((await customer.post('/contacts', contactBody(refer))).status).toBe(404);
    expect((await customer.patch(`/contacts/${second!}`, refer)).status).toBe(404);
    const deal = await opportunityBody(customer, { company_id: company });
    expect((await customer.post('/opportunities', deal)).status).toBe(404);
    expect((await customer.get(`/opportunities/${opportunity}`)).body.company_id).toBeNull();
    expect((await customer.patch(`/contacts/${second!}`, { job_title: 'x' }, { 'if-match': before })).status).toBe(412);
    const none = { id: null, company_name: '', industry: '' };
    const contact = (await customer.get(`/contacts/${third!}`)).body;
    expect(contact.company).toEqual(none);
    expect(await total({ company_id: company })).toBe(0);
    expect(await total({ company_id: null })).toBe(large);
    expect(await total({ search: 'acme' })).toBe(0);
    await expectExact();
    // A new company with the same name can be created.
    const renewed = await make(customer, '/contacts', contactBody({ company: { name: 'Acme' } }));
    expect((await customer.get(`/contacts/${renewed}`)).body.company.id).not.toBe(company);

    for (let i = 0; i < 3; i += 1) {
      await settleSome(150);
      await expectExact();
    }
    await settleAll(150);
    await expectSettled();
    expect((await app.owner`select from companies where id = ${company}`).count).toBe(0);
    expect((await customer.get(`/opportunities/${opportunity}`)).body.company_id).toBeNull();
  });

  test('is the time of the last change of each contact and opportunity, once it is settled', async () => {
    const company = await companyOf(large);
    const opportunity = await make(
      customer,
      '/opportunities',
      await opportunityBody(customer, { company_id: company }),
    );
    const paths = [`/contacts/${(await contactsOf(company))[0]!}`, `/opportunities/${opportunity}`];
    const read = () => Promise.all(paths.map(async (path) => (await customer.get(path)).body));
    const recent = [{ field: 'updated_at', operator: 'greater_than', value: long }];
    const list = (await customer.post('/list-contact', { name: 'Recent', rules: recent })).body.id;
    await customer.delete(`/company/${company}`);
    const before = await read();
    expect(await total({ list_id: list })).toBe(0);
    await settleAll(100);
    for (const [i, after] of (await read()).entries()) {
      expect(after.updated_at > before[i].updated_at).toBe(true);
      expect(after).toEqual({ ...before[i], updated_at: after.updated_at });
    }
    expect(await total({ updated_at: { gt: long } })).toBe(large);
    expect(await total({ list_id: list })).toBe(large);
    await expectSettled();
  });

  test('detaches all of many opportunities', async () => {
    const company = await companyOf(1);
    const body = await opportunityBody(customer, { company_id: company });
    const first = await make(customer, '/opportunities', body);
    await app.owner`
      insert into opportunities (customer_id, name, priority, stage_id, company_id, user_id_assigned, estimated_closing_date, close_date)
      select customer_id, name, priority, stage_id, company_id, user_id_assigned, estimated_closing_date, close_date
      from opportunities, generate_series(1, 600)
      where id = ${first}`;
    await customer.delete(`/company/${company}`);
    expect(await isSettling()).toBe(true);
    const list = async () => (await customer.post('/opportunities/list', { paginate: { limit: 100 } })).body;
    const meanwhile = await list();
    expect(meanwhile.every(({ company_id }: { company_id: string | null }) => company_id === null)).toBe(true);
    await settleAll(100);
    expect((await list()).map(({ id }: { id: string }) => id)).toEqual(meanwhile.map(({ id }: { id: string }) => id));
    expect((await app.owner`select from opportunities where company_id = ${company}`).count).toBe(0);
    await expectSettled();
  });

  test('after an unsettled change settles both', async () => {
    const company = await companyOf(large);
    await makeLists();
    await customer.patch(`/company/${company}`, { company_name: 'Globex' });
    await settleSome(300);
    await customer.delete(`/company/${company}`);
    await expectExact();
    await settleAll(300);
    await expectSettled();
  });

  test('leaves its contacts without a company when prospects are synchronised', async () => {
    const company = await companyOf(large);
    const [first] = await contactsOf(company);
    const { work_email } = (await customer.get(`/contacts/${first!}`)).body;
    await customer.delete(`/company/${company}`);
    const prospect = person({ work_email, emails: [work_email], job_company_name: 'Other' });
    const synced = await app.db.transaction((sql) => syncProspects(sql, customer.id, [prospect]));
    expect(synced.get(prospect._id)).toBe(first);
    expect((await customer.get(`/contacts/${first!}`)).body.company.company_name).toBe('Other');
    await settleAll(300);
    expect((await customer.get(`/contacts/${first!}`)).body.company.company_name).toBe('Other');
    await expectSettled();
  });
});

describe('workers', () => {
  const startWorker = () => startServerProcess(app.url, {}, ['src/cli.ts', 'work', '--json']);
  test('settle the contacts of a deleted company, and resume where a worker was killed in the middle of a batch', async () => {
    const company = await companyOf(1_500);
    const list = (await customer.post('/list-contact', { name: 'None', rules: [rulesets[2]![0]!] })).body.id;
    const count = async (): Promise<number> => (await customer.get(`/list-contact/${list}`)).body.contacts_count;
    const attached = async () => (await contactsOf(company)).length;
    expect(await count()).toBe(0);
    const late = (await contactsOf(company)).at(-1)!;
    await customer.delete(`/company/${company}`);
    expect(await count()).toBe(1_500);
    const writer = await app.owner.reserve();
    await writer`begin`;
    await writer`select from contacts where customer_id = ${customer.id} and id = ${late} for update`;
    const [us] = await writer<[{ pid: number }]>`select pg_backend_pid() as pid`;
    const worker = await startWorker();
    const waiting = () => waitingFor(us.pid, app.owner);
    await vi.waitFor(async () => expect((await waiting()).count).toBeGreaterThan(0), { timeout: 60_000, interval: 20 });
    expect(await attached()).toBeLessThan(1_500);
    await worker.stop('SIGKILL');
    await writer`rollback`;
    writer.release();
    expect(await count()).toBe(1_500);
    await app.owner`update pgboss.job set heartbeat_on = heartbeat_on - interval '1 minute' where state = 'active'`;
    const next = await startWorker();
    await vi.waitFor(async () => expect(await isSettling()).toBe(false), { timeout: 60_000, interval: 50 });
    expect(await next.stop()).toBe(0);
    expect(await attached()).toBe(0);
    await expectSettled();
  });

  test('get a turn from the sweep if none is queued', async () => {
    const company = await companyOf(large);
    await customer.delete(`/company/${company}`);
    await app.owner`delete from pgboss.job where data ->> 'customerId' = ${customer.id}`;
    await sweepJobs(contextOf(app), {});
    await sweepJobs(contextOf(app), {});
    expect(await waitingMessages(app, 'settle-companies', customer.id)).toBe(1);
    await settleCompanies()(contextOf(app), { customerId: customer.id });
    await expectSettled();
  });

  test('leave the remaining work of a long turn to another turn, and never settle the same customer at once', async () => {
    const company = await companyOf(large);
    await customer.delete(`/company/${company}`);
    await app.owner`delete from pgboss.job where data ->> 'customerId' = ${customer.id}`;
    await settleCompanies(0)(contextOf(app), { customerId: customer.id });
    expect(await isSettling()).toBe(true);
    expect(await waitingMessages(app, 'settle-companies', customer.id)).toBe(1);
    await app.db.transaction(async (sql) => {
      await settleBatch(sql, customer.id, 10);
      expect(await settleSome(10)).toBe('busy');
    });
    await settleAll(100);
    await expectSettled();
  });
});

describe('racing', () => {
  const pick = <T>(from: readonly T[]): T => from[randomInt(from.length)]!;

  /** Makes one random write. */
  async function write(world: { companies: string[]; contacts: string[]; lists: string[] }): Promise<Answer> {
    const dice = randomInt(100);
    const contact = `/contacts/${pick(world.contacts)}`;
    const fields = { company_name: pick(['Acme', 'Globex']), industry: pick(['Mining', 'Food']) };
    const company = pick([{ id: pick(world.companies) }, { name: 'Globex' }, {}]);
    if (dice < 10) return customer.patch(`/company/${pick(world.companies)}`, fields);
    if (dice < 12 && world.companies.length > 2)
      return customer.delete(`/company/${world.companies.splice(randomInt(world.companies.length), 1)[0]!}`);
    if (dice < 25) return customer.post('/contacts', contactBody({ job_title: pick(titles), company }));
    if (dice < 50) return customer.patch(contact, { job_title: pick(titles) });
    if (dice < 65) return customer.patch(contact, { company });
    if (dice < 70) return customer.delete(contact);
    const byHand = { list_id: pick(world.lists), contact_ids: [pick(world.contacts)] };
    if (dice < 80) return customer.post('/list-contact-details/add-contacts', byHand);
    if (dice < 90) return customer.post('/list-contact-details/remove-contacts', byHand);
    return customer.patch(`/list-contact/${pick(world.lists)}`, { rules: pick(rulesets) });
  }

  test('writes of companies, contacts and rules leave every read exact while workers settle', async () => {
    const companies = [await companyOf(large), await companyOf(large), await companyOf(large), await companyOf(20)];
    const lists = await makeLists();
    const contacts = (await Promise.all(companies.map(contactsOf))).flatMap((some) => some.slice(0, 40));
    const world = { companies: [...companies], contacts, lists };
    const statuses = new Set<number>();
    for (let round = 0; round < 3; round += 1) {
      const written = new AbortController();
      const settling = (async () => {
        while (!written.signal.aborted) await settleSome(40);
      })();
      const writer = async () => {
        for (let i = 0; i < 20; i += 1) statuses.add((await write(world)).status);
      };
      await Promise.all(Array.from({ length: 5 }, writer));
      // Compares what is read with what it should be while workers settle. Nothing else changes the data.
      await expectExact();
      written.abort();
      await settling;
    }
    expect(statuses.difference(new Set([200, 201, 404]))).toEqual(new Set());
    await settleAll(500);
    await expectSettled();
  });
});
