import type { Locked, LockedId, Transaction } from '../../database/db.ts';
import { RecordsChanged } from '../../errors.ts';
import { liveCompanies, constant } from '../../filters/sql.ts';
import { companyFields } from '../../schemas/companies.ts';
import { withRepeats } from '../records/batches.ts';
import { withDeferredWrites, type DeferredWrites, lockBulk } from '../records/deferred-writes.ts';
import { rememberMerge } from '../records/merged-records.ts';
import { byHolder, countReferring, moveActivities, moveOpportunityContacts, moveReferring } from './links.ts';
import type { PlaceInOpportunity } from './links.ts';
import { companyRow, lockCompanies, lockCompanyRows, removeCompanies, wholeCompanies } from './companies.ts';
import type { WholeCompany } from './companies.ts';
import { updateRows } from '../records/batch-rows.ts';
import * as merges from './merges.ts';
import type { ComparedMerge, Moved } from './merges.ts';
import { contactFields } from '../../schemas/contacts.ts';
import { addToLists, findManualLists } from './list-members.ts';
import { contactRow, lockContactRows, removeContacts, serviceColumns, wholeContacts } from './contacts.ts';
import type { WholeContact } from './contacts.ts';

type MergeRecords = (sql: Transaction, customerId: string, merge: ComparedMerge) => Promise<void>;

function mergeBy(
  mergeAll: (sql: Transaction, customerId: string, merge: ComparedMerge, deferred: DeferredWrites) => Promise<void>,
): MergeRecords {
  return async (sql, customerId, merge) => {
    merges.requireDistinct(merge);
    await withDeferredWrites(sql, customerId, async (deferred) => {
      await lockBulk(sql, customerId);
      await withRepeats(sql, deferred, (attempt, own) => mergeAll(attempt, customerId, merge, own));
    });
  };
}

type StoredCompany = WholeCompany & { id: string; updated_at: string };

/**
 * Merges companies into the first one, which gets the values that it lacks, and all contacts, opportunities and
 * activities of the others. Deletes the others.
 * @throws DomainError `validation_failed` if the ids of the request contradict each other; `not_found` with the JSON
 * pointer of every unknown id; `conflict` if a compared record has changed, the merged company would exceed a limit, or
 * too many records would move
 */
export const mergeCompanies = mergeBy(mergeAllCompanies);

async function mergeAllCompanies(sql: Transaction, customerId: string, merge: ComparedMerge, deferred: DeferredWrites) {
  const records = await lockMergedCompanies(sql, customerId, merge);
  const [kept, ...others] = records;
  const merged = mergedCompany(records, merge);
  const gone = others.map(({ id }) => id);
  merges.requireFew('company', {
    contacts: await countReferring(sql, customerId, 'contacts', 'company_id', gone),
    opportunities: await countReferring(sql, customerId, 'opportunities', 'company_id', gone),
    activities: await countReferring(sql, customerId, 'activities', 'company_id', gone),
  });
  const move = { to: kept.id, from: gone };
  const contacts = byHolder(await moveReferring(sql, customerId, 'contacts', 'company_id', move));
  const opportunities = byHolder(await moveReferring(sql, customerId, 'opportunities', 'company_id', move));
  // Told before the records: an undo takes these back together, and first. Locked after contacts and opportunities.
  await moveActivities(sql, customerId, 'company', move, deferred);
  const isJournaled = deferred.updated('company', { id: kept.id, external_id: merged.external_id }, kept, merged);
  const earlier = await rememberMerge(sql, customerId, 'company', kept, others, merged.external_id);
  const moved = new Map(
    gone.map((id) => [
      id,
      { moved: { contacts: contacts.get(id), opportunities: opportunities.get(id), merged: earlier.get(id) } },
    ]),
  );
  await removeCompanies(sql, customerId, gone, deferred, { merged_into: kept.id, moved });
  const table = { ...wholeCompanies, keepsUpdatedAt: !isJournaled };
  await updateRows(sql, customerId, table, [merged], ({ updated_at: _changed, ...columns }) => ({
    ...companyRow(customerId, columns),
    id: kept.id,
  }));
}

const readCompanies = (sql: Transaction, customerId: string, ids: readonly string[]): Promise<StoredCompany[]> => sql`
  select co.id, ${constant(sql, companyFields.join(', '))}, score, verification_status, last_verified, updated_at
  from ${liveCompanies(sql, customerId)}
    and co.id = any(${ids as string[]}::uuid[])`;

