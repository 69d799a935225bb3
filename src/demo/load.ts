import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Catalog } from '../catalog/catalog.ts';
import type { Config } from '../config.ts';
import type { Database, Transaction } from '../db.ts';
import { DomainError } from '../errors.ts';
import { hashPassword } from '../passwords.ts';
import { insertKey } from '../queries/api-keys.ts';
import { startUnlock } from '../jobs/start-unlock.ts';
import { createContact } from '../queries/contacts.ts';
import { grantCredits } from '../queries/credits.ts';
import { insertCustomer } from '../queries/customers.ts';
import { findAccountByEmail, insertUser, resetPassword } from '../queries/users.ts';
import { commandLine } from '../schemas/audit.ts';
import { pools } from '../schemas/credits.ts';
import type { UnlockContacts } from '../schemas/jobs.ts';
import { scopes } from '../schemas/scopes.ts';
import { mintToken } from '../tokens.ts';
import { loadDemoCatalog } from './catalog.ts';
import { demoContacts } from './people.ts';
import { makeDemoSales } from './sales.ts';

/** What a newcomer needs to try the service. */
export interface Demo {
  customerId: string;
  /** Whether this call made the customer; else it was there and keeps its data. */
  created: boolean;
  email: string;
  password: string;
  key: string;
  /** How many people the prospect catalog holds; null when it does not answer: the next call fills it. */
  prospects: number | null;
}

const adminEmail = 'demo@example.com';
const contactCount = 300;
/** A job whose progress, ledger entries and results can be looked at. */
const firstJob: UnlockContacts = { filters: { verification_status: ['verified'] }, total_records: 60, sync_crm: true };

/** What loading the demo needs. */
interface Services {
  db: Database;
  catalog: Catalog;
  config: Config;
}

/**
 * Makes the demo customer and fills the prospect catalog, each unless it is there; several processes may do so at once.
 * Secrets cannot be read back, so every call sets a new password and issues a further key for a week; earlier keys go on
 * working until they expire.
 */
export async function loadDemo({ db, catalog, config }: Services): Promise<Demo> {
  const prospects = await loadDemoCatalog(db, catalog).catch(nullWhenDown);
  const password = randomBytes(12).toString('base64url');
  const passwordHash = await hashPassword(password);
  return db.transaction(async (sql) => {
    await takeTurn(sql);
    const known = await findAccountByEmail(sql, adminEmail);
    const { id: userId, customer_id: customerId } = known ?? (await makeDemoCustomer(sql, passwordHash));
    if (!known && prospects) await startUnlock(sql, customerId, config, firstJob, prospects);
    if (known) await resetPassword(sql, customerId, userId, passwordHash);
    const token = mintToken(config.KEY_PREFIX);
    const request = { name: 'demo', expiration: 7 as const, permissions: [...scopes], createdBy: userId };
    await insertKey(sql, customerId, request, token, commandLine);
    return { customerId, created: !known, email: adminEmail, password, key: token.reveal(), prospects };
  });
}

/** Of the advisory lock: any number that nothing else here takes. */
const lockKey = 7_203_466_152;
const lockPollMs = 100;

/** Waits until no other process makes the demo customer. Polls: a waiting statement would end at the limit on statements. */
async function takeTurn(sql: Transaction): Promise<void> {
  for (;;) {
    const [lock] = await sql<[{ taken: boolean }]>`select pg_try_advisory_xact_lock(${lockKey}::bigint) as taken`;
    if (lock.taken) return;
    await sleep(lockPollMs);
  }
}

/** Without its catalog the service does all the rest, and so does the demo. */
function nullWhenDown(error: unknown): null {
  if (error instanceof DomainError && error.code === 'unavailable') return null;
  throw error;
}

async function makeDemoCustomer(sql: Transaction, passwordHash: string): Promise<{ id: string; customer_id: string }> {
  const customer = await insertCustomer(sql, { business_name: 'Harbour & Pine', country: 'GB', city: 'Bristol' });
  const users = await Promise.all(
    [
      { email: adminEmail, name: 'Dana Morgan', role: 'admin' as const },
      { email: 'sam@harbour-and-pine.example', name: 'Sam Ito', role: 'member' as const },
    ].map((user) => insertUser(sql, customer.id, { ...user, passwordHash }, commandLine)),
  );
  const contactIds: string[] = [];
  for (const [index, contact] of demoContacts(contactCount).entries()) {
    const assigned_to = users[index % 3]?.id;
    contactIds.push(await createContact(sql, customer.id, { ...contact, ...(assigned_to ? { assigned_to } : {}) }));
  }
  for (const pool of pools) await grantCredits(sql, customer.id, { pool, amount: 1_000, note: 'demo' });
  await makeDemoSales(sql, { customerId: customer.id, userIds: users.map((user) => user!.id), contactIds });
  return { id: users[0]!.id, customer_id: customer.id };
}
