import type { Locked, LockedId, Transaction } from '../../../database/db.ts';
import { liveCompanies } from '../../../filters/live.ts';
import { constant } from '../../../filters/sql.ts';
import { companyFields, type Company } from '../../../schemas/companies.ts';
import type { Merge } from '../../../schemas/clean-data/merges.ts';
import { withRepeats } from '../../records/batches.ts';
import { lockContactsOfCompanies } from '../../records/contact-locks.ts';
import { withLastWrites, type LastWrites } from '../../records/last-writes.ts';
import { rememberMerge } from '../../records/merged-records.ts';
import { lockBulk } from '../../records/bulk-lock.ts';
import { countActivitiesOf, moveActivities } from '../../memberships/activity-links.ts';
import {
  byCompany,
  countOfCompanies,
  moveOpportunities,
  type MovedRecord,
} from '../../memberships/moved-opportunities.ts';
import { encodedCompany, lockCompanyRows, removeCompanies, type CompanyColumns } from '../companies.ts';
import { mergedCustomFields, mergedFields, mergedVerification } from './merged-values.ts';
import { choicesOf, idsOf, inOrder, requireDistinct, requireEqual, requireFew, type SafeMerge } from './merges.ts';

type StoredCompany = CompanyColumns &
  Pick<Company, 'score' | 'verification_status'> & { id: string; last_verified: string | null };

/**
 * Merges companies: the first one gets the values that it lacks, and the contacts, opportunities and activities of the others, which
 * are deleted.
 * @throws DomainError `validation_failed` if the ids of the request contradict each other
 * @throws DomainError `not_found` with the JSON pointer of every id that is no company of the customer
 * @throws DomainError `conflict` if the records are not equal, the merged company would exceed a limit, or too many records would move
 */
export function mergeCompanies(sql: Transaction, customerId: string, merge: SafeMerge): Promise<void> {
  requireDistinct(merge);
  return withLastWrites(sql, customerId, async (last) => {
    await lockBulk(sql, customerId);
    return withRepeats(sql, last, (attempt, own) => mergeAll(attempt, customerId, merge, own));
  });
}

async function mergeAll(sql: Transaction, customerId: string, merge: SafeMerge, last: LastWrites): Promise<void> {
  const records = await lockRecords(sql, customerId, merge);
  requireEqual(merge, records);
  const [kept, ...others] = records;
  const merged = mergedCompany(records, merge);
  const gone = others.map(({ id }) => id);
  requireFew('company', {
    contacts: await countOfCompanies(sql, customerId, 'contacts', gone),
    opportunities: await countOfCompanies(sql, customerId, 'opportunities', gone),
    activities: await countActivitiesOf(sql, customerId, 'company', gone),
  });
  const contacts = await moveContacts(sql, customerId, { to: kept.id, from: gone });
  const opportunities = await moveOpportunities(sql, customerId, gone, kept.id);
  // Told before the records: an undo takes these back together, and first. Locked after contacts and opportunities.
  await moveActivities(sql, customerId, 'company', { to: kept.id, from: gone }, last);
  const isTold = last.updated('company', { id: kept.id, external_id: merged.external_id }, kept, merged);
  const earlier = await rememberMerge(
    sql,
    customerId,
    'company',
    { id: kept.id, before: kept.external_id, after: merged.external_id },
    others.map(({ id, external_id }) => ({ id, external_id, prospect_id: null })),
  );
  const moved = new Map(
    gone.map((id) => [
      id,
      { moved: { contacts: contacts.get(id), opportunities: opportunities.get(id), merged: earlier.get(id) } },
    ]),
  );
  await removeCompanies(sql, customerId, gone, last, { merged_into: kept.id, moved });
  await updateMerged(sql, customerId, kept.id, merged, isTold);
}

const readCompanies = (sql: Transaction, customerId: string, ids: readonly string[]): Promise<StoredCompany[]> => sql<
  StoredCompany[]
>`
  select co.id, ${constant(sql, companyFields.join(', '))}, score, verification_status, last_verified
  from ${liveCompanies(sql, customerId)}
    and co.id = any(${ids as string[]}::uuid[])`;

/**
 * Locks the companies and returns their current values, in the order of the request. Other transactions cannot add
 * contacts or opportunities to them until this one ends.
 * @throws DomainError `not_found` with the JSON pointer of every id that is no company of the customer
 */
async function lockRecords(
  sql: Transaction,
  customerId: string,
  merge: Merge,
): Promise<[Locked<StoredCompany>, ...Locked<StoredCompany>[]]> {
  const ids = idsOf(merge);
  await lockCompanyRows(sql, customerId, ids, 'update');
  return inOrder('company', merge, await readCompanies(sql, customerId, ids)) as [
    Locked<StoredCompany>,
    ...Locked<StoredCompany>[],
  ];
}

/** @throws DomainError `conflict` if the company would exceed a limit */
function mergedCompany(records: readonly [StoredCompany, ...StoredCompany[]], merge: Merge): StoredCompany {
  const choices = choicesOf(merge, records);
  const columns = mergedFields(records, companyFields, choices);
  return {
    ...columns,
    custom_fields: mergedCustomFields(records, choices),
    score: records.find(({ score }) => score > 0)?.score ?? 0,
    ...mergedVerification(records),
  };
}

/** Gives the contacts of the companies `from` to the company `to`. Returns their ids, by company. */
async function moveContacts(
  sql: Transaction,
  customerId: string,
  { to, from }: { to: LockedId; from: LockedId[] },
): Promise<Map<string, string[]>> {
  await lockContactsOfCompanies(sql, customerId, from);
  const moved = await sql<MovedRecord[]>`
    with held as (
      select id, company_id
      from contacts
      where customer_id = ${customerId}
        and company_id = any(${from}::uuid[])
    )
    update contacts c
    set company_id = ${to}, updated_at = (select clock_timestamp())
    from held
    where c.customer_id = ${customerId}
      and c.id = held.id
    returning c.id, held.company_id`;
  return byCompany(moved);
}

/** @param isTold the journal gets a row of the record: else its `updated_at` stays */
async function updateMerged(
  sql: Transaction,
  customerId: string,
  id: string,
  { id: _id, score, verification_status, last_verified, ...columns }: StoredCompany,
  isTold: boolean,
): Promise<void> {
  await sql`
    update companies
    set
      ${sql(encodedCompany(sql, customerId, columns))},
      score = ${score},
      verification_status = ${verification_status},
      last_verified = ${last_verified},
      updated_at = ${isTold ? sql`(select clock_timestamp())` : sql`updated_at`}
    where customer_id = ${customerId}
      and id = ${id}`;
}
