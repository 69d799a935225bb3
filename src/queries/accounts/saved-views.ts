import type { Queryable, Transaction } from '../../database/db.ts';
import { conflict } from '../../errors.ts';

/** The tables of which views can be saved. */
export type ViewObject = 'contacts' | 'companies' | 'opportunities';

/** Of one user. Two that are saved at the same moment can exceed it. */
const maxViews = 100;

export interface SavedView {
  id: string;
  /** Who saved it. */
  user_id: string;
  object: ViewObject;
  name: string;
  /** The parameters of the page's address. */
  query: string;
  /** All users of the customer see it. */
  is_shared: boolean;
}

/** Returns the views that a user sees: the user's own, and those for all. */
export const listSavedViews = (sql: Queryable, customerId: string, userId: string): Promise<SavedView[]> =>
  sql<SavedView[]>`
    select id, user_id, object, name, query, is_shared
    from saved_views
    where customer_id = ${customerId}
      and (user_id = ${userId} or is_shared)
    order by name, id`;

/**
 * Saves a view. It replaces a view of the same user, table and name.
 * @throws DomainError `conflict` if the user has too many
 */
export async function saveView(
  sql: Transaction,
  customerId: string,
  { user_id, object, name, query, is_shared }: Omit<SavedView, 'id'>,
): Promise<void> {
  const [others] = await sql<[{ count: number }]>`
    select count(*)::integer as count
    from saved_views
    where customer_id = ${customerId}
      and user_id = ${user_id}
      and (object, name) <> (${object}, ${name})`;
  if (others.count >= maxViews) throw conflict(`You have ${maxViews} views already: delete one first`);
  await sql`
    insert into saved_views (customer_id, user_id, object, name, query, is_shared)
    values (${customerId}, ${user_id}, ${object}, ${name}, ${query}, ${is_shared})
    on conflict (customer_id, user_id, object, name) do update
    set query = excluded.query, is_shared = excluded.is_shared`;
}

export const deleteView = (sql: Transaction, customerId: string, id: string) => sql`
  delete from saved_views
  where customer_id = ${customerId}
    and id = ${id}`;
