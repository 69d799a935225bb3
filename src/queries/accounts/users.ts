import type { Queryable, Transaction, Sql } from '../../database/db.ts';
import { type TokenHash, noPassword } from '../../access/credentials.ts';
import { type RefusalCause, conflict, DomainError, violatedConstraint } from '../../errors.ts';
import { type Actor, type Role, commandLine, type User } from '../../schemas/accounts.ts';
import { recordEvent } from './customers.ts';
import { fold } from '../../text/fold.ts';

export interface LinkedUser {
  customer_id: string;
  id: string;
  email: string;
}

/**
 * Stores the token of a password link, which is valid for 72 hours. Replaces the user's previous link. Returns the
 * expiry time.
 */
export async function storeLink(
  sql: Transaction,
  customerId: string,
  userId: string,
  token: TokenHash,
): Promise<string> {
  const [row] = await sql<{ expires_at: string }[]>`
    insert into password_links (customer_id, user_id, token_hash, expires_at)
    values (${customerId}, ${userId}, ${token}, now() + interval '72 hours')
    on conflict (customer_id, user_id)
    do update set token_hash = excluded.token_hash, expires_at = excluded.expires_at
    returning expires_at`;
  return row!.expires_at;
}

/**
 * Returns the user of a password link. Undefined if the link is unknown, used or expired, or the user cannot log in.
 */
export async function findLinkedUser(sql: Queryable, token: TokenHash): Promise<LinkedUser | undefined> {
  const [row] = await sql<LinkedUser[]>`
    select u.customer_id, u.id, u.email
    from password_links l
    join users u on u.customer_id = l.customer_id and u.id = l.user_id
    join customers c on c.id = l.customer_id
    where l.token_hash = ${token}
      and l.expires_at > now()
      and u.active
      and c.status = 'OK'`;
  return row;
}

export async function findLinkEnds(sql: Queryable, customerId: string): Promise<Map<string, string>> {
  const rows = await sql<{ user_id: string; expires_at: string }[]>`
    select user_id, expires_at
    from password_links
    where customer_id = ${customerId}`;
  return new Map(rows.map(({ user_id, expires_at }) => [user_id, expires_at]));
}

interface SessionState {
  token_hash: TokenHash;
  customer_id: string;
  user_id: string;
  email: string;
  role: Role;
  refusal: Extract<RefusalCause, 'expired' | 'deactivated' | 'suspended'> | null;
}

export const findSessions = (sql: Sql, hashes: TokenHash[]): Promise<SessionState[]> => sql`
  select s.token_hash, s.customer_id, s.user_id, u.email, u.role,
    case
      when s.expires_at <= now() then 'expired'
      when not u.active then 'deactivated'
      when c.status <> 'OK' then 'suspended'
    end as refusal
  from sessions s
  join users u on u.customer_id = s.customer_id and u.id = s.user_id
  join customers c on c.id = s.customer_id
  where s.token_hash = any(${sql.array(hashes)})`;

/**
 * Creates a session of 12 hours. Deletes the user's expired sessions, and the oldest above `maxSessions`.
 * @returns the expiry time; undefined if the account is not active, or its password has changed since `account` was
 *   read
 */
export async function createSession(
  sql: Transaction,
  account: { id: string; customer_id: string; password_hash: string },
  token: TokenHash,
  by: Actor,
): Promise<string | undefined> {
  // Makes a login wait for a concurrent password change, reset or deactivation. Then the login fails; without the lock,
  // its session would survive the change. The next statement sees the change.
  await sql`select pg_advisory_xact_lock_shared(${accountLock(sql, account.id)})`;
  const [session] = await sql<{ expires_at: string }[]>`
    with unchanged as (
      select customer_id, id
      from users
      where customer_id = ${account.customer_id}
        and id = ${account.id}
        and password_hash = ${account.password_hash}
        and active
    )
    insert into sessions (token_hash, customer_id, user_id, expires_at)
    select ${token}, customer_id, id, now() + interval '12 hours'
    from unchanged
    returning expires_at`;
  if (!session) return undefined;
  await deleteOldSessions(sql, account.customer_id, account.id);
  await recordEvent(sql, { event: 'user.logged_in', customerId: account.customer_id, userId: account.id, by });
  return session.expires_at;
}

/**
 * Makes logins of the user wait until this transaction ends. Call it before you change the user's password, state or
 * link.
 */
export async function blockLogins(sql: Transaction, userId: string): Promise<void> {
  // Not a lock of the user's row: in a distributed database, such a lock is taken on every node.
  await sql`select pg_advisory_xact_lock(${accountLock(sql, userId)})`;
}

const accountLock = (sql: Transaction, userId: string) => sql`hashtextextended(${`account:${userId}`}, 0)`;

/**
 * Maximum number of sessions of one user. Without it, a person who knows a password could fill the table with logins.
 */
const maxSessions = 1_000;

async function deleteOldSessions(sql: Transaction, customerId: string, userId: string): Promise<void> {
  await sql`
    delete from sessions
    where customer_id = ${customerId}
      and user_id = ${userId}
      and (
        expires_at <= now()
        or token_hash in (
          select token_hash
          from sessions
          where customer_id = ${customerId}
            and user_id = ${userId}
          order by expires_at desc
          offset ${maxSessions}
        )
      )`;
}

