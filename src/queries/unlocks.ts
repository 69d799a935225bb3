import type { Sql, Transaction } from '../db.ts';

/** Which of these prospects the customer has unlocked. */
export async function unlockedAmong(
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
 * Unlocks prospects for a customer, for ever. Two that race for the same one do not both get it: the second waits for the
 * first to commit.
 * @param jobId the job that does it
 * @returns those that were not unlocked before
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

/** Who has unlocked these prospects, over all customers: for the search cluster, which keeps it beside each of them. */
export async function customersOf(sql: Sql | Transaction, prospectIds: string[]): Promise<Map<string, string[]>> {
  const rows = await sql<{ prospect_id: string; customers: string[] }[]>`
    select prospect_id, array_agg(customer_id order by customer_id) as customers
    from unlocks
    where prospect_id = any(${prospectIds}::uuid[])
    group by prospect_id`;
  return new Map(rows.map((row) => [row.prospect_id, row.customers]));
}

/**
 * Prospects with unlocks that the search cluster has not been told of for certain, longest waiting first.
 * @param except prospects that are left out
 */
export async function untoldProspects(
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

/** Those of a job's results whose unlocks the search cluster has not been told of for certain. */
export async function untoldUnlocksOf(sql: Sql | Transaction, customerId: string, jobId: string): Promise<string[]> {
  const rows = await sql<{ prospect_id: string }[]>`
    select u.prospect_id
    from job_results r
    join unlocks u on u.customer_id = r.customer_id and u.prospect_id = r.item::uuid
    where r.customer_id = ${customerId}
      and r.job_id = ${jobId}
      and not u.in_catalog`;
  return rows.map((row) => row.prospect_id);
}

/** An unlock by its key. */
export interface UnlockKey {
  customer_id: string;
  prospect_id: string;
}

/** The unlocks of these prospects, over all customers, that the search cluster has not been told of for certain. */
export const untoldUnlocks = (sql: Sql | Transaction, prospectIds: string[]): Promise<UnlockKey[]> => sql<UnlockKey[]>`
  select customer_id, prospect_id
  from unlocks
  where prospect_id = any(${prospectIds}::uuid[])
    and not in_catalog`;

/**
 * Marks unlocks as known to the catalog. The rows are locked in the order of their key, so that two callers who mark the
 * same unlocks wait for each other and never deadlock.
 */
export async function markTold(sql: Transaction, unlocks: readonly UnlockKey[]): Promise<void> {
  const byCustomer = Map.groupBy(unlocks, ({ customer_id }) => customer_id);
  const customers = [...byCustomer.keys()].sort();
  await Promise.all(customers.map((customerId) => markToldOf(sql, customerId, byCustomer.get(customerId)!)));
}

/** One statement a customer: their rows may one day live on different machines. */
const markToldOf = (sql: Transaction, customerId: string, unlocks: readonly UnlockKey[]) => sql`
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
  ) told
  where u.customer_id = ${customerId}
    and u.prospect_id = told.prospect_id`;

/** How many unlocks the search cluster has not been told of for certain. */
export async function countUntold(sql: Sql | Transaction): Promise<number> {
  const [row] = await sql<[{ count: number }]>`select count(*) from unlocks where not in_catalog`;
  return row.count;
}
