import { allCustomers } from '../../credentials/requester.ts';
import type { Queryable, SharedDatabase, Sql } from '../../database/db.ts';
import { maxSetAside, stuckAfter } from '../jobs/endpoint-rows.ts';

/**
 * An endpoint `e` may get new events of the feed: not too many are set aside, and none if too many deliveries failed in a
 * row.
 */
const readsFeed = (sql: Queryable) => sql`
  e.set_aside < ${maxSetAside}
  and (e.failures_in_row < ${stuckAfter} or e.set_aside = 0)`;

/** Events are sent to the endpoint `e` of the customer `c`. */
const isOn = (sql: Queryable) => sql`
  e.active
  and c.status = 'OK'`;

/** A worker may lease the endpoint `e` of the customer `c`. */
const isFree = (sql: Queryable) => sql`
  ${isOn(sql)}
  and (e.leased_until is null or e.leased_until <= (select clock_timestamp()))`;

/**
 * The row behind the place of the endpoint `e` in the journal, as `j`. Positions have no gap, so there is none if it has
 * been truncated; then `k` is the newest truncated row.
 */
const joinNext = (sql: Queryable) => sql`
  left join journal j on j.customer_id = e.customer_id and j.position = e.position + 1
  left join journal_ends k on k.customer_id = e.customer_id and k.position > e.position`;

const hasWork = (sql: Queryable) => sql`
  (
    e.retry_at <= now()
    or (${readsFeed(sql)} and (e.replay_position is not null or j.position is not null or k.position is not null))
  )`;

/** An endpoint that has something to send. */
export interface DueEndpoint {
  id: string;
  failing_since: string | null;
  last_success_at: string | null;
}

/** Finds the endpoints of a customer that a worker can send to now, those first that have waited longest. */
export const findDueEndpoints = (sql: Sql, customerId: string): Promise<DueEndpoint[]> =>
  sql<DueEndpoint[]>`
    select e.id, e.failing_since, e.last_success_at
    from webhook_endpoints e
    join customers c on c.id = e.customer_id
    ${joinNext(sql)}
    where e.customer_id = ${customerId}
      and ${isFree(sql)}
      and ${hasWork(sql)}
    order by e.served_at nulls first, e.id`;

/**
 * Finds customers with endpoints that a worker can send to now. Returns a page of their ids, in ascending order.
 * @param after last customer id of the previous page
 */
export async function findDueCustomers(
  sql: Queryable,
  { after, limit }: { after: string; limit: number },
): Promise<string[]> {
  const rows = await sql<{ customer_id: string }[]>`
    select distinct e.customer_id
    from webhook_endpoints e
    join customers c on c.id = e.customer_id
    ${joinNext(sql)}
    where e.customer_id > ${after}
      and ${isFree(sql)}
      and ${hasWork(sql)}
    order by e.customer_id
    limit ${limit}`;
  return rows.map((row) => row.customer_id);
}

/** Conditions on the endpoint `e`: its last delivery succeeded, it has had none that succeeded yet, the last one failed. */
const standings = {
  working: (sql: Sql) => sql`e.failing_since is null and e.last_success_at is not null`,
  new: (sql: Sql) => sql`e.failing_since is null and e.last_success_at is null`,
  failing: (sql: Sql) => sql`e.failing_since is not null`,
};

/** Finds customers with such endpoints to send to, those first that have waited longest for a worker. */
export async function findLongestWaiting(
  db: Pick<SharedDatabase, 'for'>,
  standing: keyof typeof standings,
  limit: number,
): Promise<string[]> {
  const rows = await db.for({ customerId: allCustomers }, null).search((sql) => findLongestOf(sql, standing, limit));
  return rows.map(({ customer_id }) => customer_id);
}

/**
 * Customers wait since a worker last had one of their endpoints of this standing, also one that has nothing to send now: else
 * those with many new endpoints would come first again and again.
 */
const findLongestOf = (sql: Sql, standing: keyof typeof standings, limit: number) =>
  sql<{ customer_id: string; served: number }[]>`
    select e.customer_id, coalesce(extract(epoch from max(e.served_at)), 0) as served
    from webhook_endpoints e
    join customers c on c.id = e.customer_id
    ${joinNext(sql)}
    where ${isOn(sql)}
      and ${standings[standing](sql)}
    group by e.customer_id
    having bool_or(${isFree(sql)} and ${hasWork(sql)})
    order by served, e.customer_id
    limit ${limit}`;
