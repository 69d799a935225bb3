import type { Sql, Transaction } from '../database/db.ts';

/** Returns those of the given prospect ids that the customer has unlocked. */
export async function findUnlocked(
  sql: Sql | Transaction,
  customerId: string,
  prospectIds: string[],
): Promise<Set<string>> {
  const rows = await sql<{ prospect_id: string }[]>`
    select prospect_id
    from unlocks
    where customer_id = ${customerId} and prospect_id = any(${prospectIds}::uuid[])`;
  return new Set(rows.map((row) => row.prospect_id));
}

/**
 * Unlocks prospects for a customer permanently. If two transactions unlock the same prospect, the second waits for the
 * first to commit, and only one of them returns the prospect.
 * @param jobId the job that unlocks the prospects, if any
 * @returns ids of the prospects that were not unlocked before
 */
export async function insertUnlocks(
  sql: Transaction,
  customerId: string,
  prospectIds: string[],
  jobId: string | null = null,
): Promise<string[]> {
  const rows = await sql<{ prospect_id: string }[]>`
    insert into unlocks (customer_id, prospect_id, job_id)
    select ${customerId}::uuid, id, ${jobId}::uuid
    from unnest(${prospectIds}::uuid[]) id
    order by id
    on conflict do nothing
    returning prospect_id`;
  return rows.map((row) => row.prospect_id);
}

/**
 * Returns for each prospect the ids of all customers that have unlocked it. The search cluster stores them in the
 * prospect's document.
 */
export async function findUnlockingCustomers(
  sql: Sql | Transaction,
  prospectIds: string[],
): Promise<Map<string, string[]>> {
  const rows = await sql<{ prospect_id: string; customers: string[] }[]>`
    select prospect_id, array_agg(customer_id order by customer_id) as customers
    from unlocks
    where prospect_id = any(${prospectIds}::uuid[])
    group by prospect_id`;
  return new Map(rows.map((row) => [row.prospect_id, row.customers]));
}

/**
 * Returns ids of prospects with unindexed unlocks, oldest unlock first, over all customers. An unlock is unindexed
 * until the search cluster has confirmed it (`in_catalog = false`).
 * @param limit maximum number of unlocks to read
 * @param except ids of prospects to leave out
 */
export async function findUnindexedProspects(
  sql: Sql | Transaction,
  limit: number,
  except: readonly string[] = [],
): Promise<string[]> {
  const rows = await sql<{ prospect_id: string }[]>`
    select prospect_id
    from unlocks
    where not in_catalog
      and prospect_id <> all(${except as string[]}::uuid[])
    order by unlocked_at
    limit ${limit}`;
  return [...new Set(rows.map((row) => row.prospect_id))];
}

/**
 * Returns the ids of prospects in a job's results whose unlocks are unindexed (not confirmed by the search cluster).
 */
export async function findUnindexedUnlocksOfJob(
  sql: Sql | Transaction,
  customerId: string,
  jobId: string,
): Promise<string[]> {
  const rows = await sql<{ prospect_id: string }[]>`
    select u.prospect_id
    from job_results r
    join unlocks u on u.customer_id = r.customer_id and u.prospect_id = r.item::uuid
    where r.customer_id = ${customerId}
      and r.job_id = ${jobId}
      and not u.in_catalog`;
  return rows.map((row) => row.prospect_id);
}

/** The primary key of an unlock. */
export interface UnlockKey {
  customer_id: string;
  prospect_id: string;
}

/** Returns the unindexed unlocks of these prospects (not confirmed by the search cluster), over all customers. */
export const findUnindexedUnlocks = (sql: Sql | Transaction, prospectIds: string[]): Promise<UnlockKey[]> => sql<
  UnlockKey[]
>`
  select customer_id, prospect_id
  from unlocks
  where prospect_id = any(${prospectIds}::uuid[])
    and not in_catalog`;

/**
 * Marks unlocks as indexed: the search cluster has confirmed them. It locks the rows in the order of their keys. So two
 * callers that mark the same unlocks wait for each other and never deadlock.
 */
export async function markIndexed(sql: Transaction, unlocks: readonly UnlockKey[]): Promise<void> {
  const byCustomer = Map.groupBy(unlocks, ({ customer_id }) => customer_id);
  const customers = [...byCustomer.keys()].sort();
  await Promise.all(customers.map((customerId) => markIndexedOf(sql, customerId, byCustomer.get(customerId)!)));
}

/**
 * Marks one customer's unlocks as indexed. Each customer has its own statement: customers may later be on different
 * nodes.
 */
const markIndexedOf = (sql: Transaction, customerId: string, unlocks: readonly UnlockKey[]) => sql`
  update unlocks u
  set in_catalog = true
  from (
    select prospect_id
    from unlocks
    where customer_id = ${customerId}
      and prospect_id = any(${unlocks.map(({ prospect_id }) => prospect_id)}::uuid[])
      and not in_catalog
    order by prospect_id
    for no key update
  ) marked
  where u.customer_id = ${customerId}
    and u.prospect_id = marked.prospect_id`;

/** Returns the number of unindexed unlocks (not confirmed by the search cluster) of all customers. */
export async function countUnindexed(sql: Sql | Transaction): Promise<number> {
  const [row] = await sql<[{ count: number }]>`select count(*) from unlocks where not in_catalog`;
  return row.count;
}
