import postgres from 'postgres';
import { parseConfig } from '../src/process/config.ts';
import { openDatabase, type Database } from '../src/database/db.ts';
import { migrate } from '../src/database/migrate.ts';
import { openEmbeddedPostgres } from '../src/embedded-postgres/server.ts';
import { updateContact, countContacts, createContact, listContacts } from '../src/queries/crm/contacts.ts';
import { createCustomer } from '../src/queries/accounts/customers.ts';
import { fillNextBatch } from '../src/queries/memberships/list-fills.ts';
import { updateList, createList, findList, listLists } from '../src/queries/crm/lists.ts';
import { createUser } from '../src/queries/accounts/users.ts';
import { commandLine } from '../src/schemas/audit.ts';
import type { RuleGiven } from '../src/schemas/lists.ts';
import { contactBody } from '../test/setup/factories.ts';
import { fillContacts } from './people.ts';
import { alternate } from './run.ts';

const callers = 10;
const listsInAll = 25;
export const listsWithRules = 13;

/** Thirteen lists of rules as people make them, two rules each and of very unequal size. */
export const ruleset = (i: number): RuleGiven[] =>
  (
    [
      [
        { field: 'job_title', operator: 'contains', value: 'engineer' },
        { field: 'location_country', operator: 'in', value: 'DE, FR' },
      ],
      [
        { field: 'industry', operator: 'equals', value: 'Retail' },
        { field: 'score', operator: 'greater_than', value: '70' },
      ],
      [{ field: 'work_email', operator: 'ends_with', value: `company${i}.example` }],
      [
        { field: 'company.industry', operator: 'equals', value: 'Mining' },
        { field: 'last_name', operator: 'starts_with', value: `last${i}`, logic_operator: 'OR' },
      ],
    ] satisfies RuleGiven[][]
  )[i % 4]!;

const manyLists = 100;

/** A hundred lists of five rules; a contact that `creates` makes is in eight of them on average, in 25 at most. */
const rulesetOfMany = (i: number): RuleGiven[] => [
  { field: 'job_title', operator: 'contains', value: ['engineer', 'clerk', 'baker', 'head'][i % 4]! },
  { field: 'location_country', operator: 'in', value: 'DE, FR, IT' },
  { field: 'industry', operator: 'not_equals', value: 'Mining' },
  { field: 'score', operator: 'greater_than', value: String(i), logic_operator: 'OR' },
  { field: 'custom_fields.plan', operator: 'in', value: 'gold, silver' },
];

interface Bench {
  db: Database;
  owner: postgres.Sql;
}

/** Lists, their members and counts, at the service's own functions: what HTTP adds is the other suites' matter. */
export async function benchLists(most: number, rounds: number): Promise<void> {
  const server = await openEmbeddedPostgres('', { throwaway: true });
  await migrate(server.ownerUrl);
  const owner = postgres(server.ownerUrl, { max: 1, onnotice: () => {} });
  const db = openDatabase(parseConfig({ LOG_LEVEL: 'silent' }), server.serviceUrl);
  await benchWrites({ db, owner }, most, rounds);
  await benchManyLists({ db, owner }, rounds);
  await owner.end({ timeout: 1 });
  await db.close();
  await server.close();
}

interface Customer {
  id: string;
  userId: string;
}

async function makeCustomer({ db, owner }: Bench, contacts: number): Promise<Customer> {
  const customer = await db.transaction(async (sql) => {
    const { id } = await createCustomer(sql, { business_name: 'Bench', country: null, city: null });
    const user = { email: `${id}@example.com`, name: 'Bench', role: 'admin' as const, passwordHash: 'none' };
    return { id, userId: (await createUser(sql, id, user, commandLine))!.id };
  });
  await fillContacts(owner, customer.id, contacts);
  return customer;
}

const rulesOfFew = (i: number): RuleGiven[] => (i < listsWithRules ? ruleset(i) : []);

async function makeLists(
  { db }: Bench,
  { id, userId }: Customer,
  count = listsInAll,
  rulesOf = rulesOfFew,
): Promise<void> {
  for (let i = 0; i < count; i += 1) {
    const rules = rulesOf(i);
    await db.transaction((sql) => createList(sql, id, userId, { name: `List ${i}`, rules }));
    await finish(db, id);
  }
}

/** What the worker does; answers how long it took (s). */
async function finish(db: Database, customerId: string): Promise<number> {
  const start = performance.now();
  while ((await db.transaction((sql) => fillNextBatch(sql, customerId))) === 'more');
  return (performance.now() - start) / 1000;
}

async function benchWrites(bench: Bench, most: number, rounds: number): Promise<void> {
  const few = 10_000;
  const [plainFew, plainMost] = [await makeCustomer(bench, few), await makeCustomer(bench, most)];
  const [listedFew, listedMost] = [await makeCustomer(bench, few), await makeCustomer(bench, most)];
  await makeLists(bench, listedFew);
  await makeLists(bench, listedMost);
  await bench.owner`vacuum analyze`;

  const perSecond =
    ({ id }: Customer) =>
    () =>
      creates(bench.db, id, 2);
  const rates = await alternate(rounds, {
    plainFew: perSecond(plainFew),
    listedFew: perSecond(listedFew),
    plainMost: perSecond(plainMost),
    listedMost: perSecond(listedMost),
  });
  print('creates/s, no lists', `${few} contacts`, rates.plainFew, `${most} contacts`, rates.plainMost);
  print(
    `creates/s, ${listsWithRules} lists with rules`,
    `${few} contacts`,
    rates.listedFew,
    `${most} contacts`,
    rates.listedMost,
  );
  ratio(`cost of ${listsWithRules} lists with rules, ${few} contacts`, rates.plainFew / rates.listedFew);
  ratio(`cost of ${listsWithRules} lists with rules, ${most} contacts`, rates.plainMost / rates.listedMost);
  ratio('cost of the other contacts, no lists', rates.plainFew / rates.plainMost);
  ratio('cost of the other contacts, with lists', rates.listedFew / rates.listedMost);
  await benchReads(bench, listedMost, rounds);
  await benchRuleChange(bench, listedMost);
}

