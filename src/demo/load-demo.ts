import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Catalog } from '../catalog/catalog.ts';
import type { Config } from '../process/config.ts';
import type { Database, Transaction } from '../database/db.ts';
import { DomainError } from '../errors.ts';
import { startUnlock } from '../jobs/unlocks/start-unlock.ts';
import { hashPassword } from '../accounts/passwords.ts';
import { createApiKey } from '../queries/accounts/api-keys.ts';
import { createContact } from '../queries/crm/contacts.ts';
import { grantCredits } from '../queries/jobs/credits.ts';
import { hasCustomersBeside, createCustomer } from '../queries/accounts/customers.ts';
import { findAccountByEmail, createUser, resetPassword } from '../queries/accounts/users.ts';
import { noCaps } from '../schemas/api-keys.ts';
import { commandLine } from '../schemas/audit.ts';
import { pools } from '../schemas/credits.ts';
import type { UnlockContacts } from '../schemas/jobs.ts';
import { usualScopes } from '../schemas/base/scopes.ts';
import type { User } from '../schemas/users.ts';
import { mintToken } from '../credentials/tokens.ts';
import { loadDemoCatalog } from './catalog.ts';
import { demoContacts } from './contacts.ts';
import { makeDemoSales } from './sales.ts';

export interface Demo {
  customerId: string;
  created: boolean;
  email: string;
  /** Password of the demo login. Null if this call did not change it. */
  password: string | null;
  key: string | null;
  /** Number of people in the catalog. Null if it is unavailable, or if this call changed nothing. */
  prospects: number | null;
}

const adminEmail = 'demo@example.com';
const contactCount = 300;
/** The first job of the demo customer, so that a new user sees one with progress, charged credits and results. */
const firstJob: UnlockContacts = { filters: { verification_status: ['verified'] }, total_records: 60, sync_crm: true };

interface Services {
  db: Database;
  catalog: Catalog;
  config: Config;
}

/** Thrown if the database has another customer, who could spend credits on the demo's invented people. */
export class OtherCustomerError extends Error {
  constructor() {
    super('The database holds another customer, so the demo was not loaded. Use an empty database, or `demo --force`.');
    this.name = 'OtherCustomerError';
  }
}

/**
 * Creates the demo customer and imports invented people into the catalog, as far as they are missing. Sets a new
 * password and creates another API key, which is valid for a week.
 * @param force changes nothing if the demo customer exists; in a database with other customers, imports no people
 * @throws OtherCustomerError if there is another customer and `force` is false
 */
export async function loadDemo({ db, catalog, config }: Services, force = false): Promise<Demo> {
  const hasOthers = await db.lookup((sql) => hasCustomersBeside(sql, adminEmail));
  if (hasOthers && !force) throw new OtherCustomerError();
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
  const prospects = await people.catch(nullWhenDown);
  const password = randomBytes(12).toString('base64url');
  const passwordHash = await hashPassword(password);
  return db.transaction(async (sql) => {
    await lockDemo(sql);
    const known = await findAccountByEmail(sql, adminEmail);
    const { id: userId, customer_id: customerId } = known ?? (await makeDemoCustomer(sql, passwordHash));
    if (!known && prospects) await startUnlock(sql, { customerId, apiKeyId: null }, config, firstJob, prospects);
    if (known) await resetPassword(sql, customerId, userId, passwordHash);
    const token = mintToken(config.KEY_PREFIX);
    const key = {
      name: 'demo',
      expiration: 7 as const,
      permissions: [...usualScopes],
      spendCaps: noCaps,
      createdBy: userId,
    };
    await createApiKey(sql, customerId, key, token, commandLine);
    return { customerId, created: !known, email: adminEmail, password, key: token.reveal(), prospects };
  });
}

/** Advisory lock: one process at a time creates the demo. The number has no meaning. */
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

/** Returns null if the catalog is unavailable, because the demo works without it. Throws every other error. */
function nullWhenDown(error: unknown): null {
  if (error instanceof DomainError && error.code === 'unavailable') return null;
  throw error;
}

async function makeDemoCustomer(sql: Transaction, passwordHash: string): Promise<{ id: string; customer_id: string }> {
  const customer = await createCustomer(sql, { business_name: 'Harbour & Pine', country: 'GB', city: 'Bristol' });
  const users: (User | undefined)[] = [];
  for (const user of [
    { email: adminEmail, name: 'Dana Morgan', role: 'admin' as const },
    { email: 'sam@harbour-and-pine.example', name: 'Sam Ito', role: 'member' as const },
  ])
    users.push(await createUser(sql, customer.id, { ...user, passwordHash }, commandLine));
  const contactIds: string[] = [];
  for (const [index, contact] of demoContacts(contactCount).entries()) {
    const assigned_to = users[index % 3]?.id;
    contactIds.push(await createContact(sql, customer.id, { ...contact, ...(assigned_to ? { assigned_to } : {}) }));
  }
  for (const pool of pools) await grantCredits(sql, customer.id, { pool, amount: 1_000, note: 'demo' });
  await makeDemoSales(sql, { customerId: customer.id, userIds: users.map((user) => user!.id), contactIds });
  return { id: users[0]!.id, customer_id: customer.id };
}
