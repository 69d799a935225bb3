import type { Locked, LockedId, Transaction } from '../../../database/db.ts';
import { constant } from '../../../filters/sql.ts';
import { contactFields, type Contact } from '../../../schemas/contacts.ts';
import type { Merge } from '../../../schemas/clean-data/merges.ts';
import { fold } from '../../../text/fold.ts';
import { RecordsChanged, withRepeats } from '../../records/batches.ts';
import { withLastWrites, type LastWrites } from '../../records/last-writes.ts';
import { rememberMerge } from '../../records/merged-records.ts';
import type { LockedValue } from '../../records/value-locks.ts';
import { addToLists, findManualLists } from '../../memberships/list-members.ts';
import { countOpportunitiesOfContacts, moveOpportunityContacts } from '../../sales/moved-opportunities.ts';
import type { PlaceInOpportunity } from '../../sales/opportunity-contacts.ts';
import { lockCompanies } from '../company-names.ts';
import { encodedContact, lockContactRows, removeContacts, serviceColumns, type ContactColumns } from '../contacts.ts';
import {
  firstOf,
  mergedCustomFields,
  mergedFields,
  unitedEmails,
  unitedPhones,
  verificationOf,
} from './merged-values.ts';
import { choicesOf, idsOf, inOrder, requireDistinct, requireEqual, requireFew, type SafeMerge } from './merges.ts';

/** Columns of a contact that only the service writes. */
type OwnColumns = Pick<Contact, 'score' | 'verification_status' | 'crm_synced_at' | 'removal_requested_at'> & {
  last_verified: string | null;
  prospect_id: string | null;
};

type StoredContact = ContactColumns & OwnColumns & { id: string };

/**
 * Merges contacts: the first one gets the values that it lacks, the lists to which the others were added by hand, and
 * their opportunities. The others are deleted.
 * @throws DomainError `validation_failed` if the ids of the request contradict each other
 * @throws DomainError `not_found` with the JSON pointer of every id that is no contact of the customer
 * @throws DomainError `conflict` if the records are not equal, the merged contact would exceed a limit, or too many opportunities would move
 */
export function mergeContacts(sql: Transaction, customerId: string, merge: SafeMerge): Promise<void> {
  requireDistinct(merge);
  return withLastWrites(sql, customerId, (last) =>
    withRepeats(sql, last, (attempt, own) => mergeAll(attempt, customerId, merge, own)),
  );
}

// The order of locks is that of value-locks.ts. Which values and companies to lock is known only when the contacts are
// read, so they are read before they are locked, and compared afterwards.
async function mergeAll(sql: Transaction, customerId: string, merge: SafeMerge, last: LastWrites): Promise<void> {
  const seen = inOrder('contact', merge, await readContacts(sql, customerId, idsOf(merge)));
  const { byId: companies } = await lockCompanies(sql, customerId, {
    names: [],
    ids: [...new Set(seen.flatMap(({ company_id }) => company_id ?? []))],
    values: seen.flatMap(valuesOf),
  });
  const records = await lockRecords(sql, customerId, merge, seen, companies);
  requireEqual(merge, records);
  const [kept, ...others] = records;
  const merged = mergedContact(records, merge);
  const gone = others.map(({ id }) => id);
  requireFew('contact', { opportunities: await countOpportunitiesOfContacts(sql, customerId, gone) });
  last.updated('contact', { id: kept.id, external_id: merged.external_id }, kept, merged);
  const lists = await moveManualLists(sql, customerId, { to: kept.id, from: gone });
  const places = await moveOpportunityContacts(sql, customerId, { to: kept.id, from: gone });
  const moved = new Map(gone.map((id) => [id, movedOf(kept.id, id, lists, places)]));
  await removeContacts(sql, customerId, gone, last, { merged_into: kept.id }, moved);
  await updateMerged(sql, customerId, kept.id, merged);
  await rememberMerge(
    sql,
    customerId,
    'contact',
    { id: kept.id, before: kept.external_id, after: merged.external_id },
    others.map(({ id, external_id, prospect_id }) => ({ id, external_id, prospect_id })),
  );
}

const readContacts = (sql: Transaction, customerId: string, ids: readonly string[]): Promise<StoredContact[]> => sql<
  StoredContact[]
>`
  select id, ${constant(sql, [...contactFields, ...serviceColumns].join(', '))}, company_id
  from contacts
  where customer_id = ${customerId}
    and id = any(${ids as string[]}::uuid[])`;

/** The values by which other transactions may search for a contact before they create one. */
function valuesOf({ external_id, work_email, prospect_id }: StoredContact): LockedValue[] {
  const values: LockedValue[] = [];
  if (external_id !== null) values.push({ kind: 'external_id', value: external_id });
  if (work_email !== '') values.push({ kind: 'work_email', value: fold(work_email) });
  if (prospect_id !== null) values.push({ kind: 'prospect_id', value: prospect_id });
  return values;
}

