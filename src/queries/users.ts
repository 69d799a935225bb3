import type { Sql, Transaction } from '../db.ts';
import { fold } from '../fold.ts';
import { commandLine, type Actor } from '../schemas/audit.ts';
import type { Role, User } from '../schemas/users.ts';
import type { TokenHash } from '../tokens.ts';
import { recordEvent } from './audit.ts';
import { deleteSessions } from './sessions.ts';

const columns = (sql: Sql | Transaction) => sql`id, name, email, role, active`;

/** The customer's users, newest first. */
export const listUsers = (sql: Sql | Transaction, customerId: string): Promise<User[]> =>
  sql<User[]>`
    select ${columns(sql)}
    from users
    where customer_id = ${customerId}
    order by id desc`;

/** The customer's active admin who was created first. */
export async function findFirstAdmin(sql: Sql | Transaction, customerId: string): Promise<User | undefined> {
  const [row] = await sql<User[]>`
    select ${columns(sql)}
    from users
    where customer_id = ${customerId}
      and role = 'admin'
      and active
    order by id
    limit 1`;
  return row;
}

export interface NewUser {
  email: string;
  name: string;
  role: Role;
  passwordHash: string;
}

/** @returns undefined when another account, of any customer, has that address in its folded form */
export async function insertUser(
  sql: Transaction,
  customerId: string,
  given: NewUser,
  by: Actor,
): Promise<User | undefined> {
  const [row] = await sql<User[]>`
    insert into users (customer_id, email, email_folded, name, role, password_hash)
    values (${customerId}, ${given.email}, ${fold(given.email)}, ${given.name}, ${given.role}, ${given.passwordHash})
    on conflict (email_folded) do nothing
    returning ${columns(sql)}`;
  if (row)
    await recordEvent(sql, { event: 'user.created', customerId, userId: row.id, by, details: { role: row.role } });
  return row;
}

/** An account as a login needs it. */
export interface Account {
  id: string;
  customer_id: string;
  email: string;
  name: string;
  role: Role;
  password_hash: string;
  /** Null when the account may be used now. */
  refusal: 'deactivated' | 'suspended' | null;
}

const account = (sql: Sql | Transaction) => sql`
  select u.id, u.customer_id, u.email, u.name, u.role, u.password_hash,
    case when not u.active then 'deactivated' when c.status <> 'OK' then 'suspended' end as refusal
  from users u
  join customers c on c.id = u.customer_id`;

/** The account of an e-mail address, in any case. */
export async function findAccountByEmail(sql: Sql | Transaction, email: string): Promise<Account | undefined> {
  const [row] = await sql<Account[]>`${account(sql)} where u.email_folded = ${fold(email)}`;
  return row;
}

export async function findAccount(
  sql: Sql | Transaction,
  customerId: string,
  userId: string,
): Promise<Account | undefined> {
  const [row] = await sql<Account[]>`${account(sql)} where u.customer_id = ${customerId} and u.id = ${userId}`;
  return row;
}

/** Whose a user is: only the command line looks across customers. */
export async function findCustomerOf(sql: Sql | Transaction, userId: string): Promise<string | undefined> {
  const [row] = await sql<{ customer_id: string }[]>`
    select customer_id
    from users
    where id = ${userId}`;
  return row?.customer_id;
}

/**
 * Gives a user another password at their own wish, and ends their other sessions.
 * @returns false, and nothing done, when the password is no longer the one that was verified
 */
export async function changePassword(
  sql: Transaction,
  account: Account,
  passwordHash: string,
  kept: TokenHash,
  by: Actor,
): Promise<boolean> {
  const { customer_id: customerId, id: userId } = account;
  const changed = await sql`
    update users
    set password_hash = ${passwordHash}, updated_at = (select clock_timestamp())
    where customer_id = ${customerId}
      and id = ${userId}
      and password_hash = ${account.password_hash}`;
  if (changed.count === 0) return false;
  await deleteSessions(sql, customerId, userId, kept);
  await recordEvent(sql, { event: 'user.password_changed', customerId, userId, by });
  return true;
}

/** Gives a user another password from the command line, and ends all their sessions. */
export async function resetPassword(
  sql: Transaction,
  customerId: string,
  userId: string,
  passwordHash: string,
): Promise<void> {
  await sql`
    update users
    set password_hash = ${passwordHash}, updated_at = (select clock_timestamp())
    where customer_id = ${customerId}
      and id = ${userId}`;
  await deleteSessions(sql, customerId, userId);
  await recordEvent(sql, { event: 'user.password_reset', customerId, userId, by: commandLine });
}

/** Locks a user out and ends their sessions; once more does nothing. Keys they made go on working. */
export async function deactivateUser(sql: Transaction, customerId: string, userId: string): Promise<void> {
  const changed = await sql`
    update users
    set active = false, updated_at = (select clock_timestamp())
    where customer_id = ${customerId}
      and id = ${userId}
      and active`;
  if (changed.count === 0) return;
  await deleteSessions(sql, customerId, userId);
  await recordEvent(sql, { event: 'user.deactivated', customerId, userId, by: commandLine });
}