async function lockMergedCompanies(sql: Transaction, customerId: string, merge: ComparedMerge) {
  const ids = merges.idsOf(merge);
  await lockCompanyRows(sql, customerId, ids, 'update');
  return merges.inOrder('company', merge, await readCompanies(sql, customerId, ids)) as [
    Locked<StoredCompany>,
    ...Locked<StoredCompany>[],
  ];
}

function mergedCompany(records: readonly [StoredCompany, ...StoredCompany[]], merge: ComparedMerge): StoredCompany {
  const choices = merges.choicesOf(merge, records);
  const columns = merges.mergedFields(records, companyFields, choices);
  return {
    ...columns,
    custom_fields: merges.mergedCustomFields(records, choices),
    score: records.find(({ score }) => score > 0)?.score ?? 0,
    ...merges.mergedVerification(records),
  };
}

type StoredContact = WholeContact & { id: string; updated_at: string };

/**
 * Merges contacts into the first one, which gets the values that it lacks, and the manual lists, opportunities and
 * activities of the others. Deletes the others.
 * @throws DomainError `validation_failed` if the ids of the request contradict each other; `not_found` with the JSON
 * pointer of every unknown id; `conflict` if a compared record has changed, the merged contact would exceed a limit, or
 * too many opportunities or activities would move
 */
export const mergeContacts = mergeBy(mergeAllContacts);

// Companies are locked before contacts. Which ones is known only when the contacts are read, so they are read before they
// are locked, and compared afterwards.
async function mergeAllContacts(sql: Transaction, customerId: string, merge: ComparedMerge, deferred: DeferredWrites) {
  const seen = merges.inOrder('contact', merge, await readContacts(sql, customerId, merges.idsOf(merge)));
  const { byId: companies } = await lockCompanies(sql, customerId, {
    keys: [],
    ids: [...new Set(seen.flatMap(({ company_id }) => company_id ?? []))],
  });
  const records = await lockMergedContacts(sql, customerId, merge, seen, companies);
  const [kept, ...others] = records;
  const merged = mergedContact(records, merge);
  const gone = others.map(({ id }) => id);
  merges.requireFew('contact', {
    opportunities: await countReferring(sql, customerId, 'opportunity_contacts', 'contact_id', gone),
    activities: await countReferring(sql, customerId, 'activities', 'contact_id', gone),
  });
  const move = { to: kept.id, from: gone };
  const lists = await moveManualLists(sql, customerId, move);
  const places = await moveOpportunityContacts(sql, customerId, move);
  // Told before the records: an undo takes these back together, and first. Locked after the opportunities.
  await moveActivities(sql, customerId, 'contact', move, deferred);
  // The undo gives the contact back to a deleted company that another one replaces (see `statesOf`).
  const isReplaced = kept.company_id === null && merged.company_id !== null;
  const isJournaled = deferred.updated(
    'contact',
    { id: kept.id, external_id: merged.external_id },
    { ...kept, deleted_company_id: isReplaced ? seen[0].company_id : null },
    { ...merged, deleted_company_id: null },
  );
  const ownMerges = await findMergesInto(sql, customerId, kept.id);
  const earlier = await rememberMerge(sql, customerId, 'contact', kept, others, merged.external_id);
  const moved = new Map(gone.map((id) => [id, movedOf(kept.id, id, { lists, places, earlier, ownMerges })]));
  await removeContacts(sql, customerId, gone, deferred, { merged_into: kept.id, moved });
  const table = { ...wholeContacts, keepsUpdatedAt: !isJournaled };
  await updateRows(sql, customerId, table, [merged], ({ updated_at: _changed, ...columns }) => ({
    ...contactRow(customerId, columns),
    id: kept.id,
  }));
}

const readContacts = (sql: Transaction, customerId: string, ids: readonly string[]): Promise<StoredContact[]> => sql`
  select id, ${constant(sql, [...contactFields, ...serviceColumns].join(', '))}, company_id, updated_at
  from contacts
  where customer_id = ${customerId}
    and id = any(${ids as string[]}::uuid[])`;

/**
 * Locks the contacts, and returns their current values in the order of the request. The id of a deleted company is
 * null.
 * @throws RecordsChanged if a contact was deleted, or has another company than in `seen`
 */
