import type { Queryable, Transaction, Sql } from '../../database/db.ts';
import type { Identified } from './catalog-imports.ts';
import { lockAndFindSuppressed } from './privacy.ts';
import { lowestId } from '../../database/connection.ts';
import type { Prospect } from '../../schemas/prospects.ts';

export async function findUnlocked(sql: Queryable, customerId: string, prospectIds: string[]): Promise<Set<string>> {
  const rows = await sql<{ prospect_id: string }[]>`
    select prospect_id
    from unlocks
    where customer_id = ${customerId} and prospect_id = any(${prospectIds}::uuid[])`;
  return new Set(rows.map((row) => row.prospect_id));
}

/**
 * Unlocks prospects permanently. If two transactions unlock the same prospect, only one returns its id. Also unlocks
 * suppressed people: call `lockAndFindSuppressed` before to leave them out.
 * @param jobId the job that unlocks the prospects, if any
 * @returns ids that were not unlocked before
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

export async function findUnlockingCustomers(sql: Queryable, prospectIds: string[]): Promise<Map<string, string[]>> {
  const rows = await sql<{ prospect_id: string; customers: string[] }[]>`
    select prospect_id, array_agg(customer_id order by customer_id) as customers
    from unlocks
    where prospect_id = any(${prospectIds}::uuid[])
    group by prospect_id`;
  return new Map(rows.map((row) => [row.prospect_id, row.customers]));
}

/**
 * Returns prospects whose unlocks the search cluster has not confirmed yet, the oldest unlock first.
 * @param limit maximum number of unlocks to read
 * @param except ids of prospects to leave out
 */
export async function findUnindexedProspects(
  sql: Queryable,
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

export async function findUnindexedUnlocksOfJob(sql: Queryable, customerId: string, jobId: string): Promise<string[]> {
  const rows = await sql<{ prospect_id: string }[]>`
    select u.prospect_id
    from job_results r
    join unlocks u
      on u.customer_id = r.customer_id
      and u.prospect_id = coalesce(r.result ->> 'prospect_id', r.result ->> '_id', r.item)::uuid
    where r.customer_id = ${customerId}
      and r.job_id = ${jobId}
      and not u.in_catalog`;
  return rows.map((row) => row.prospect_id);
}

export interface UnlockKey {
  customer_id: string;
  prospect_id: string;
}

export const findUnindexedUnlocks = (sql: Queryable, prospectIds: string[]): Promise<UnlockKey[]> => sql`
  select customer_id, prospect_id
  from unlocks
  where prospect_id = any(${prospectIds}::uuid[])
    and not in_catalog`;

export async function markIndexed(sql: Transaction, unlocks: readonly UnlockKey[]): Promise<void> {
  const byCustomer = Map.groupBy(unlocks, ({ customer_id }) => customer_id);
  const customers = [...byCustomer.keys()].sort();
  // There is one statement per customer, because customers may later be stored on different database nodes.
  await Promise.all(customers.map((customerId) => markIndexedOf(sql, customerId, byCustomer.get(customerId)!)));
}

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

export async function countUnindexed(sql: Queryable): Promise<number> {
  const [row] = await sql<[{ count: number }]>`select count(*) from unlocks where not in_catalog`;
  return row.count;
}

export async function unlockPeople(sql: Transaction, customerId: string, people: readonly Identified[], jobId: string) {
  const suppressed = await lockAndFindSuppressed(sql, people);
  const ids = people.map(({ _id }) => _id).filter((id) => !suppressed.has(id));
  return { unlocked: new Set(await insertUnlocks(sql, customerId, ids, jobId)), suppressed };
}

export async function holdPeople(sql: Transaction, people: readonly Prospect[]): Promise<void> {
  await sql`
    insert into held_people (prospect_id, person)
    select (person ->> '_id')::uuid, person
    from jsonb_array_elements(${sql.json(people)}) as given (person)
    order by 1
    on conflict (prospect_id) do update set person = excluded.person`;
}

/** Returns all held people, in batches of 1,000. */
export async function readHeldPeople(sql: Sql): Promise<Prospect[][]> {
  const batches: Prospect[][] = [];
  for (let after = lowestId; ;) {
    const rows = await sql<{ person: Prospect }[]>`
      select person
      from held_people
      where prospect_id > ${after}
      order by prospect_id
      limit 1000`;
    if (rows.length === 0) return batches;
    batches.push(rows.map(({ person }) => person));
    after = rows.at(-1)!.person._id;
  }
}

export async function deleteHeldPeople(sql: Transaction, ids: readonly string[]): Promise<void> {
  await sql`delete from held_people where prospect_id = any(${ids as string[]}::uuid[])`;
}

/**
 * Removes people's data from the results of the customer's jobs. Keeps status and charge. A search that stopped at one
 * of these people starts from the beginning again.
 * @returns the number of changed results
 */
export async function clearUnlockResults(
  sql: Transaction,
  customerId: string,
  prospectIds: readonly string[],
): Promise<number> {
  const ids = prospectIds as string[];
  const { count } = await sql`
    update job_results
    set result = null
    where customer_id = ${customerId}
      and item = any(${ids}::text[])
      and result is not null`;
  await sql`
    update jobs
    set progress = progress - 'after'
    where customer_id = ${customerId}
      and progress -> 'after' ->> 'id' = any(${ids}::text[])`;
  return count;
}

export async function findUnlockResults(sql: Sql, texts: readonly string[]): Promise<Prospect[]> {
  const asWritten = texts.map((text) => JSON.stringify(text).slice(1, -1)); // an address can have a quotation mark
  const rows = await sql<{ person: Prospect }[]>`
    select distinct result as person
    from job_results
    where result ? '_id'
      and exists (
        select 1
        from unnest(${asWritten}::text[]) as written
        where position(lower(written) in lower(result::text)) > 0
      )`;
  return rows.map(({ person }) => person);
}