export async function deleteSession(
  sql: Transaction,
  session: { customerId: string; userId: string; tokenHash: TokenHash },
  by: Actor,
): Promise<void> {
  const { customerId, userId, tokenHash } = session;
  await sql`
    delete from sessions
    where customer_id = ${customerId}
      and token_hash = ${tokenHash}`;
  await recordEvent(sql, { event: 'user.logged_out', customerId, userId, by });
}

const columns = (sql: Queryable) => sql`id, name, email, role, active`;

export const listUsers = (sql: Queryable, customerId: string): Promise<User[]> => sql`
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
 * @throws DomainError `conflict` if a user of any customer already has this e-mail address, ignoring case and accents
 */
export async function createUser(sql: Transaction, customerId: string, user: NewUser, by: Actor): Promise<User> {
  const row = await insertUser(sql, customerId, user);
  await recordEvent(sql, { event: 'user.created', customerId, userId: row.id, by, details: { role: row.role } });
  return row;
}

async function insertUser(sql: Transaction, customerId: string, user: NewUser): Promise<User> {
  // Not `on conflict do nothing`: in a distributed database it locks all users and customers. Two transactions that
  // have each inserted a customer would wait for each other.
  try {
    const [row] = await sql.savepoint(
      (inner) => inner<[User]>`
        insert into users (customer_id, email, email_folded, name, role, password_hash)
        values (${customerId}, ${user.email}, ${fold(user.email)}, ${user.name}, ${user.role}, ${user.passwordHash})
        returning ${columns(inner)}`,
    );
    return row;
  } catch (error) {
    if (violatedConstraint(error) !== 'users_email_key') throw error;
    const message = 'a user has this e-mail address';
    throw new DomainError('conflict', message, { faults: [{ path: '/email', message }] });
  }
}

export interface Account {
  id: string;
  customer_id: string;
  email: string;
  name: string;
  role: Role;
  password_hash: string;
  refusal: 'deactivated' | 'suspended' | null;
}

const account = (sql: Queryable) => sql`
  select u.id, u.customer_id, u.email, u.name, u.role, u.password_hash,
    case when not u.active then 'deactivated' when c.status <> 'OK' then 'suspended' end as refusal
  from users u
  join customers c on c.id = u.customer_id`;

export async function findAccountByEmail(sql: Queryable, email: string): Promise<Account | undefined> {
  const [row] = await sql<Account[]>`${account(sql)} where u.email_folded = ${fold(email)}`;
  return row;
}

export async function findAccount(sql: Queryable, customerId: string, userId: string): Promise<Account | undefined> {
  const [row] = await sql<Account[]>`${account(sql)} where u.customer_id = ${customerId} and u.id = ${userId}`;
  return row;
}

async function voidAccess(sql: Transaction, customerId: string, userId: string, kept?: TokenHash): Promise<void> {
  await sql`
    delete from sessions
    where customer_id = ${customerId}
      and user_id = ${userId}
      ${kept ? sql`and token_hash <> ${kept}` : sql``}`;
  await sql`
    delete from password_links
    where customer_id = ${customerId}
      and user_id = ${userId}`;
}

interface PasswordChange {
  customerId: string;
  userId: string;
  passwordHash: string;
  event: 'user.password_changed' | 'user.password_reset' | 'user.password_set';
  by: Actor;
}

/**
 * Sets a password, and deletes the user's sessions and link.
 * @param before password hash that the caller has checked. `kept`: token hash of the session that stays
 * @returns false if the stored password hash is no longer `before.hash`
 */
export async function setPassword(
  sql: Transaction,
  { customerId, userId, passwordHash, event, by }: PasswordChange,
  before?: { hash: string; kept: TokenHash },
): Promise<boolean> {
  await blockLogins(sql, userId);
  const changed = await sql`
    update users
    set password_hash = ${passwordHash}, updated_at = (select clock_timestamp())
    where customer_id = ${customerId}
      and id = ${userId}
      ${before ? sql`and password_hash = ${before.hash}` : sql``}`;
  if (changed.count === 0) return false;
  await voidAccess(sql, customerId, userId, before?.kept);
  await recordEvent(sql, { event, customerId, userId, by });
  return true;
}

/**
 * Sets the password of the user to whom a link belongs. The link works only once.
 * @returns false if the link is no longer valid
 */
export async function setPasswordByLink(
  sql: Transaction,
  { customer_id, id }: LinkedUser,
  token: TokenHash,
  passwordHash: string,
  address: string,
): Promise<boolean> {
  await blockLogins(sql, id); // two who use it at once come one after the other
  const user = await findLinkedUser(sql, token);
  if (!user) return false;
  const by = { actor: user.email, address };
  return setPassword(sql, { customerId: customer_id, userId: id, passwordHash, event: 'user.password_set', by });
}

/**
 * Deactivates a user and deletes all sessions of the user. API keys that the user created stay valid. Does nothing if
 * the user is already inactive.
 */
export async function deactivateUser(sql: Transaction, customerId: string, userId: string, by: Actor = commandLine) {
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

export async function changeRole(sql: Transaction, customerId: string, userId: string, role: Role, by: Actor) {
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
 * Checks that the customer has another active admin who can log in. Call it before a user stops being an admin. Such
 * calls for one customer wait for each other.
 * @throws DomainError `conflict` if there is no other such admin
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
