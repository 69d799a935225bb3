import { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { faker } from '@faker-js/faker/locale/en';
import { randomBytes } from 'node:crypto';
import type { Catalog } from '../catalog/catalog.ts';
import { importPeople } from '../catalog/import-people.ts';
import type { Database, Transaction } from '../database/db.ts';
import { DomainError, isUnavailable } from '../errors.ts';
import { listUnfinishedImports } from '../queries/jobs/catalog-imports.ts';
import { generatePeople, textOf } from './generate-people.ts';
import { findContacts } from '../queries/crm/contacts.ts';
import { companyWrites, contactWrites } from '../queries/crm/record-batches.ts';
import { syncProspects } from '../queries/crm/crm-sync.ts';
import { createList } from '../queries/crm/lists.ts';
import { activityWrites } from '../queries/crm/activities.ts';
import { addMembers } from '../queries/crm/list-members.ts';
import { opportunityWrites } from '../queries/crm/opportunities.ts';
import { withDeferredWrites } from '../queries/records/deferred-writes.ts';
import { listPipelinesWithStages } from '../queries/crm/pipelines.ts';
import { productWrites } from '../queries/crm/products.ts';
import type { ActivityCreate } from '../schemas/activities.ts';
import type { ListCreate } from '../schemas/lists.ts';
import { priorities } from '../schemas/opportunities.ts';
import type { ProductCreate } from '../schemas/products.ts';
import type { Config } from '../process/config.ts';
import { startJob } from '../jobs/start-job.ts';
import { planUnlock } from '../jobs/unlocks.ts';
import { hashPassword } from '../accounts/users.ts';
import { issueKey } from '../queries/accounts/api-keys.ts';
import { grantCredits } from '../queries/jobs/credits.ts';
import { hasCustomerWithoutUser, createCustomer } from '../queries/accounts/customers.ts';
import { findAccountByEmail, createUser, setPassword } from '../queries/accounts/users.ts';
import { commandLine, type User } from '../schemas/accounts.ts';
import { pools, type UnlockContacts } from '../schemas/jobs.ts';
import { scopes } from '../schemas/scopes.ts';

const count = 5_000;
const seed = 1;
const source = 'people of the demo';
const retryTimeoutMs = 120_000;
const pollMs = 250;

/**
 * Imports generated people into an empty catalog. Waits while another process imports.
 * @returns the number of people in the catalog
 * @throws DomainError `unavailable` if the catalog does not respond; `conflict` if the import of another process takes
 * too long
 */
export async function loadDemoCatalog(db: Database, catalog: Catalog): Promise<number> {
  for (const start = performance.now(); ; await sleep(pollMs)) {
    try {
      return await loadUnlessFilled(db, catalog);
    } catch (error) {
      const isTaken = error instanceof DomainError && error.code === 'conflict';
      if (!isTaken || performance.now() - start > retryTimeoutMs) throw error;
    }
  }
}

async function loadUnlessFilled(db: Database, catalog: Catalog): Promise<number> {
  const unfinished = await db.search(listUnfinishedImports);
  const people = await catalog.count({ criteria: [] });
  if (people > 0 && unfinished.every((load) => load.source !== source)) return people;
  await importPeople(db, catalog, {
    chunks: Readable.from(textOf(generatePeople(count, seed)).map((text) => Buffer.from(text))),
    format: 'ndjson',
    source,
    onBad: () => undefined,
    onProgress: () => undefined,
  });
  return catalog.count({ criteria: [] });
}

interface Team {
  customerId: string;
  userIds: string[];
  contactIds: string[];
}

const lists: ListCreate[] = [
  {
    name: 'Germany',
    description: 'Everybody who sits in Germany',
    rules: [{ field: 'location_country', operator: 'equals', value: 'DE' }],
  },
  {
    name: 'Engineers and architects',
    description: 'By job title, whoever they work for',
    rules: [
      { field: 'job_title', operator: 'contains', value: 'engineer' },
      { field: 'job_title', operator: 'contains', value: 'architect', logic_operator: 'OR' },
    ],
  },
  {
    name: 'Technology and finance outside America',
    description: 'Two industries, without the Americas',
    rules: [
      { field: 'company.industry', operator: 'in', value: 'Information Technology, Financial Services' },
      { field: 'location_country', operator: 'not_in', value: 'US, BR' },
    ],
  },
];

const products: ProductCreate[] = [
  { name: 'Starter plan', price: 29, unit: 'seat' },
  { name: 'Team plan', price: 79.5, unit: 'seat' },
  { name: 'Onboarding workshop', price: 1250, unit: 'day' },
  { name: 'Data import', price: 0.0125, unit: 'record' },
  { name: 'Priority support', price: 490, unit: 'month' },
  { name: 'Printed handbook', price: 19.99, unit: 'piece', active: false },
];

async function makeDemoSales(sql: Transaction, team: Team): Promise<void> {
  faker.seed(20_260_102);
  const { customerId, userIds, contactIds } = team;
  await describeCompanies(sql, team);
  for (const list of lists) await createList(sql, customerId, userIds[0]!, list);
  const fair = await createList(sql, customerId, userIds[0]!, {
    name: 'Met at the fair',
    description: 'Put in by hand',
  });
  await addMembers(sql, customerId, { list_id: fair.id, contact_ids: contactIds.slice(0, 40) });
  const productIds: string[] = [];
  for (const product of products) productIds.push(await productWrites.create(sql, customerId, product));
  const [pipeline] = await listPipelinesWithStages(sql, customerId);
  for (const [i, stage] of pipeline!.stages.entries())
    for (let n = 0; n < 6 - i / 2; n += 1) await makeOpportunity(sql, team, stage, productIds);
  await makeActivities(sql, team);
}

const sizes = ['1-10', '11-50', '51-200', '201-500', '501-1000', '1001-5000'];

/** Says of each company of the contacts what it is to the customer, how large it is, and where it sits. */
async function describeCompanies(sql: Transaction, { customerId, contactIds }: Team): Promise<void> {
  const contacts = await findContacts(sql, customerId, contactIds);
  const byCompany = new Map(contacts.flatMap((one) => (one.company.id ? [[one.company.id, one] as const] : [])));
  const items = Array.from(byCompany, ([id, { location_locality, location_country }]) => ({
    id,
    type: faker.helpers.arrayElement(['customer', 'prospect', 'prospect', 'partner']),
    size: faker.helpers.arrayElement(sizes),
    location_locality,
    location_country,
  }));
  const batch = { operation: 'update', match: 'id', isAtomic: true, items } as const;
  await withDeferredWrites(sql, customerId, (deferred) => companyWrites.write(sql, customerId, batch, deferred));
}

const past: Pick<ActivityCreate, 'type' | 'title' | 'body'>[] = [
  { type: 'note', body: 'Met at the fair. Wants to replace their spreadsheets before the end of the year.' },
  { type: 'note', body: 'Budget is approved. Purchasing asks for references in the same industry.' },
  { type: 'call', title: 'First call', body: 'Twelve seats to begin with. Asked about the import of old data.' },
  { type: 'call', title: 'No answer', body: '' },
  { type: 'meeting', title: 'Demo with the team', body: 'They liked the lists. Open point: single sign-on.' },
  { type: 'email', title: 'Sent the offer', body: 'Team plan with one day of onboarding.' },
];
const tasks = ['Call back', 'Send the offer', 'Ask for references', 'Prepare the demo', 'Renew the contract'];
const dayMs = 86_400_000;

async function makeActivities(sql: Transaction, { customerId, userIds, contactIds }: Team): Promise<void> {
  const ofContact = (contact_id: string, i: number): ActivityCreate[] => {
    const assigned_to = faker.helpers.arrayElement(userIds);
    const happened = faker.helpers.arrayElements(past, { min: 1, max: 3 }).map((activity) => ({
      ...activity,
      contact_id,
      occurred_at: faker.date.recent({ days: 90 }).toISOString(),
    }));
    if (i % 3 > 0) return happened;
    const due = Date.now() + faker.number.int({ min: -20, max: 40 }) * dayMs;
    const isDone = due < Date.now() && i % 2 === 0;
    const task = { type: 'task' as const, title: faker.helpers.arrayElement(tasks), contact_id, assigned_to };
    const done = isDone && { done_at: new Date(due - dayMs).toISOString() };
    return [...happened, { ...task, due_at: new Date(due).toISOString(), ...done }];
  };
  const items = contactIds.filter((_, i) => i % 2 === 0).flatMap(ofContact);
  const batch = { operation: 'create', match: 'id', isAtomic: true, items } as const;
  await withDeferredWrites(sql, customerId, (deferred) => activityWrites.write(sql, customerId, batch, deferred));
}

interface DemoStage {
  id: string;
  status: string;
}

async function makeOpportunity(sql: Transaction, team: Team, stage: DemoStage, productIds: string[]): Promise<void> {
  const { customerId, userIds, contactIds } = team;
  const contacts_ids = faker.helpers.arrayElements(contactIds, { min: 1, max: 3 });
  const [contact] = await findContacts(sql, customerId, [contacts_ids[0]!]);
  const sold = faker.helpers.arrayElements([...productIds.keys()], { min: 1, max: 3 });
  const name = products[sold[0]!]!.name;
  const closing = stage.status === 'OPEN' ? faker.date.soon({ days: 120 }) : faker.date.recent({ days: 60 });
  const estimated_closing_date = closing.toISOString();
  await opportunityWrites.create(sql, customerId, {
    name,
    stage_id: stage.id,
    contacts_ids,
    user_id_assigned: faker.helpers.arrayElement(userIds),
    products: sold.map((at) => ({
      id: productIds[at]!,
      price: products[at]!.price,
      quantity: faker.number.int({ min: 1, max: 40 }) * (products[at]!.price < 1 ? 1_000 : 1),
    })),
    estimated_closing_date,
    close_date: estimated_closing_date,
    priority: faker.helpers.arrayElement(priorities),
    ...(contact!.company?.id ? { company_id: contact!.company.id } : {}),
  });
}

export interface Demo {
  customerId: string;
  created: boolean;
  email: string;
  /** Password of the demo login. Null if this call did not change it. */
  password: string | null;
  key: string | null;
  prospects: number | null;
}

const adminEmail = 'demo@example.com';
const contactCount = 300;
const firstJob: UnlockContacts = { filters: { verification_status: ['verified'] }, total_records: 60, sync_crm: false };

export class OtherCustomerError extends Error {}

/**
 * Creates the demo customer and imports invented people into the catalog, if they are missing. Sets a new password and
 * creates another API key, which is valid for a week.
 * @param force changes nothing if the demo customer exists; with other customers in the database, imports no people
 * @throws OtherCustomerError if `force` is false and there is another customer, who could spend credits on the
 *   invented people
 */
export async function loadDemo(
  { db, catalog, config }: { db: Database; catalog: Catalog; config: Config },
  force = false,
): Promise<Demo> {
  const hasOthers = await db.lookup((sql) => hasCustomerWithoutUser(sql, adminEmail));
  if (hasOthers && !force)
    throw new OtherCustomerError(
      'The database holds another customer, so the demo was not loaded. Use an empty database, or `demo --force`.',
    );
  const existing = force ? await db.lookup((sql) => findAccountByEmail(sql, adminEmail)) : undefined;
  if (existing)
    return {
      customerId: existing.customer_id,
      created: false,
      email: adminEmail,
      password: null,
      key: null,
      prospects: null,
    };
  const people = hasOthers ? catalog.count({ criteria: [] }) : loadDemoCatalog(db, catalog);
  const prospects = await people.catch((error: unknown) => {
    // The demo works without a catalog.
    if (isUnavailable(error)) return null;
    throw error;
  });
  const password = randomBytes(12).toString('base64url');
  const passwordHash = await hashPassword(password);
  return db.transaction(async (sql) => {
    await lockDemo(sql);
    const known = await findAccountByEmail(sql, adminEmail);
    const { id: userId, customer_id: customerId } = known ?? (await makeDemoCustomer(sql, passwordHash));
    const spender = { customerId, apiKeyId: null };
    if (!known && prospects) await startJob(sql, spender, await planUnlock(sql, spender, config, firstJob, prospects));
    const reset = { customerId, userId, passwordHash, event: 'user.password_reset', by: commandLine } as const;
    if (known) await setPassword(sql, reset);
    const given = { name: 'demo', expiration: 7 as const, permissions: [...scopes] };
    const { key } = await issueKey(sql, { customerId, userId }, given, config.KEY_PREFIX, commandLine);
    return { customerId, created: !known, email: adminEmail, password, key, prospects };
  });
}

const lockKey = 7_203_466_152;
const lockPollMs = 100;

async function lockDemo(sql: Transaction): Promise<void> {
  // A statement that waits for the lock would end at the statement timeout.
  for (;;) {
    const [lock] = await sql<[{ taken: boolean }]>`select pg_try_advisory_xact_lock(${lockKey}::bigint) as taken`;
    if (lock.taken) return;
    await sleep(lockPollMs);
  }
}

async function makeDemoCustomer(sql: Transaction, passwordHash: string): Promise<{ id: string; customer_id: string }> {
  const customer = await createCustomer(sql, { business_name: 'Harbour & Pine', country: 'GB', city: 'Bristol' });
  const users: User[] = [];
  for (const user of [
    { email: adminEmail, name: 'Dana Morgan', role: 'admin' as const },
    { email: 'sam@harbour-and-pine.example', name: 'Sam Ito', role: 'member' as const },
  ])
    users.push(await createUser(sql, customer.id, { ...user, passwordHash }, commandLine));
  faker.seed(20_260_101);
  const people = await syncProspects(sql, customer.id, [...generatePeople(contactCount, seed + 1)]);
  const contactIds = [...new Set(people.values())];
  const items = contactIds.map((id, i) => ({
    id,
    ...(users[i % 3] && { assigned_to: users[i % 3]!.id }),
    custom_fields: { lead_source: faker.helpers.arrayElement(['fair', 'website', 'referral', 'cold call']) },
  }));
  const batch = { operation: 'update', match: 'id', isAtomic: true, items } as const;
  await withDeferredWrites(sql, customer.id, (deferred) => contactWrites.write(sql, customer.id, batch, deferred));
  for (const pool of pools) await grantCredits(sql, customer.id, { pool, amount: 1_000, note: 'demo' });
  await makeDemoSales(sql, { customerId: customer.id, userIds: users.map(({ id }) => id), contactIds });
  return { id: users[0]!.id, customer_id: customer.id };
}
