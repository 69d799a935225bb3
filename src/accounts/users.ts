import { linkPrefix, mintToken, recogniseToken, type RawToken } from '../credentials/tokens.ts';
import type { Database, Transaction } from '../database/db.ts';
import { DomainError, notFound, Unauthorized } from '../errors.ts';
import { noPassword } from '../credentials/no-password.ts';
import { hashPassword } from './passwords.ts';
import { recordEvent } from '../queries/accounts/audit.ts';
import { findLinkedUser, storeLink, type LinkedUser } from '../queries/accounts/password-links.ts';
import { blockLogins } from '../queries/accounts/sessions.ts';
import {
  changeRole,
  createUser,
  deactivateUser,
  listUsers,
  requireOtherAdmin,
  setPasswordByLink,
} from '../queries/accounts/users.ts';
import type { Actor } from '../schemas/audit.ts';
import type { Role, User, UserCreate } from '../schemas/users.ts';

/** A link with which a user sets the password. Show the token only in the response to the request that issued it. */
export interface IssuedLink {
  user: User;
  token: RawToken;
  expires_at: string;
}

/** Who manages which user. */
interface Change {
  customerId: string;
  userId: string;
  by: Actor;
}

/**
 * Returns what creates a user who cannot log in before they set a password with the link. The transaction: `conflict`
 * if a user has this e-mail address.
 */
export async function userCreation(
  customerId: string,
  body: UserCreate,
  by: Actor,
): Promise<(sql: Transaction) => Promise<IssuedLink>> {
  return async (sql) => {
    const user = await createUser(sql, customerId, { ...body, name: body.name.trim(), passwordHash: noPassword }, by);
    if (!user) throw addressTaken();
    return issueLink(sql, { customerId, userId: user.id, by });
  };
}

const addressTaken = (): DomainError => {
  const message = 'a user has this e-mail address';
  return new DomainError('conflict', message, { faults: [{ path: '/email', message }] });
};

/** Voids the user's previous link. The password stays until the new one is used. */
export async function issueLink(sql: Transaction, { customerId, userId, by }: Change): Promise<IssuedLink> {
  await blockLogins(sql, userId); // who uses the previous link right now would void the new one too
  const user = await requireActive(sql, customerId, userId);
  const token = mintToken(linkPrefix);
  const expires_at = await storeLink(sql, customerId, userId, token.hash());
  await recordEvent(sql, { event: 'user.link_issued', customerId, userId, by });
  return { user, token, expires_at };
}

/** @throws DomainError `conflict` if no other active admin is left */
export async function giveRole(sql: Transaction, { customerId, userId, by }: Change, role: Role): Promise<void> {
  await requireActive(sql, customerId, userId);
  if (role !== 'admin') await requireOtherAdmin(sql, customerId, userId);
  await changeRole(sql, customerId, userId, role, by);
}

/** @throws DomainError `conflict` if no other active admin is left */
export async function shutOut(sql: Transaction, { customerId, userId, by }: Change): Promise<void> {
  await requireActive(sql, customerId, userId);
  await requireOtherAdmin(sql, customerId, userId);
  await deactivateUser(sql, customerId, userId, by);
}

/** @throws DomainError `not_found`; `conflict` if the user is deactivated */
async function requireActive(sql: Transaction, customerId: string, userId: string): Promise<User> {
  const user = (await listUsers(sql, customerId)).find(({ id }) => id === userId);
  if (!user) throw notFound('user');
  if (!user.active) throw new DomainError('conflict', 'This user is deactivated');
  return user;
}

/** @throws Unauthorized if the link is wrong, used, replaced or expired, or its user cannot log in */
export async function requireLink(db: Database, link: string): Promise<{ user: LinkedUser; token: RawToken }> {
  const token = recogniseToken(link);
  const user = token && (await db.lookup((sql) => findLinkedUser(sql, token.hash())));
  if (!user) throw new Unauthorized('login', 'unknown');
  return { user, token };
}

/**
 * Sets the password of the link's user, and ends the user's sessions.
 * @param address IP address of the caller, for the audit log
 * @throws Unauthorized if the link is not valid any more
 */
export async function redeemLink(db: Database, link: string, password: string, address: string): Promise<void> {
  const { user, token } = await requireLink(db, link);
  const hash = await hashPassword(password);
  const done = await db.transaction((sql) => setPasswordByLink(sql, user, token.hash(), hash, address));
  if (!done) throw new Unauthorized('login', 'unknown');
}
