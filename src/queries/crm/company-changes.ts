import type { LockedId, Transaction } from '../../database/db.ts';
import type { Company } from '../../schemas/companies.ts';
import {
  affectsLists,
  beginSettling,
  detachContacts,
  findLarge,
  type CompanyField,
} from '../memberships/company-settlements.ts';
import { lockContactsOfCompanies } from '../records/contact-locks.ts';
import type { LastWrites } from '../records/last-writes.ts';
import { refreshMembers } from '../memberships/list-members.ts';
import type { LockedRules } from '../memberships/list-rules.ts';
import { moveOpportunities } from '../sales/opportunities.ts';

/** The fields of a company that also appear in its contacts. */
const shownByContacts = ['company_name', 'industry'] as const;

export interface ChangedCompany {
  id: LockedId;
  before: Pick<Company, (typeof shownByContacts)[number]>;
  after: Pick<Company, (typeof shownByContacts)[number]>;
}

/**
 * Locks the contacts of companies, but not of large companies: workers update those later. A transaction that changes
 * companies in several batches calls this once for all of them before, because contacts are locked in the order of their
 * ids.
 */
export async function lockDependants(
  sql: Transaction,
  customerId: string,
  ids: readonly LockedId[],
): Promise<{ large: Set<string>; small: LockedId[]; contactIds: LockedId[] }> {
  const large = ids.length > 0 ? await findLarge(sql, customerId, ids) : new Set<string>();
  const small = ids.filter((id) => !large.has(id));
  return { large, small, contactIds: small.length > 0 ? await lockContactsOfCompanies(sql, customerId, small) : [] };
}

/**
 * Updates the list memberships of contacts after changes of their companies, because list rules can test the company of
 * a contact. Workers update many contacts later.
 */
export async function updateDependants(
  sql: Transaction,
  customerId: string,
  rules: LockedRules,
  changes: readonly ChangedCompany[],
  last: LastWrites,
): Promise<void> {
  const concerning = rules.isEmpty ? [] : changes.filter((change) => changedFields(change).length > 0);
  const { large, contactIds } = await lockDependants(sql, customerId, idsOf(concerning));
  const later = concerning.filter(({ id }) => large.has(id));
  await settleLater(sql, customerId, rules, later, last);
  await refreshMembers(sql, customerId, rules, contactIds, last);
}

const idsOf = (changes: readonly ChangedCompany[]): LockedId[] => changes.map(({ id }) => id);

const changedFields = ({ before, after }: ChangedCompany): CompanyField[] =>
  shownByContacts.filter((name) => before[name] !== after[name]).map((name): CompanyField => `company.${name}`);

/**
 * Makes workers update the contacts of large companies. Does nothing if no list rule uses the changed fields.
 */
async function settleLater(
  sql: Transaction,
  customerId: string,
  rules: LockedRules,
  changes: readonly ChangedCompany[],
  last: LastWrites,
): Promise<void> {
  if (changes.length === 0) return;
  const fields = [...new Set(changes.flatMap(changedFields))];
  if (await affectsLists(sql, customerId, rules, fields))
    await beginSettling(sql, customerId, idsOf(changes), { isDeletion: false }, last);
}

/**
 * Deletes companies, which are locked `for update`. Their contacts and opportunities are kept, without a company. The
 * caller records the events. Workers detach many contacts and opportunities later.
 */
export async function removeCompanies(
  sql: Transaction,
  customerId: string,
  rules: LockedRules,
  ids: readonly LockedId[],
  last: LastWrites,
): Promise<void> {
  if (ids.length === 0) return;
  await sql`
    update companies
    set deleted_at = (select clock_timestamp())
    where customer_id = ${customerId}
      and id = any(${ids as LockedId[]}::uuid[])`;
  last.count('companies', -ids.length);
  const { large, small, contactIds } = await lockDependants(sql, customerId, ids);
  if (large.size > 0) await beginSettling(sql, customerId, [...large], { isDeletion: true }, last);
  if (small.length > 0) await removeSmall(sql, customerId, rules, { ids: small, contactIds, last });
}

async function removeSmall(
  sql: Transaction,
  customerId: string,
  rules: LockedRules,
  { ids, contactIds, last }: { ids: string[]; contactIds: LockedId[]; last: LastWrites },
): Promise<void> {
  await detachContacts(sql, customerId, ids, contactIds);
  await moveOpportunities(sql, customerId, ids, null);
  await sql`
    delete from companies
    where customer_id = ${customerId}
      and id = any(${ids}::uuid[])`;
  await refreshMembers(sql, customerId, rules, contactIds, last);
}
