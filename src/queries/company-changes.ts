import type { Transaction } from '../database/db.ts';
import type { Company } from '../schemas/companies.ts';
import { affectsLists, beginSettling, detachContacts, findLarge, type CompanyField } from './company-settlements.ts';
import { lockContactsOfCompanies } from './contact-locks.ts';
import type { CountChanges } from './counters.ts';
import { refreshMembers } from './list-members.ts';
import type { LockedRules } from './list-rules.ts';
import { detachOpportunities } from './opportunities.ts';

/** The fields of a company that also appear in its contacts. */
const shownByContacts = ['company_name', 'industry'] as const;

/** An updated company: its fields before and after this transaction. */
export interface ChangedCompany {
  id: string;
  before: Pick<Company, (typeof shownByContacts)[number]>;
  after: Pick<Company, (typeof shownByContacts)[number]>;
}

/**
 * Updates the list memberships of contacts after changes of their companies, because list rules can test the company of
 * a contact. The caller must have locked the companies.
 * @returns true if some contacts must be updated in the background; the caller must then call `enqueueSettling`, which
 *   enqueues this work, in the same transaction
 */
export async function updateDependants(
  sql: Transaction,
  customerId: string,
  rules: LockedRules,
  changes: readonly ChangedCompany[],
  counts: CountChanges,
): Promise<boolean> {
  const concerning = rules.isEmpty ? [] : changes.filter((change) => changedFields(change).length > 0);
  const large = concerning.length > 0 ? await findLarge(sql, customerId, idsOf(concerning)) : new Set<string>();
  const small = idsOf(concerning.filter(({ id }) => !large.has(id)));
  const contactIds = small.length > 0 ? await lockContactsOfCompanies(sql, customerId, small) : [];
  const isSettling = await settleLater(
    sql,
    customerId,
    concerning.filter(({ id }) => large.has(id)),
  );
  await refreshMembers(sql, customerId, rules, contactIds, counts);
  return isSettling;
}

const idsOf = (changes: readonly ChangedCompany[]): string[] => changes.map(({ id }) => id);

const changedFields = ({ before, after }: ChangedCompany): CompanyField[] =>
  shownByContacts.filter((name) => before[name] !== after[name]).map((name): CompanyField => `company.${name}`);

/**
 * Records that contacts of large companies must be updated in the background. Does nothing if no list rule uses the
 * changed fields.
 * @returns true if background work was recorded
 */
async function settleLater(sql: Transaction, customerId: string, changes: readonly ChangedCompany[]): Promise<boolean> {
  if (changes.length === 0) return false;
  const fields = [...new Set(changes.flatMap(changedFields))];
  if (!(await affectsLists(sql, customerId, fields))) return false;
  await beginSettling(sql, customerId, idsOf(changes), { isDeletion: false });
  return true;
}

/**
 * Deletes companies. Their contacts and opportunities are kept, without a company. The caller must have locked the
 * companies (`for update`).
 * @returns true if some contacts and opportunities must be updated in the background; the caller must then call
 *   `enqueueSettling`, which enqueues this work, in the same transaction
 */
export async function removeCompanies(
  sql: Transaction,
  customerId: string,
  rules: LockedRules,
  ids: readonly string[],
  counts: CountChanges,
): Promise<boolean> {
  if (ids.length === 0) return false;
  await sql`
    update companies
    set deleted_at = (select clock_timestamp())
    where customer_id = ${customerId}
      and id = any(${ids as string[]}::uuid[])`;
  counts.add('companies', -ids.length);
  const large = await findLarge(sql, customerId, ids);
  const small = ids.filter((id) => !large.has(id));
  const contactIds = small.length > 0 ? await lockContactsOfCompanies(sql, customerId, small) : [];
  if (large.size > 0) await beginSettling(sql, customerId, [...large], { isDeletion: true });
  if (small.length > 0) await removeSmall(sql, customerId, rules, { ids: small, contactIds, counts });
  return large.size > 0;
}

async function removeSmall(
  sql: Transaction,
  customerId: string,
  rules: LockedRules,
  { ids, contactIds, counts }: { ids: string[]; contactIds: string[]; counts: CountChanges },
): Promise<void> {
  await detachContacts(sql, customerId, ids, contactIds);
  await detachOpportunities(sql, customerId, ids);
  await sql`
    delete from companies
    where customer_id = ${customerId}
      and id = any(${ids}::uuid[])`;
  await refreshMembers(sql, customerId, rules, contactIds, counts);
}
