import type { SessionCaller } from '../credentials/caller.ts';
import type { Database } from '../database/db.ts';
import { Unauthorized, type RefusalCause } from '../errors.ts';
import { hashPassword, verifyPassword } from './passwords.ts';
import { nobody, recordEvent, recordFailedLogin } from '../queries/accounts/audit.ts';
import { createSession } from '../queries/accounts/sessions.ts';
import { changePassword, findAccount, findAccountByEmail, type Account } from '../queries/accounts/users.ts';
import type { Actor } from '../schemas/audit.ts';
import type { Login, PasswordChange, Session } from '../schemas/users.ts';
import { mintToken, sessionPrefix } from '../credentials/tokens.ts';

/**
 * @param address IP address of the caller, for the audit log
 * @throws Unauthorized if no active user has this e-mail address and password
 */
export async function logIn(db: Database, { email, password }: Login, address: string): Promise<Session> {
  const account = await db.lookup((sql) => findAccountByEmail(sql, email));
  const refusal = refusalOf(account, await verifyPassword(account?.password_hash, password));
  if (!account || refusal) return refuseLogin(db, account, refusal ?? 'unknown', address);
  const token = mintToken(sessionPrefix);
  const by = { actor: account.email, address };
  const expires_at = await db.transaction((sql) => createSession(sql, account, token.hash(), by));
  if (!expires_at) return refuseLogin(db, account, 'wrong_password', address);
  return { token: token.reveal(), expires_at, user: account };
}

/**
 * Returns undefined if the login is accepted.
 * @param account undefined if no user has the e-mail address
 * @param right true if the password is correct
 */
function refusalOf(account: Account | undefined, right: boolean): RefusalCause | undefined {
  if (!account) return 'unknown';
  return right ? (account.refusal ?? undefined) : 'wrong_password';
}

/**
 * Records a failed login. All failed logins call this, so that neither response nor timing reveals the reason.
 * @throws Unauthorized in every case
 */
async function refuseLogin(
  db: Database,
  account: Account | undefined,
  reason: RefusalCause,
  address: string,
): Promise<never> {
  const { customerId, userId } = account ? { customerId: account.customer_id, userId: account.id } : nobody;
  await db.transaction((sql) => recordFailedLogin(sql, customerId, { userId, reason, address }));
  throw new Unauthorized('login', reason);
}

/**
 * Changes a user's password, and ends the user's other sessions.
 * @throws Unauthorized if the current password is wrong
 */
export async function replacePassword(
  db: Database,
  session: SessionCaller,
  body: PasswordChange,
  by: Actor,
): Promise<void> {
  const { customerId, userId, tokenHash } = session;
  const account = await db.lookup((sql) => findAccount(sql, customerId, userId));
  const right = await verifyPassword(account?.password_hash, body.current_password);
  const hash = right ? await hashPassword(body.new_password) : '';
  const done = await db.transaction(async (sql) => {
    if (account && right && (await changePassword(sql, account, hash, tokenHash, by))) return true;
    await recordEvent(sql, { event: 'user.password_change_failed', customerId, userId, by });
    return false;
  });
  if (!done) throw new Unauthorized('login', 'wrong_password');
}
