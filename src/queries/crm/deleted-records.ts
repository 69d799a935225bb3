import type { Transaction } from '../../database/db.ts';

/*
 * The rows of deleted companies and lists, what refers to them, and hidden activities stay for `HISTORY_DAYS`, so that the
 * deletion can be undone. No read finds them (filters/live.ts). Then these functions remove them, in short transactions.
 */

/** Number of rows that one statement changes. */
const batchSize = 1_000;

interface Deleted {
  customerId: string;
  ids: string[];
}

const since = { companies: 'deleted_at', lists: 'deleted_at', activities: 'hidden_at' } as const;

/** Finds rows of one customer that were deleted, or hidden, more than `days` ago. */
async function findDeleted(sql: Transaction, table: keyof typeof since, days: number): Promise<Deleted | undefined> {
  const rows = await sql<{ customer_id: string; id: string }[]>`
    select customer_id, id
    from ${sql(table)}
    where ${sql(since[table])} <= now() - make_interval(days => ${days})
    order by ${sql(since[table])}
    limit ${batchSize}`;
  const [first] = rows;
  if (!first) return undefined;
  const ids = rows.filter(({ customer_id }) => customer_id === first.customer_id).map(({ id }) => id);
  return { customerId: first.customer_id, ids };
}

/**
 * Clears the next references to companies that were deleted more than `days` ago, or deletes their rows if there are no
 * more references.
 * @returns the number of rows that were changed; 0 if there are no such companies
 */
export async function purgeCompanies(sql: Transaction, days: number): Promise<number> {
  const deleted = await findDeleted(sql, 'companies', days);
  if (!deleted) return 0;
  const { customerId, ids } = deleted;
  const references =
    (await detach(sql, 'contacts', deleted)).count || (await detach(sql, 'opportunities', deleted)).count;
  if (references > 0) return references;
  const { count } = await sql`
    delete from companies
    where customer_id = ${customerId}
      and id = any(${ids}::uuid[])`;
  return count;
}

/** Leaves `updated_at` as it is: the record has shown no company since the deletion. */
const detach = (sql: Transaction, table: 'contacts' | 'opportunities', { customerId, ids }: Deleted) => sql`
  with detached as (
    select id
    from ${sql(table)}
    where customer_id = ${customerId}
      and company_id = any(${ids}::uuid[])
    order by id
    limit ${batchSize}
    for no key update
  )
  update ${sql(table)} r
  set company_id = null
  from detached
  where r.customer_id = ${customerId}
    and r.id = detached.id`;

/**
 * Deletes the next members of lists that were deleted more than `days` ago, or the rows of these lists if they have no
 * members.
 * @returns the number of rows that were changed; 0 if there is nothing to do, or others hold all that is left
 */
export async function purgeLists(sql: Transaction, days: number): Promise<number> {
  const deleted = await findDeleted(sql, 'lists', days);
  if (!deleted) return 0;
  const { customerId, ids } = deleted;
  // Never waits for a row: who deletes contacts locks their memberships in another order.
  const members = await sql`
    with gone as (
      select list_id, contact_id
      from list_members
      where customer_id = ${customerId}
        and list_id = any(${ids}::uuid[])
      order by list_id, contact_id
      limit ${batchSize}
      for update skip locked
    )
    delete from list_members m
    using gone
    where m.customer_id = ${customerId}
      and m.list_id = gone.list_id
      and m.contact_id = gone.contact_id`;
  if (members.count > 0) return members.count;
  const lists = await sql`
    delete from lists l
    where l.customer_id = ${customerId}
      and l.id = any(${ids}::uuid[])
      and not exists (select 1 from list_members m where m.customer_id = ${customerId} and m.list_id = l.id)`;
  return lists.count;
}

/**
 * Deletes the next activities that were hidden more than `days` ago.
 * @returns the number of rows that were deleted
 */
export async function purgeActivities(sql: Transaction, days: number): Promise<number> {
  const hidden = await findDeleted(sql, 'activities', days);
  if (!hidden) return 0;
  const { count } = await sql`
    delete from activities
    where customer_id = ${hidden.customerId}
      and id = any(${hidden.ids}::uuid[])
      and hidden_at is not null`;
  return count;
}
