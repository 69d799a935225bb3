import { setTimeout as sleep } from 'node:timers/promises';
import postgres from 'postgres';
import { parseConfig } from '../src/process/config.ts';
import { openDatabase, type Database } from '../src/database/db.ts';
import { migrate } from '../src/database/migrate.ts';
import { openEmbeddedPostgres } from '../src/embedded-postgres/server.ts';
import type { JobContext } from '../src/jobs/handler.ts';
import { settleCompanies } from '../src/jobs/settle-companies.ts';
import { updateCompany, createCompany, deleteCompany } from '../src/queries/crm/companies.ts';
import { updateContact, countContacts, createContact, listContacts } from '../src/queries/crm/contacts.ts';
import { createCustomer } from '../src/queries/accounts/customers.ts';
import { fillNextBatch } from '../src/queries/memberships/list-fills.ts';
import { createList, findList, listLists } from '../src/queries/crm/lists.ts';
import { createUser } from '../src/queries/accounts/users.ts';
import { commandLine } from '../src/schemas/audit.ts';
import { ruleset } from './lists.ts';
import { fillContacts } from './people.ts';

const listsWithRules = 13;

interface Bench {
  db: Database;
  owner: postgres.Sql;
  customerId: string;
  /** The list whose members are those of companies in mining, among others. */
  list: string;
}

/** A change and the deletion of a company that half of the contacts belong to, and what others notice of it. */
export async function benchCompanies(contacts: number): Promise<void> {
  const server = await openEmbeddedPostgres('', { throwaway: true });
  await migrate(server.ownerUrl);
  const owner = postgres(server.ownerUrl, { max: 1, onnotice: () => {} });
  const db = openDatabase(parseConfig({ LOG_LEVEL: 'silent' }), server.serviceUrl);
  const bench = { db, owner, ...(await makeCustomer(db, owner, 2 * contacts)) };
  const company = await db.transaction((sql) =>
    createCompany(sql, bench.customerId, { type: 'customer', company_name: 'Large', industry: 'Mining' }),
  );
  await owner`
    update contacts set company_id = ${company}
    where customer_id = ${bench.customerId}
      and id in (select id from contacts where customer_id = ${bench.customerId} order by hashtext(id::text) limit ${contacts})`;
  await fillLists(bench);
  await owner`vacuum analyze`;
  print('undisturbed', await watched(bench, async () => sleep(3_000)));
  const change = (industry: string) =>
    db.transaction((sql) => updateCompany(sql, bench.customerId, company, { industry }));
  await measure(bench, 'change of industry', () => change('Food'));
  await measure(bench, 'deletion', () => db.transaction((sql) => deleteCompany(sql, bench.customerId, company)));
  await owner.end({ timeout: 1 });
  await db.close();
  await server.close();
}

/** A customer with contacts and lists with rules. */
export async function makeCustomer(db: Database, owner: postgres.Sql, contacts: number) {
  const { customerId, userId } = await db.transaction(async (sql) => {
    const { id } = await createCustomer(sql, { business_name: 'Bench', country: null, city: null });
    const user = { email: `${id}@example.com`, name: 'Bench', role: 'admin' as const, passwordHash: 'none' };
    return { customerId: id, userId: (await createUser(sql, id, user, commandLine))!.id };
  });
  await fillContacts(owner, customerId, contacts);
  const lists: string[] = [];
  for (let i = 0; i < listsWithRules; i += 1) {
    const made = await db.transaction((sql) =>
      createList(sql, customerId, userId, { name: `List ${i}`, rules: ruleset(i) }),
    );
    lists.push(made.id);
  }
  return { customerId, userId, list: lists[3]! };
}

async function fillLists({ db, customerId }: Bench): Promise<void> {
  while ((await db.transaction((sql) => fillNextBatch(sql, customerId))) === 'more');
}

async function measure(bench: Bench, what: string, work: () => Promise<unknown>): Promise<void> {
  const { db, customerId } = bench;
  const answered = await watched(bench, async () => void (await work()));
  print(`${what}: answered`, answered);
  const reads = await readsOf(bench);
  for (const [read, ms] of Object.entries(reads)) print(`${what}, not settled: ${read}`, { ms });
  const context = { db, stopping: new AbortController().signal } as unknown as JobContext;
  print(`${what}: settled`, await watched(bench, () => settleCompanies(3_600)(context, { customerId })));
  const after = await readsOf(bench);
  for (const [read, ms] of Object.entries(after)) print(`${what}, settled: ${read}`, { ms });
}

/** Milliseconds of what lasts and, at the same time, of the slowest writes of contacts, one after the other. */
export async function watched({ db, owner, customerId }: Omit<Bench, 'list'>, work: () => Promise<void>) {
  const ids = (
    await owner`select id from contacts where customer_id = ${customerId} order by hashtext(id::text || 'x') limit 2000`
  ).map(({ id }) => id as string);
  const done = new AbortController();
  let [slowestChange, slowestCreate, writes] = [0, 0, 0];
  const writer = async (offset: number) => {
    for (let i = offset; !done.signal.aborted; i += 2, writes += 1) {
      const id = ids[i % ids.length]!;
      const change = () => db.transaction((sql) => updateContact(sql, customerId, id, { gender: `${i}` }));
      slowestChange = Math.max(slowestChange, await milliseconds(change));
      const body = { first_name: 'A', last_name: 'B', work_email: 'a@b.example', phone_numbers: [] } as never;
      const create = () => db.transaction((sql) => createContact(sql, customerId, body));
      if (i % 5 === 0) slowestCreate = Math.max(slowestCreate, await milliseconds(create));
    }
  };
  const writers = [writer(0), writer(1)];
  await sleep(50);
  const ms = await milliseconds(work);
  done.abort();
  await Promise.all(writers);
  return { ms, 'slowest PATCH of a contact': slowestChange, 'slowest POST': slowestCreate, writes };
}

async function readsOf({ db, customerId, list }: Bench): Promise<Record<string, number>> {
  const filters = { list_id: list };
  const reads: Record<string, () => Promise<unknown>> = {
    'a page of all contacts': () => listContacts(db, customerId, {}),
    'a page by time of change': () => listContacts(db, customerId, { order_by: { updated_at: 'DESC' } }),
    'a page of a list': () => listContacts(db, customerId, { filters }),
    'a page of a list, filtered': () => listContacts(db, customerId, { filters: { ...filters, score: { gt: 50 } } }),
    'its members counted': () => countContacts(db, customerId, { filters }),
    'that list': () => findList(db, customerId, list),
    'a page of lists with counts': () => listLists(db, customerId, {}),
  };
  const times: Record<string, number> = {};
  for (const [what, read] of Object.entries(reads)) {
    await read();
    times[what] = await milliseconds(read);
  }
  return times;
}

/** How long something takes. */
export async function milliseconds(work: () => Promise<unknown>): Promise<number> {
  const start = performance.now();
  await work();
  return performance.now() - start;
}

/** Prints a line of figures. */
export function print(what: string, figures: Record<string, number>): void {
  const shown = Object.entries(figures).map(
    ([name, value]) => `${name} ${value < 10 ? value.toFixed(1) : Math.round(value)}`,
  );
  process.stdout.write(`  ${what.padEnd(58)}${shown.join('  ')}\n`);
}
