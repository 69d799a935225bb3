import { randomBytes } from 'node:crypto';
import type { Catalog } from '../catalog/catalog.ts';
import type { Config } from '../config.ts';
import type { Database, Transaction } from '../db.ts';
import { DomainError } from '../errors.ts';
import { hashPassword } from '../passwords.ts';
import { insertKey } from '../queries/api-keys.ts';
import { createContact } from '../queries/contacts.ts';
import { insertCustomer } from '../queries/customers.ts';
import { findAccountByEmail, insertUser, resetPassword } from '../queries/users.ts';
import { commandLine } from '../schemas/audit.ts';
import { scopes } from '../schemas/scopes.ts';
import { mintToken } from '../tokens.ts';
import { loadDemoCatalog } from './catalog.ts';
import { demoContacts } from './people.ts';

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

/** What loading the demo needs. */
interface Services {
  db: Database;
  catalog: Catalog;
  config: Config;
}

/**
 * Makes the demo customer and fills the prospect catalog, each unless it is there. Secrets cannot be read back, so every call sets a new password and issues a
 * further key for a week; earlier keys go on working until they expire.
 */
export async function loadDemo({ db, catalog, config }: Services): Promise<Demo> {
  const prospects = await loadDemoCatalog(db, catalog).catch(nullWhenDown);
  const password = randomBytes(12).toString('base64url');
  const passwordHash = await hashPassword(password);
  const known = await db.lookup((sql) => findAccountByEmail(sql, adminEmail));
  return db.transaction(async (sql) => {
    const { id: userId, customer_id: customerId } = known ?? (await makeDemoCustomer(sql, passwordHash));
    if (known) await resetPassword(sql, customerId, userId, passwordHash);
    const token = mintToken(config.KEY_PREFIX);
    const request = { name: 'demo', expiration: 7 as const, permissions: [...scopes], createdBy: userId };
    await insertKey(sql, customerId, request, token, commandLine);
    return { customerId, created: !known, email: adminEmail, password, key: token.reveal(), prospects };
  });
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
  for (const [index, contact] of demoContacts(contactCount).entries()) {
    const assigned_to = users[index % 3]?.id;
    await createContact(sql, customer.id, { ...contact, ...(assigned_to ? { assigned_to } : {}) });
  }
  return { id: users[0]!.id, customer_id: customer.id };
}
