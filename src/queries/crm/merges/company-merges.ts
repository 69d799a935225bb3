import type { Locked, LockedId, Transaction } from '../../../database/db.ts';
import { liveCompanies } from '../../../filters/live.ts';
import { constant } from '../../../filters/sql.ts';
import { companyFields, type Company } from '../../../schemas/companies.ts';
import type { Merge } from '../../../schemas/clean-data/merges.ts';
import { RecordsChanged, withRepeats } from '../../records/batches.ts';
import { lockContactsOfCompanies } from '../../records/contact-locks.ts';
import { withLastWrites, type LastWrites } from '../../records/last-writes.ts';
import { rememberMerge } from '../../records/merged-records.ts';
import { lockValues } from '../../records/value-locks.ts';
import { countOfCompanies } from '../../sales/moved-opportunities.ts';
import { byCompany, moveOpportunities, type MovedRecord } from '../../sales/opportunities.ts';
import { encodedCompany, lockCompanyRows, removeCompanies, type CompanyColumns } from '../companies.ts';
import { mergedCustomFields, mergedFields, mergedVerification } from './merged-values.ts';
import { choicesOf, idsOf, inOrder, requireDistinct, requireEqual, requireFew, type SafeMerge } from './merges.ts';

type StoredCompany = CompanyColumns &
  Pick<Company, 'score' | 'verification_status'> & { id: string; last_verified: string | null };

/**
 * Merges companies: the first one gets the values that it lacks, and the contacts and opportunities of the others, which
 * are deleted.
 * @throws DomainError `validation_failed` if the ids of the request contradict each other
 * @throws DomainError `not_found` with the JSON pointer of every id that is no company of the customer
 * @throws DomainError `conflict` if the records are not equal, the merged company would exceed a limit, or too many records would move
 */
export function mergeCompanies(sql: Transaction, customerId: string, merge: SafeMerge): Promise<void> {
  requireDistinct(merge);
  return withLastWrites(sql, customerId, (last) =>
    withRepeats(sql, last, (attempt, own) => mergeAll(attempt, customerId, merge, own)),
  );
}

// The order of locks is that of value-locks.ts. Which values to lock is known only when the companies are read, so they
// are read before they are locked, and compared afterwards.
async function mergeAll(sql: Transaction, customerId: string, merge: SafeMerge, last: LastWrites): Promise<void> {
  const seen = inOrder('company', merge, await readCompanies(sql, customerId, idsOf(merge)));
  const externalIds = seen.flatMap(({ external_id }) => external_id ?? []);
  await lockValues(
    sql,
    customerId,
    externalIds.map((value) => ({ kind: 'external_id', value })),
  );
  const records = await lockRecords(sql, customerId, merge, seen);
  requireEqual(merge, records);
  const [kept, ...others] = records;
  const merged = mergedCompany(records, merge);
  const gone = others.map(({ id }) => id);
  requireFew('company', {
    contacts: await countOfCompanies(sql, customerId, 'contacts', gone),
    opportunities: await countOfCompanies(sql, customerId, 'opportunities', gone),
  });
  last.updated('company', { id: kept.id, external_id: merged.external_id }, kept, merged);
  const contacts = await moveContacts(sql, customerId, { to: kept.id, from: gone });
  const opportunities = await moveOpportunities(sql, customerId, gone, kept.id);
  const moved = new Map(
    gone.map((id) => [id, { moved: { contacts: contacts.get(id), opportunities: opportunities.get(id) } }]),
  );
  await removeCompanies(sql, customerId, gone, last, { merged_into: kept.id }, moved);
  await updateMerged(sql, customerId, kept.id, merged);
  await rememberMerge(
    sql,
    customerId,
    'company',
    { id: kept.id, before: kept.external_id, after: merged.external_id },
    others.map(({ id, external_id }) => ({ id, external_id, prospect_id: null })),
  );
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
 * @throws RecordsChanged if a company now has another external id, or was deleted
 */
async function lockRecords(
  sql: Transaction,
  customerId: string,
  merge: Merge,
  seen: readonly StoredCompany[],
): Promise<[Locked<StoredCompany>, ...Locked<StoredCompany>[]]> {
  const ids = idsOf(merge);
  const locked = await lockCompanyRows(sql, customerId, ids, 'update');
  if (locked.length < ids.length) throw new RecordsChanged();
  const records = inOrder('company', merge, await readCompanies(sql, customerId, ids));
  if (records.some((record, i) => record.external_id !== seen[i]!.external_id)) throw new RecordsChanged();
  return records as [Locked<StoredCompany>, ...Locked<StoredCompany>[]];
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

async function updateMerged(
  sql: Transaction,
  customerId: string,
  id: string,
  { id: _id, score, verification_status, last_verified, ...columns }: StoredCompany,
): Promise<void> {
  await sql`
    update companies
    set
      ${sql(encodedCompany(sql, customerId, columns))},
      score = ${score},
      verification_status = ${verification_status},
      last_verified = ${last_verified},
      updated_at = (select clock_timestamp())
    where customer_id = ${customerId}
      and id = ${id}`;
}
