import { beforeAll, describe, expect, test } from 'vitest';
import { saveVerifications } from '../../../src/queries/crm/contact-verifications.ts';
import { syncProspects } from '../../../src/queries/crm/crm-sync.ts';
import { person } from '../../catalog/people.ts';
import { startApp, type TestApp } from '../../setup/app.ts';
import { asSuperuser } from '../../setup/database.ts';
import { contactBody, make, type Answer, type TestCustomer } from '../../setup/factories.ts';
import { recount } from './recount.ts';

// Writes of a customer that has the maximum number of rules.

let app: TestApp;
beforeAll(async () => {
  app = await startApp();
});

/** The lists that `haveLists` inserts. */
interface Lists {
  lists: number;
  /** Number of rules of each list. */
  rules: number;
  /** Number of values of each rule. */
  values?: number;
  /** Suffix of each value. */
  ending?: string;
  /** Additional values of each rule; each follows a comma. */
  more?: string;
}

/**
 * Inserts lists with rules. List `i` matches contacts whose company name is `i-0-k`, and contacts whose custom field
 * `tier` is `i-j-k`, where 1 ≤ `j` < `rules` and 0 ≤ `k` < `values`.
 */
async function haveLists(
  customer: TestCustomer,
  { lists, rules, values = 100, ending = '', more = '' }: Lists,
): Promise<void> {
  await app.owner`
    insert into lists (customer_id, name, owner_id, rules)
    select ${customer.id}, 'List ' || i, ${customer.adminId}, (
      select jsonb_agg(jsonb_build_object(
        'field', case j when 0 then 'company.company_name' else 'custom_fields.tier' end,
        'operator', 'in',
        'value', (
          select string_agg(format('%s-%s-%s', i, j, k) || ${ending}, ', ') || ${more}
          from generate_series(0, ${values - 1}::integer) k
        ),
        'logic_operator', 'OR'
      ) order by j)
      from generate_series(0, ${rules - 1}::integer) j
    )
    from generate_series(0, ${lists - 1}::integer) i`;
  await app.owner`insert into rule_versions (customer_id) values (${customer.id})`;
}

/** Returns the number of members by list number, without empty lists, and expects the stored counts to agree. */
async function membersOf({ id }: TestCustomer): Promise<Record<string, number>> {
  const rows = await app.owner<{ list: string; members: number; kept: number }[]>`
    select split_part(l.name, ' ', 2) as list,
      (select count(*) from list_members m where m.customer_id = l.customer_id and m.list_id = l.id)::integer as members,
      (select coalesce(sum(k.records), 0) from counters k where k.customer_id = l.customer_id and k.counted = l.id::text)::integer as kept
    from lists l
    where l.customer_id = ${id}`;
  for (const { members, kept } of rows) expect(kept).toBe(members);
  return Object.fromEntries(rows.flatMap(({ list, members }) => (members > 0 ? [[list, members]] : [])));
}

describe('with 500 lists of 10 rules with 100 values each', () => {
  let customer: TestCustomer;
  beforeAll(async () => {
    customer = await app.customer();
    await haveLists(customer, { lists: 500, rules: 10 });
  });

  test('a contact is created, changed and deleted, and its company is renamed and deleted', async () => {
    const body = contactBody({ custom_fields: { tier: '7-3-42' }, company: { name: '8-0-1' } });
    const contact = await make(customer, '/contacts', body);
    expect(await membersOf(customer)).toEqual({ 7: 1, 8: 1 });
    const { status } = await customer.patch(`/contacts/${contact}`, { custom_fields: { tier: '499-9-99' } });
    expect(status).toBe(200);
    expect(await membersOf(customer)).toEqual({ 8: 1, 499: 1 });
    const company = (await customer.get(`/contacts/${contact}`)).body.company.id;
    expect((await customer.patch(`/company/${company}`, { company_name: '9-0-50' })).status).toBe(200);
    expect(await membersOf(customer)).toEqual({ 9: 1, 499: 1 });
    expect((await customer.delete(`/company/${company}`)).status).toBe(200);
    expect(await membersOf(customer)).toEqual({ 499: 1 });
    expect((await customer.delete(`/contacts/${contact}`)).status).toBe(200);
    expect(await membersOf(customer)).toEqual({});
  });

  test('a thousand prospects become contacts and are verified', async () => {
    const prospects = Array.from({ length: 1_000 }, (_, i) =>
      person({ work_email: `${i}@engines.example`, job_company_name: `${i % 20}-0-${i % 100}` }),
    );
    const ids = await app.db.transaction((sql) => syncProspects(sql, customer.id, prospects));
    const each = Object.fromEntries(Array.from({ length: 20 }, (_, i) => [i, 50]));
    expect(await membersOf(customer)).toEqual(each);
    const verifications = prospects.map(({ _id, work_email }) => ({
      address: work_email,
      status: 'invalid' as const,
      contactId: ids.get(_id)!,
    }));
    await app.db.transaction((sql) => saveVerifications(sql, customer.id, verifications));
    expect(await membersOf(customer)).toEqual(each);
  });
});

