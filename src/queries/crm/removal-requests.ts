import type { LockedId, Transaction } from '../../database/db.ts';
import { lockedInOrder } from '../records/contact-locks.ts';
import type { LastWrites } from '../records/last-writes.ts';
import { findByMergedProspect } from '../records/merged-records.ts';
import { lockBulk } from '../records/bulk-lock.ts';

/**
 * Notes in the customer's contacts that came from these prospects, or replace merged contacts that did, that the people
 * were erased from the catalog. A contact that has the note keeps it. The prospects and the rows stay locked until the
 * transaction ends.
 * @returns ids of the changed contacts
 */
export async function markRemovalRequested(
  sql: Transaction,
  customerId: string,
  prospectIds: readonly string[],
  last: LastWrites,
): Promise<LockedId[]> {
  // Without this lock, a merge could give the prospect to a contact that is not found here.
  await lockBulk(sql, customerId);
  const merged = (await findByMergedProspect(sql, customerId, prospectIds)).map(({ merged_into }) => merged_into);
  const rows = await sql<{ id: LockedId; external_id: string | null }[]>`
    select id, external_id
    from contacts
    where customer_id = ${customerId}
      and (
        (prospect_id is not null and prospect_id = any(${prospectIds as string[]}::uuid[]))
        or id = any(${merged}::uuid[])
      )
      and removal_requested_at is null
    ${lockedInOrder(sql)}`;
  const ids = rows.map(({ id }) => id);
  if (ids.length === 0) return [];
  const [{ now }] = await sql<[{ now: string }]>`select clock_timestamp()::timestamptz(3) as now`;
  await sql`
    update contacts
    set removal_requested_at = ${now}, updated_at = ${now}
    where customer_id = ${customerId}
      and id = any(${ids}::uuid[])`;
  for (const row of rows) last.updated('contact', row, { removal_requested_at: null }, { removal_requested_at: now });
  return ids;
}
