import type { Queryable, Transaction } from '../../database/db.ts';
import { notFound } from '../../errors.ts';
import type { Fragment } from '../../filters/sql.ts';

/** Returns the customer's records with these ids, in any order. Leaves out unknown ids. */
export type FindRecords<Row> = (sql: Queryable, customerId: string, ids: readonly string[]) => Promise<Row[]>;

/**
 * Creates a record, and returns its id.
 * @throws DomainError `not_found` if `body` refers to records that the customer does not have
 */
export type CreateRecord<Body> = (sql: Transaction, customerId: string, body: Body) => Promise<string>;

/**
 * Changes the fields that `patch` contains, or none if one fails.
 * @throws DomainError `not_found` if the customer has no such record; `precondition_failed` if `ifMatch` is not its ETag
 */
export type UpdateRecord<Patch> = (
  sql: Transaction,
  customerId: string,
  id: string,
  patch: Patch,
  ifMatch?: string,
) => Promise<void>;

/**
 * Deletes a record.
 * @param purge removes it for good, also if it is deleted already. Only contacts and companies know it
 * @throws DomainError `not_found` if the customer has no such record; `precondition_failed` if `ifMatch` is not its ETag
 */
export type DeleteRecord = (
  sql: Transaction,
  customerId: string,
  id: string,
  ifMatch?: string,
  purge?: boolean,
) => Promise<void>;

/**
 * Returns the records with these ids, in any order. Leaves out those that `one` does not find.
 * @param one SQL `select` of the record whose id is `wanted.id`
 */
export const findByIds = <Row extends object>(sql: Queryable, ids: readonly string[], one: Fragment): Promise<Row[]> =>
  // `offset 0` keeps the plan for a single id. Without it, the planner may join all of the customer's rows.
  sql<Row[]>`
    select found.*
    from unnest(${ids as string[]}::uuid[]) as wanted (id)
    cross join lateral (${one} offset 0) as found`;

/**
 * SQL expression: how many rows there are. Stops counting one past `max`.
 * @param rows SQL clauses `from` and `where`
 */
export const countUpTo = (sql: Queryable, rows: Fragment, max: number): Fragment =>
  sql`(select count(*)::integer from (select 1 ${rows} limit ${max + 1}) few)`;

/** Returns the ids of some customers, in ascending order: up to `limit` after `after`. */
export type FindCustomers = (sql: Queryable, page: { after: string; limit: number }) => Promise<string[]>;

/**
 * Finds the customers that have such rows.
 * @param rows SQL clauses `from` and `where`
 */
export const findCustomersWith =
  (rows: (sql: Queryable) => Fragment): FindCustomers =>
  async (sql, { after, limit }) => {
    const found = await sql<{ customer_id: string }[]>`
      select distinct customer_id
      ${rows(sql)}
        and customer_id > ${after}
      order by customer_id
      limit ${limit}`;
    return found.map(({ customer_id }) => customer_id);
  };

const ownedBy = { api_keys: 'API key', jobs: 'job', users: 'user', webhook_endpoints: 'webhook endpoint' } as const;

/**
 * Returns the customer of a record. Searches the records of all customers, so only the command line uses it.
 * @throws DomainError `not_found`
 */
export async function requireOwner(sql: Queryable, table: keyof typeof ownedBy, id: string): Promise<string> {
  const [row] = await sql<{ customer_id: string }[]>`
    select customer_id
    from ${sql(table)}
    where id = ${id}`;
  if (!row) throw notFound(ownedBy[table]);
  return row.customer_id;
}

/** Returns the rows in the order of their ids. */
export const inOrderOf = <Row extends { id: string }>(ids: readonly string[], rows: readonly Row[]): Row[] => {
  const byId = new Map(rows.map((row) => [row.id, row]));
  return ids.flatMap((id) => byId.get(id) ?? []);
};