test('rules beyond today’s limit are evaluated, with values of any type', async () => {
  const customer = await app.customer();
  await haveLists(customer, { lists: 150, rules: 50, values: 1, more: ', 1, 2.5, true, false' });
  const contact = await make(customer, '/contacts', contactBody({ custom_fields: { tier: '7-3-0' } }));
  expect(await membersOf(customer)).toEqual({ 7: 1 });
  expect((await customer.patch(`/contacts/${contact}`, { custom_fields: { tier: 2.5 } })).status).toBe(200);
  expect(Object.keys(await membersOf(customer))).toHaveLength(150);
  await app.db.transaction((sql) => syncProspects(sql, customer.id, [person({ job_company_name: '149-0-0' })]));
  expect(await membersOf(customer)).toMatchObject({ 148: 1, 149: 2 });
});

test('rules that are too large to cache are evaluated too', async () => {
  const customer = await app.customer();
  const ending = 'x'.repeat(50);
  await haveLists(customer, { lists: 100, rules: 50, ending });
  const body = contactBody({ custom_fields: { tier: `7-3-42${ending}` }, company: { name: `99-0-1${ending}` } });
  const contact = await make(customer, '/contacts', body);
  expect(await membersOf(customer)).toEqual({ 7: 1, 99: 1 });
  await customer.patch(`/contacts/${contact}`, { custom_fields: { tier: `98-49-99${ending}` }, company: null });
  expect(await membersOf(customer)).toEqual({ 98: 1 });
});

test('one write begins or ends thousands of memberships, and every count is exact', async () => {
  const customer = await app.customer();
  const [name, other] = ['Analytical Engines Ltd', 'Difference Engines Ltd'];
  for (let i = 0; i < 20; i += 1) {
    const rules = [{ field: 'company.company_name', operator: i % 3 === 0 ? 'not_equals' : 'equals', value: name }];
    await customer.post('/list-contact', { name: `List ${i}`, rules });
  }
  const prospects = Array.from({ length: 500 }, (_, i) => person({ work_email: `${i}@engines.example` }));
  await app.db.transaction((sql) => syncProspects(sql, customer.id, prospects));
  const exact = async () => {
    const { lists, contacts } = await recount(app.owner, customer.id);
    expect(contacts).toEqual({ kept: 500, real: 500 });
    for (const { kept, members, shouldBe, wrong } of lists) {
      expect(wrong).toEqual([]);
      expect(members).toEqual(shouldBe);
      expect(kept).toBe(members.length);
    }
    return lists.map(({ kept }) => kept).toSorted((a, b) => a - b);
  };
  expect(await exact()).toEqual([...Array(7).fill(0), ...Array(13).fill(500)]);

  const [list] = await app.owner<{ id: string }[]>`
    select id from lists where customer_id = ${customer.id} and name = 'List 1'`;
  const kept = await app.owner<{ id: string }[]>`select id from contacts where customer_id = ${customer.id} limit 7`;
  const contact_ids = kept.map(({ id }) => id);
  await customer.post('/list-contact-details/add-contacts', { list_id: list!.id, contact_ids });
  const [company] = await app.owner<{ id: string }[]>`select id from companies where customer_id = ${customer.id}`;
  await customer.patch(`/company/${company!.id}`, { company_name: other });
  expect(await exact()).toEqual([...Array(12).fill(0), 7, ...Array(7).fill(500)]);
});

test('a write that waits for another write to compile the rules compiles them itself when the other fails', async () => {
  const customer = await app.customer();
  await haveLists(customer, { lists: 30, rules: 2 });
  const sessions = (condition: string) =>
    asSuperuser(async (sql) => {
      const rows = await sql.unsafe<{ pid: number }[]>(`
        select distinct l.pid
        from pg_locks l
        where l.database = (select oid from pg_database where datname = '${new URL(app.url).pathname.slice(1)}')
          and ${condition}`);
      return rows.map(({ pid }) => pid);
    });
  const writers = () => sessions(`l.granted and l.locktype = 'advisory' and l.mode = 'ShareLock'`);
  const answers: Promise<Answer>[] = [];
  await app.owner.begin(async (sql) => {
    await sql`lock table lists in access exclusive mode`;
    const [{ oid }] = await sql<[{ oid: number }]>`select 'lists'::regclass::oid as oid`;
    answers.push(customer.post('/contacts', contactBody({ custom_fields: { tier: '1-1-1' } })));
    const waiting = () => sessions(`not l.granted and l.relation = ${oid}`);
    await expect.poll(waiting, { timeout: 10_000 }).toHaveLength(1);
    answers.push(customer.post('/contacts', contactBody({ custom_fields: { tier: '2-1-1' } })));
    await expect.poll(writers, { timeout: 10_000 }).toHaveLength(2);
    const [reader] = await waiting();
    await asSuperuser((admin) => admin`select pg_terminate_backend(${reader!}, 5000)`);
  });
  expect((await Promise.all(answers)).map(({ status }) => status)).toEqual([503, 201]);
  expect(await membersOf(customer)).toEqual({ 2: 1 });
});
