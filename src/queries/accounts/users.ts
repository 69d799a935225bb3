import type { Queryable, Transaction } from '../../database/db.ts';
import { commandLine, type Actor } from '../../schemas/audit.ts';
import type { Role, User } from '../../schemas/users.ts';
import { conflict, violatedConstraint } from '../../errors.ts';
import { fold } from '../../text/fold.ts';
import type { TokenHash } from '../../credentials/tokens.ts';
import { recordEvent } from './audit.ts';
import { noPassword } from '../../credentials/no-password.ts';
import { deleteLink, findLinkedUser, type LinkedUser } from './password-links.ts';
import { blockLogins, deleteSessions } from './sessions.ts';

const columns = (sql: Queryable) => sql`id, name, email, role, active`;

export const listUsers = (sql: Queryable, customerId: string): Promise<User[]> =>
  sql<User[]>`
    select ${columns(sql)}
    from users
    where customer_id = ${customerId}
    order by id desc`;

export async function findFirstAdmin(sql: Queryable, customerId: string): Promise<User | undefined> {
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

interface NewUser {
  email: string;
  name: string;
  role: Role;
  passwordHash: string;
}

/**
 * Creates a user and its audit event.
 * @returns undefined if a user of any customer already has this e-mail address, ignoring case and accents
 */
export async function createUser(
  sql: Transaction,
  customerId: string,
  user: NewUser,
  by: Actor,
): Promise<User | undefined> {
  const row = await insertUser(sql, customerId, user);
  if (row)
    await recordEvent(sql, { event: 'user.created', customerId, userId: row.id, by, details: { role: row.role } });
  return row;
}

async function insertUser(sql: Transaction, customerId: string, user: NewUser): Promise<User | undefined> {
  // Not `on conflict do nothing`: in a distributed database it locks all users and customers. Two transactions that
  // have each inserted a customer would wait for each other.
  try {
    const [row] = await sql.savepoint(
      (inner) => inner<User[]>`
        insert into users (customer_id, email, email_folded, name, role, password_hash)
        values (${customerId}, ${user.email}, ${fold(user.email)}, ${user.name}, ${user.role}, ${user.passwordHash})
        returning ${columns(inner)}`,
    );
    return row;
  } catch (error) {
    if (violatedConstraint(error) === 'users_email_key') return undefined;
    throw error;
  }
}

export interface Account {
  id: string;
  customer_id: string;
  email: string;
  name: string;
  role: Role;
  password_hash: string;
  /** Why the account cannot be used now, if it cannot. */
  refusal: 'deactivated' | 'suspended' | null;
}

const account = (sql: Queryable) => sql`
  select u.id, u.customer_id, u.email, u.name, u.role, u.password_hash,
    case when not u.active then 'deactivated' when c.status <> 'OK' then 'suspended' end as refusal
  from users u
  join customers c on c.id = u.customer_id`;

/** Case and accents do not matter. */
export async function findAccountByEmail(sql: Queryable, email: string): Promise<Account | undefined> {
  const [row] = await sql<Account[]>`${account(sql)} where u.email_folded = ${fold(email)}`;
  return row;
}

export async function findAccount(sql: Queryable, customerId: string, userId: string): Promise<Account | undefined> {
  const [row] = await sql<Account[]>`${account(sql)} where u.customer_id = ${customerId} and u.id = ${userId}`;
  return row;
}

/**
 * Changes a password, and deletes the other sessions.
 * @param account with the password hash that the caller has checked
 * @param kept token hash of the current session
 * @returns false, with nothing changed, if the stored hash is no longer the one in `account`
 */
export async function changePassword(
  sql: Transaction,
  account: Account,
  passwordHash: string,
  kept: TokenHash,
  by: Actor,
): Promise<boolean> {
  const { customer_id: customerId, id: userId } = account;
  await blockLogins(sql, userId);
  const changed = await sql`
    update users
    set password_hash = ${passwordHash}, updated_at = (select clock_timestamp())
    where customer_id = ${customerId}
      and id = ${userId}
      and password_hash = ${account.password_hash}`;
  if (changed.count === 0) return false;
  await voidAccess(sql, customerId, userId, kept);
  await recordEvent(sql, { event: 'user.password_changed', customerId, userId, by });
  return true;
}

/** Ends the user's sessions, but for `kept`, and the link with which the user could set a password. */
async function voidAccess(sql: Transaction, customerId: string, userId: string, kept?: TokenHash): Promise<void> {
  await deleteSessions(sql, customerId, userId, kept);
  await deleteLink(sql, customerId, userId);
}

/** Without a look at the current password. Deletes all sessions of the user. */
export async function resetPassword(
  sql: Transaction,
  customerId: string,
  userId: string,
  passwordHash: string,
  event: 'user.password_reset' | 'user.password_set' = 'user.password_reset',
  by: Actor = commandLine,
): Promise<void> {
  await blockLogins(sql, userId);
  await sql`
    update users
    set password_hash = ${passwordHash}, updated_at = (select clock_timestamp())
    where customer_id = ${customerId}
      and id = ${userId}`;
  await voidAccess(sql, customerId, userId);
  await recordEvent(sql, { event, customerId, userId, by });
}

/**
 * Sets the password of the user to whom a link belongs. The link can be used once.
 * @returns undefined, with nothing changed, if the link is not valid any more
 */
export async function setPasswordByLink(
  sql: Transaction,
  { customer_id, id }: LinkedUser,
  token: TokenHash,
  passwordHash: string,
  address: string,
): Promise<LinkedUser | undefined> {
  await blockLogins(sql, id); // two who use it at once come one after the other
  const user = await findLinkedUser(sql, token);
  if (!user) return undefined;
  const by = { actor: user.email, address };
  await resetPassword(sql, customer_id, id, passwordHash, 'user.password_set', by);
  return user;
}

/**
 * Deletes all sessions of the user. API keys that the user created stay valid. Does nothing if the user is already
 * inactive.
 */
export async function deactivateUser(
  sql: Transaction,
  customerId: string,
  userId: string,
  by: Actor = commandLine,
): Promise<void> {
  await blockLogins(sql, userId);
  const changed = await sql`
    update users
    set active = false, updated_at = (select clock_timestamp())
    where customer_id = ${customerId}
      and id = ${userId}
      and active`;
  if (changed.count === 0) return;
  await voidAccess(sql, customerId, userId);
  await recordEvent(sql, { event: 'user.deactivated', customerId, userId, by });
}

/** Does nothing if the user has the role. */
export async function changeRole(
  sql: Transaction,
  customerId: string,
  userId: string,
  role: Role,
  by: Actor,
): Promise<void> {
  const changed = await sql`
    update users
    set role = ${role}, updated_at = (select clock_timestamp())
    where customer_id = ${customerId}
      and id = ${userId}
      and role <> ${role}`;
  if (changed.count === 0) return;
  await recordEvent(sql, { event: 'user.role_changed', customerId, userId, by, details: { role } });
}

/**
 * Call it before a user stops to be an admin. Such changes of one customer's users wait for each other.
 * @throws DomainError `conflict` if there is no other active admin who can log in
 */
export async function requireOtherAdmin(sql: Transaction, customerId: string, userId: string): Promise<void> {
  await sql`select pg_advisory_xact_lock(hashtextextended(${`admins:${customerId}`}, 0))`;
  const [other] = await sql`
    select 1
    from users
    where customer_id = ${customerId}
      and id <> ${userId}
      and role = 'admin'
      and active
      and password_hash <> ${noPassword}
    limit 1`;
  if (!other) throw conflict('This is the last admin who can log in: make somebody else an admin first');
}
