import type { Sql, Transaction } from '../../database/db.ts';
import type { RefusalCause } from '../../errors.ts';
import type { Actor } from '../../schemas/audit.ts';
import type { Role } from '../../schemas/users.ts';
import type { TokenHash } from '../../credentials/tokens.ts';
import { recordEvent } from './audit.ts';

/** As read to authenticate a request. `refusal` says why the session cannot be used now; null if it is valid. */
interface SessionState {
  token_hash: TokenHash;
  customer_id: string;
  user_id: string;
  email: string;
  role: Role;
  refusal: Extract<RefusalCause, 'expired' | 'deactivated' | 'suspended'> | null;
}

export const findSessions = (sql: Sql, hashes: TokenHash[]): Promise<SessionState[]> =>
  sql<SessionState[]>`
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
 * Creates a session of 12 hours, and deletes the user's expired ones, and the oldest past `maxSessions`.
 * @returns the expiry time; undefined, with nothing done, if the account is not active, or its password has changed
 * since `account` was read
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
 * Logins of the user wait until this transaction has ended. Call it before the user's password, state or link changes: such
 * transactions wait for each other.
 */
export async function blockLogins(sql: Transaction, userId: string): Promise<void> {
  // Not a lock of the user's row: in a distributed database, such a lock is taken on every node.
  await sql`select pg_advisory_xact_lock(${accountLock(sql, userId)})`;
}

const accountLock = (sql: Transaction, userId: string) => sql`hashtextextended(${`account:${userId}`}, 0)`;

/** Of a user. The limit exists because whoever knows a password could fill the table by logging in. */
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

/** Deletes a user's sessions, except the one with the token hash `kept`. */
export async function deleteSessions(
  sql: Transaction,
  customerId: string,
  userId: string,
  kept?: TokenHash,
): Promise<void> {
  await sql`
    delete from sessions
    where customer_id = ${customerId}
      and user_id = ${userId}
      ${kept ? sql`and token_hash <> ${kept}` : sql``}`;
}