/** What a write costs with so many lists of five rules, in creates and in changes. */
async function benchManyLists(bench: Bench, rounds: number): Promise<void> {
  const [plain, listed] = [await makeCustomer(bench, 2_000), await makeCustomer(bench, 2_000)];
  await makeLists(bench, listed, manyLists, rulesetOfMany);
  await bench.owner`vacuum analyze`;
  const rates = await alternate(rounds, {
    plainCreates: () => creates(bench.db, plain.id, 2),
    listedCreates: () => creates(bench.db, listed.id, 2),
    plainChanges: () => changes(bench, plain.id, 2),
    listedChanges: () => changes(bench, listed.id, 2),
  });
  print(`creates/s`, 'no lists', rates.plainCreates, `${manyLists} lists of 5 rules`, rates.listedCreates);
  print(`changes/s`, 'no lists', rates.plainChanges, `${manyLists} lists of 5 rules`, rates.listedChanges);
  ratio(`cost of ${manyLists} lists, of a create (≤ 3)`, rates.plainCreates / rates.listedCreates);
  ratio(`cost of ${manyLists} lists, of a change (≤ 3)`, rates.plainChanges / rates.listedChanges);
}

/** Contacts changed a second, each so that it enters and leaves lists. */
async function changes({ db, owner }: Bench, customerId: string, seconds: number): Promise<number> {
  const contacts = await owner<{ id: string }[]>`select id from contacts where customer_id = ${customerId} limit 1000`;
  const end = performance.now() + seconds * 1000;
  let changed = 0;
  const caller = async () => {
    while (performance.now() < end) {
      const [contact, job_title] = [contacts[changed % contacts.length]!, ['Engineer', 'Clerk', 'Baker'][changed % 3]!];
      changed += 1;
      await db.transaction((sql) => updateContact(sql, customerId, contact.id, { job_title, location_country: 'DE' }));
    }
  };
  await Promise.all(Array.from({ length: callers }, caller));
  return changed / seconds;
}

/** Contacts made a second, by so many callers. */
async function creates(db: Database, customerId: string, seconds: number): Promise<number> {
  const end = performance.now() + seconds * 1000;
  let made = 0;
  const caller = async () => {
    while (performance.now() < end) {
      const [country, title] = [['DE', 'US', 'JP'][made % 3]!, ['Engineer', 'Clerk'][made % 2]!];
      const body = contactBody({ job_title: title, industry: 'Retail', location_country: country }) as never;
      await db.transaction((sql) => createContact(sql, customerId, body));
      made += 1;
    }
  };
  await Promise.all(Array.from({ length: callers }, caller));
  return made / seconds;
}

async function benchReads({ db, owner }: Bench, { id }: Customer, rounds: number): Promise<void> {
  const lists = await listLists(db, id, {});
  const largest = lists.rows.toSorted((a, b) => b.contacts_count - a.contacts_count)[0]!;
  await owner`vacuum analyze list_members`;
  const filters = { list_id: largest.id };
  const first = await listContacts(db, id, { filters });
  const cursor = first.nextCursor!;
  const times = await alternate(rounds * 20, {
    'a page of all contacts': () => milliseconds(() => listContacts(db, id, {})),
    [`a page of ${lists.rows.length} lists with counts`]: () => milliseconds(() => listLists(db, id, {})),
    [`a page of one list of ${largest.contacts_count}`]: () => milliseconds(() => listContacts(db, id, { filters })),
    'the next page, by cursor': () => milliseconds(() => listContacts(db, id, { filters, paginate: { cursor } })),
    'its members counted': () => milliseconds(() => countContacts(db, id, { filters })),
    'all contacts counted': () => milliseconds(() => countContacts(db, id, {})),
  });
  for (const [what, ms] of Object.entries(times)) print(what, 'median ms', ms);
}

async function benchRuleChange({ db }: Bench, { id, userId }: Customer): Promise<void> {
  const { id: list } = await db.transaction((sql) =>
    createList(sql, id, userId, { name: 'Changed', rules: ruleset(1) }),
  );
  await finish(db, id);
  const change = () => db.transaction((sql) => updateList(sql, id, list, { rules: ruleset(0) }));
  print('a change of rules, answered', 'ms', await milliseconds(change));
  const evaluating = await milliseconds(() => findList(db, id, list));
  const filling = finish(db, id);
  const [alone, beside] = [await creates(db, id, 2), await filling.then(() => creates(db, id, 2))];
  print('its count evaluated while it is filled', 'ms', evaluating);
  print('filled', 's', await filling);
  print('creates/s', 'while it is filled', alone, 'after', beside);
}

async function milliseconds(work: () => Promise<unknown>): Promise<number> {
  const start = performance.now();
  await work();
  return performance.now() - start;
}

const ratio = (what: string, value: number): void => print(what, 'ratio', value);

function print(what: string, ...figures: (string | number)[]): void {
  const shown = figures.map((figure) =>
    typeof figure === 'number' ? (figure < 100 ? figure.toFixed(2) : Math.round(figure)) : figure,
  );
  process.stdout.write(`  ${what.padEnd(48)}${shown.join('  ')}\n`);
}