async function lockMergedContacts(
  sql: Transaction,
  customerId: string,
  merge: ComparedMerge,
  seen: readonly StoredContact[],
  companies: ReadonlySet<string>,
): Promise<[Locked<StoredContact>, ...Locked<StoredContact>[]]> {
  const ids = merges.idsOf(merge);
  const locked = await lockContactRows(sql, customerId, ids);
  if (locked.length < ids.length) throw new RecordsChanged();
  // A new statement, because the columns that are read with the lock may be older than the lock.
  const records = merges.inOrder('contact', merge, await readContacts(sql, customerId, ids));
  if (records.some(({ company_id }, i) => company_id !== seen[i]!.company_id)) throw new RecordsChanged();
  return records.map((record) => ({
    ...record,
    company_id: record.company_id !== null && companies.has(record.company_id) ? record.company_id : null,
  })) as [Locked<StoredContact>, ...Locked<StoredContact>[]];
}

function mergedContact(records: readonly [StoredContact, ...StoredContact[]], merge: ComparedMerge): StoredContact {
  const choices = merges.choicesOf(merge, records);
  const columns = merges.mergedFields(records, contactFields, choices);
  const [kept] = records;
  return {
    ...columns,
    company_id: (choices.get('company') ?? records.find(({ company_id }) => company_id !== null) ?? kept).company_id,
    custom_fields: merges.mergedCustomFields(records, choices),
    other_emails: choices.has('other_emails') ? columns.other_emails : merges.unitedEmails(columns, records),
    phone_numbers: choices.has('phone_numbers') ? columns.phone_numbers : merges.unitedPhones(columns, records),
    prospect_id: merges.firstOf(records, 'prospect_id'),
    score: records.find(({ score }) => score > 0)?.score ?? 0,
    ...merges.verificationOf(columns.work_email, records),
    crm_synced_at: merges.firstOf(records, 'crm_synced_at'),
    removal_requested_at: earliestRequest(records),
  };
}

/**
 * Returns the time of the earliest removal request. All contacts of a merge are the same person, so the merged contact
 * keeps it.
 */
const earliestRequest = (records: readonly StoredContact[]): string | null =>
  records.flatMap(({ removal_requested_at: at }) => at ?? []).toSorted()[0] ?? null;

/**
 * Adds the contact `to` by hand to the lists to which the contacts `from` were added by hand. Returns the previous
 * lists of each contact.
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

interface MergedContact {
  id: string;
  opportunities: PlaceInOpportunity[];
  moved: Moved;
}

export const findMergesInto = (sql: Transaction, customerId: string, id: string): Promise<MergedContact[]> => sql`
  select distinct on (m.id)
    m.id, coalesce(j.before -> 'opportunities', '[]') as opportunities, coalesce(j.before -> 'moved', '{}') as moved
  from merged_records m
  join journal j
    on j.customer_id = ${customerId}
    and j.record_id = m.id
    and j.data ->> 'merged_into' = ${id}
  where m.customer_id = ${customerId}
    and m.merged_into = ${id}
  order by m.id, j.position desc`;

interface BeforeMerge {
  lists: ReadonlyMap<string, string[]>;
  places: ReadonlyMap<string, PlaceInOpportunity[]>;
  earlier: ReadonlyMap<string, string[]>;
  ownMerges: readonly { moved: Moved }[];
}

// If the contact that stays is in a list or opportunity only because of an earlier merge, this merge counts as a reason
// too.
function movedOf(
  keptId: string,
  id: string,
  { lists, places, earlier, ownMerges }: BeforeMerge,
): { opportunities: PlaceInOpportunity[]; moved: Moved } {
  const own = places.get(keptId) ?? [];
  const ownOf = (name: 'lists' | 'opportunities', ids: readonly string[] = []): Set<string> =>
    new Set(ids).difference(new Set(ownMerges.flatMap(({ moved }) => moved[name] ?? [])));
  const ownLists = ownOf('lists', lists.get(keptId));
  const ownOpportunities = ownOf(
    'opportunities',
    own.map((place) => place.id),
  );
  const opportunities = places.get(id) ?? [];
  const merged = earlier.get(id);
  const moved = {
    lists: lists.get(id)?.filter((list) => !ownLists.has(list)) ?? [],
    opportunities: opportunities.map((place) => place.id).filter((one) => !ownOpportunities.has(one)),
    places: own,
    ...(merged && { merged }),
  };
  return { opportunities, moved };
}