/**
 * Locks the contacts and returns their current values, in the order of the request. A deleted company counts as none.
 * @throws RecordsChanged if a contact now has other values to lock, or was deleted
 */
async function lockRecords(
  sql: Transaction,
  customerId: string,
  merge: Merge,
  seen: readonly StoredContact[],
  companies: ReadonlySet<string>,
): Promise<[Locked<StoredContact>, ...Locked<StoredContact>[]]> {
  const ids = idsOf(merge);
  const locked = await lockContactRows(sql, customerId, ids);
  if (locked.length < ids.length) throw new RecordsChanged();
  // A new statement, because the columns that are read with the lock may be older than the lock.
  const records = inOrder('contact', merge, await readContacts(sql, customerId, ids));
  for (const [i, record] of records.entries()) if (lockedBy(record) !== lockedBy(seen[i]!)) throw new RecordsChanged();
  return records.map((record) => ({
    ...record,
    company_id: record.company_id !== null && companies.has(record.company_id) ? record.company_id : null,
  })) as [Locked<StoredContact>, ...Locked<StoredContact>[]];
}

const lockedBy = (record: StoredContact): string => JSON.stringify([valuesOf(record), record.company_id]);

/** @throws DomainError `conflict` if the contact would exceed a limit */
function mergedContact(records: readonly [StoredContact, ...StoredContact[]], merge: Merge): StoredContact {
  const choices = choicesOf(merge, records);
  const columns = mergedFields(records, contactFields, choices);
  const [kept] = records;
  return {
    ...columns,
    company_id: (choices.get('company') ?? records.find(({ company_id }) => company_id !== null) ?? kept).company_id,
    custom_fields: mergedCustomFields(records, choices),
    other_emails: choices.has('other_emails') ? columns.other_emails : unitedEmails(columns, records),
    phone_numbers: choices.has('phone_numbers') ? columns.phone_numbers : unitedPhones(columns, records),
    prospect_id: firstOf(records, 'prospect_id'),
    score: records.find(({ score }) => score > 0)?.score ?? 0,
    ...verificationOf(columns.work_email, records),
    crm_synced_at: firstOf(records, 'crm_synced_at'),
    removal_requested_at: earliestRequest(records),
  };
}

/** The person whose removal was requested is the same whichever contact stays. */
const earliestRequest = (records: readonly StoredContact[]): string | null =>
  records.flatMap(({ removal_requested_at: at }) => at ?? []).toSorted()[0] ?? null;

/**
 * Adds the contact `to` by hand to the lists to which the contacts `from` were added by hand. Returns the lists that each
 * of them had.
 */
async function moveManualLists(
  sql: Transaction,
  customerId: string,
  { to, from }: { to: LockedId; from: readonly LockedId[] },
): Promise<Map<string, string[]>> {
  const lists = await findManualLists(sql, customerId, [to, ...from]);
  const ids = [...new Set(from.flatMap((id) => lists.get(id) ?? []))];
  if (ids.length > 0) await addToLists(sql, customerId, { list_ids: ids, contact_ids: [to] });
  return lists;
}

/**
 * Returns what the undo of a merge needs of a merged contact: its places in opportunities, and the lists and
 * opportunities in which the one that stays was not, and its own places.
 */
function movedOf(
  keptId: string,
  id: string,
  lists: ReadonlyMap<string, string[]>,
  places: ReadonlyMap<string, PlaceInOpportunity[]>,
) {
  const [ownLists, ownPlaces] = [new Set(lists.get(keptId)), new Set(places.get(keptId)?.map((place) => place.id))];
  const opportunities = places.get(id) ?? [];
  const moved = {
    lists: lists.get(id)?.filter((list) => !ownLists.has(list)) ?? [],
    opportunities: opportunities.map((place) => place.id).filter((one) => !ownPlaces.has(one)),
    places: places.get(keptId) ?? [],
  };
  return { opportunities, moved };
}

async function updateMerged(
  sql: Transaction,
  customerId: string,
  id: string,
  {
    id: _id,
    prospect_id,
    score,
    verification_status,
    last_verified,
    crm_synced_at,
    removal_requested_at,
    ...columns
  }: StoredContact,
): Promise<void> {
  await sql`
    update contacts
    set
      ${sql(encodedContact(sql, customerId, columns))},
      prospect_id = ${prospect_id},
      score = ${score},
      verification_status = ${verification_status},
      last_verified = ${last_verified},
      crm_synced_at = ${crm_synced_at},
      removal_requested_at = ${removal_requested_at},
      updated_at = (select clock_timestamp())
    where customer_id = ${customerId}
      and id = ${id}`;
}
