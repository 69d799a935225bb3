import { availableParallelism } from 'node:os';
import { hash, verify } from '@node-rs/argon2';
import { noPassword, linkPrefix, mintToken, recogniseToken, sessionPrefix } from '../access/credentials.ts';
import type { RawToken, SessionCaller } from '../access/credentials.ts';
import { ConcurrencyLimiter } from '../access/concurrency-limiter.ts';
import type { Database, Transaction } from '../database/db.ts';
import { DomainError, notFound, Unauthorized, type RefusalCause } from '../errors.ts';
import { recordEvent, nobody, recordFailedLogin } from '../queries/accounts/customers.ts';
import {
  findLinkedUser,
  storeLink,
  blockLogins,
  changeRole,
  createUser,
  deactivateUser,
  listUsers,
  requireOtherAdmin,
  setPasswordByLink,
  createSession,
  setPassword,
  findAccount,
  findAccountByEmail,
} from '../queries/accounts/users.ts';
import type { LinkedUser, Account } from '../queries/accounts/users.ts';
import type { Actor, Role, User, UserCreate, Login, PasswordChange, Session } from '../schemas/accounts.ts';

// OWASP's minimum for argon2id (Password Storage Cheat Sheet). Stored hashes contain their own parameters.
const parameters = { algorithm: 2 /* argon2id */, memoryCost: 19 * 1024, timeCost: 2, parallelism: 1 };

/** Limits how many passwords are hashed at the same time. Rejects a call with `unavailable` if too many wait. */
const limiter = new ConcurrencyLimiter({
  name: 'passwords',
  // One hash takes 19 MiB of memory and one of the four threads that Node also needs for DNS and files.
  limit: Math.min(3, availableParallelism()),
  maxWaiting: 100,
  maxWaitMs: 2_000,
});

export const hashPassword = (password: string): Promise<string> =>
  limiter.runAlone(() => hash(normal(password), parameters));

/**
 * Verifies a password. For an account that does not exist, `stored` is undefined. The result is then false after the
 * same computing time, so that attackers cannot find out which accounts exist.
 */
export async function verifyPassword(stored: string | undefined, password: string): Promise<boolean> {
  const right = await limiter.runAlone(() => verify(stored ?? noPassword, normal(password)));
  return right && stored !== undefined && stored !== noPassword;
}

/**
 * Converts a password to Unicode NFKC, because keyboards can encode the same character differently (NIST SP 800-63B,
 * 3.1.1.2).
 */
const normal = (password: string): string => password.normalize('NFKC');

export interface IssuedLink {
  user: User;
  token: RawToken;
  expires_at: string;
}

interface Change {
  customerId: string;
  userId: string;
  by: Actor;
}

/**
 * Creates a user, who cannot log in before setting a password with the link.
 * @throws DomainError `conflict` if the e-mail address is taken
 */
export async function inviteUser(
  sql: Transaction,
  customerId: string,
  body: UserCreate,
  by: Actor,
): Promise<IssuedLink> {
  const given = { ...body, name: body.name.trim(), passwordHash: noPassword };
  const { id: userId } = await createUser(sql, customerId, given, by);
  return issueLink(sql, { customerId, userId, by });
}

/**
 * Issues a link for a new password. The user's previous link becomes invalid. The old password stays until the new link
 * is used.
 */
export async function issueLink(sql: Transaction, { customerId, userId, by }: Change): Promise<IssuedLink> {
  await blockLogins(sql, userId); // who uses the previous link right now would void the new one too
  const user = await requireActive(sql, customerId, userId);
  const token = mintToken(linkPrefix);
  const expires_at = await storeLink(sql, customerId, userId, token.hash());
  await recordEvent(sql, { event: 'user.link_issued', customerId, userId, by });
  return { user, token, expires_at };
}

/** @throws DomainError `conflict` if no other active admin would be left */
export async function setRole(sql: Transaction, { customerId, userId, by }: Change, role: Role): Promise<void> {
  await requireActive(sql, customerId, userId);
  if (role !== 'admin') await requireOtherAdmin(sql, customerId, userId);
  await changeRole(sql, customerId, userId, role, by);
}

/** @throws DomainError `conflict` if no other active admin would be left */
export async function deactivateUnlessLastAdmin(sql: Transaction, { customerId, userId, by }: Change): Promise<void> {
  await requireActive(sql, customerId, userId);
  await requireOtherAdmin(sql, customerId, userId);
  await deactivateUser(sql, customerId, userId, by);
}

async function requireActive(sql: Transaction, customerId: string, userId: string): Promise<User> {
  const user = (await listUsers(sql, customerId)).find(({ id }) => id === userId);
  if (!user) throw notFound('user');
  if (!user.active) throw new DomainError('conflict', 'This user is deactivated');
  return user;
}

/**
 * Returns the user of a password link.
 * @throws Unauthorized if the link is wrong, used, replaced or expired, or its user cannot log in
 */
export async function requireLink(db: Database, link: string): Promise<{ user: LinkedUser; token: RawToken }> {
  const token = recogniseToken(link);
  const user = token && (await db.lookup((sql) => findLinkedUser(sql, token.hash())));
  if (!user) throw new Unauthorized('login', 'unknown');
  return { user, token };
}

/**
 * Sets the password of the link's user, and ends the user's sessions.
 * @param address IP address of the caller, for the audit log
 * @throws Unauthorized if the link is no longer valid
 */
export async function redeemLink(db: Database, link: string, password: string, address: string): Promise<void> {
  const { user, token } = await requireLink(db, link);
  const hash = await hashPassword(password);
  const done = await db.transaction((sql) => setPasswordByLink(sql, user, token.hash(), hash, address));
  if (!done) throw new Unauthorized('login', 'unknown');
}

/**
 * Logs a user in.
 * @param address IP address of the caller, for the audit log
 * @throws Unauthorized if no active user has this e-mail address and password
 */
export async function logIn(db: Database, { email, password }: Login, address: string): Promise<Session> {
  const account = await db.lookup((sql) => findAccountByEmail(sql, email));
  const isRight = await verifyPassword(account?.password_hash, password);
  if (!account) return refuseLogin(db, undefined, 'unknown', address);
  const refusal = isRight ? account.refusal : 'wrong_password';
  if (refusal) return refuseLogin(db, account, refusal, address);
  const token = mintToken(sessionPrefix);
  const by = { actor: account.email, address };
  const expires_at = await db.transaction((sql) => createSession(sql, account, token.hash(), by));
  if (!expires_at) return refuseLogin(db, account, 'wrong_password', address);
  return { token: token.reveal(), expires_at, user: account };
}

/**
 * Records a failed login, and rejects it. Every failed login uses this function, so that neither response nor timing
 * reveals the reason.
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
export async function replacePassword(db: Database, session: SessionCaller, body: PasswordChange, by: Actor) {
  const { customerId, userId, tokenHash } = session;
  const account = await db.lookup((sql) => findAccount(sql, customerId, userId));
  const right = await verifyPassword(account?.password_hash, body.current_password);
  const hash = right ? await hashPassword(body.new_password) : '';
  const done = await db.transaction(async (sql) => {
    const change = { customerId, userId, passwordHash: hash, event: 'user.password_changed', by } as const;
    const before = account && right && { hash: account.password_hash, kept: tokenHash };
    if (before && (await setPassword(sql, change, before))) return true;
    await recordEvent(sql, { event: 'user.password_change_failed', customerId, userId, by });
    return false;
  });
  if (!done) throw new Unauthorized('login', 'wrong_password');
}
