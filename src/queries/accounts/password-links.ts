import type { Queryable, Transaction } from '../../database/db.ts';
import type { TokenHash } from '../../credentials/tokens.ts';

/** The user to whom a link belongs. */
export interface LinkedUser {
  customer_id: string;
  id: string;
  email: string;
}

/** Makes the token valid for 72 hours, in place of the user's previous one. Returns when it expires. */
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

/** Returns undefined if the link is unknown, used or expired, or its user cannot log in. */
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

/** Returns when the link of each user ends or has ended, if the user has one that was not used, by the user's id. */
export async function findLinkEnds(sql: Queryable, customerId: string): Promise<Map<string, string>> {
  const rows = await sql<{ user_id: string; expires_at: string }[]>`
    select user_id, expires_at
    from password_links
    where customer_id = ${customerId}`;
  return new Map(rows.map(({ user_id, expires_at }) => [user_id, expires_at]));
}

export async function deleteLink(sql: Transaction, customerId: string, userId: string): Promise<void> {
  await sql`
    delete from password_links
    where customer_id = ${customerId}
      and user_id = ${userId}`;
}
