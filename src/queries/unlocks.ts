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

/** Prospects with unlocks that the search cluster has not been told of for certain, longest waiting first. */
export async function untoldProspects(sql: Sql | Transaction, limit: number): Promise<string[]> {
  const rows = await sql<{ prospect_id: string }[]>`
    select prospect_id
    from unlocks
    where not in_catalog
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

/** Notes that the catalog knows of unlocks. */
export async function markTold(
  sql: Sql | Transaction,
  unlocks: { customerId: string; prospectId: string }[],
): Promise<void> {
  await sql`
    update unlocks u
    set in_catalog = true
    from unnest(
      ${unlocks.map((unlock) => unlock.customerId)}::uuid[],
      ${unlocks.map((unlock) => unlock.prospectId)}::uuid[]
    ) told (customer_id, prospect_id)
    where u.customer_id = told.customer_id and u.prospect_id = told.prospect_id and not u.in_catalog`;
}

/** How many unlocks the search cluster has not been told of for certain. */
export async function countUntold(sql: Sql | Transaction): Promise<number> {
  const [row] = await sql<[{ count: number }]>`select count(*) from unlocks where not in_catalog`;
  return row.count;
}
