import type { LockedId, Transaction } from '../../database/db.ts';
import { lowestId } from '../../database/wire-types.ts';
import type { Fragment, FragmentMaker } from '../../filters/sql.ts';
import { lockedInOrder } from '../records/contact-locks.ts';
import { countUpTo, findCustomersWith } from '../records/finders.ts';
import { withLastWrites, type LastWrites } from '../records/last-writes.ts';
import type { BatchOutcome } from '../records/turns.ts';
import { refreshMembers } from './list-members.ts';
import { contactsAtOnce } from './list-rule-limits.ts';
import { lockAndReadRules, type LockedRules } from './list-rules.ts';
import { moveOpportunities } from '../sales/opportunities.ts';
import { removeNextRows } from '../sales/opportunity-contacts.ts';

/*
 * The change or deletion of a large company is one short transaction that inserts a row into `company_settlements`. Its
 * contacts are settled afterwards, batch by batch: their list memberships are refreshed by the rules, and contacts of a
 * deleted company are detached. Reads are exact meanwhile: they join only companies that are not deleted, and evaluate
 * the rules of lists that use a field of companies (see stale-lists.ts).
 *
 * A contact that is written meanwhile is refreshed by its own write, or by the batch, which waits for its lock.
 * Locks are taken in the order that value-locks.ts describes.
 */

/**
 * Maximum number of contacts, or of opportunities, that are updated in the same transaction as their company. More of
 * them are updated in the background. Updating this many takes about 30 ms. With very many lists, fewer contacts are
 * updated at once.
 */
const maxAtOnce = 500;

/**
 * The name of a contact's field that changes when the contact's company gets another name or industry, or is deleted.
 */
export type CompanyField = 'company.company_name' | 'company.industry' | 'company_id';

const companyFields: readonly CompanyField[] = ['company.company_name', 'company.industry', 'company_id'];

/**
 * SQL condition for a row of the table `lists`: at least one rule of the list uses one of the given `fields`. By
 * default, `fields` are the contact's fields that can change when its company changes.
 */
export const usesCompanyFields = (sql: FragmentMaker, fields = companyFields): Fragment =>
  sql`rules @> any(${fields.map((field) => JSON.stringify([{ field }]))}::text[]::jsonb[])`;

/** SQL condition: no contacts of this customer wait for a background update after a change of their company. */
export const noneSettling = (sql: FragmentMaker, customerId: string): Fragment => sql`
  not exists (
    select 1
    from company_settlements s
    where s.customer_id = ${customerId}::uuid
  )`;

/**
 * Returns the ids of large companies, whose contacts and opportunities must be updated in the background. A company is
 * large if one transaction cannot update its contacts and opportunities in addition to those of the small companies
 * before it in `companyIds`. A company with an unfinished background update is also large.
 */
export async function findLarge(
  sql: Transaction,
  customerId: string,
  companyIds: readonly LockedId[],
): Promise<Set<string>> {
  const room = { contacts: await contactsAtOnce(sql, customerId, maxAtOnce), opportunities: maxAtOnce };
  const numberOf = (table: 'contacts' | 'opportunities') => {
    const rows = sql`from ${sql(table)} d where d.customer_id = ${customerId} and d.company_id = given.id`;
    return countUpTo(sql, rows, maxAtOnce);
  };
  const companies = await sql<{ id: string; contacts: number; opportunities: number; is_settling: boolean }[]>`
    select
      given.id,
      ${numberOf('contacts')} as contacts,
      ${numberOf('opportunities')} as opportunities,
      exists (
        select 1
        from company_settlements s
        where s.customer_id = ${customerId}
          and s.company_id = given.id
      ) as is_settling
    from unnest(${companyIds as LockedId[]}::uuid[]) with ordinality as given (id, position)
    order by given.position`;
  const isLarge = ({ contacts, opportunities, is_settling }: (typeof companies)[number]): boolean => {
    if (is_settling || contacts > room.contacts || opportunities > room.opportunities) return true;
    room.contacts -= contacts;
    room.opportunities -= opportunities;
    return false;
  };
  return new Set(companies.filter(isLarge).map(({ id }) => id));
}

/** Returns true if any list of the customer has a rule that uses one of these fields. */
export async function affectsLists(
  sql: Transaction,
  customerId: string,
  rules: LockedRules,
  fields: readonly CompanyField[],
): Promise<boolean> {
  if (rules.isEmpty) return false;
  const [row] = await sql<{ concerns: boolean }[]>`
    select exists (select 1 from lists where customer_id = ${customerId} and ${usesCompanyFields(sql, fields)}) as concerns`;
  return row!.concerns;
}

export async function beginSettling(
  sql: Transaction,
  customerId: string,
  companyIds: readonly string[],
  { isDeletion }: { isDeletion: boolean },
  last: LastWrites,
): Promise<void> {
  last.enqueue('settle-companies');
  await sql`
    insert into company_settlements (customer_id, company_id, is_deletion)
    select ${customerId}, id, ${isDeletion}
    from unnest(${companyIds as string[]}::uuid[]) as id
    order by id
    on conflict (customer_id, company_id) do update
    set version = excluded.version, is_deletion = excluded.is_deletion, settled_to = null`;
}

interface Settlement {
  company_id: string;
  version: string;
  is_deletion: boolean;
}

/**
 * Runs one batch of background work after changes of companies and deletions of contacts: updates the next contacts of
 * one company, or ends the work for this company if no contacts are left. If no company is left, removes a deleted
 * contact from its next opportunities. Several workers can call it at once.
 * @param size maximum number of contacts or opportunities, which stay locked until the transaction ends
 */
export async function settleBatch(sql: Transaction, customerId: string, size: number): Promise<BatchOutcome> {
  const [turn] = await sql<{ is_ours: boolean }[]>`
    select pg_try_advisory_xact_lock(hashtextextended(${`settle:${customerId}`}, 0)) as is_ours`;
  if (!turn!.is_ours) return 'busy';
  const rules = await lockAndReadRules(sql, customerId);
  const [settlement] = await sql<Settlement[]>`
    select company_id, version, is_deletion
    from company_settlements
    where customer_id = ${customerId}
    order by version
    limit 1`;
  if (!settlement) return (await removeNextRows(sql, customerId, size)) ? 'more' : 'done';
  const contactIds = await lockNextContacts(sql, customerId, settlement, await contactsAtOnce(sql, customerId, size));
  if (contactIds.length > 0) {
    if (settlement.is_deletion) await detachContacts(sql, customerId, [settlement.company_id], contactIds);
    await noteProgress(sql, customerId, settlement, contactIds.at(-1)!);
    await withLastWrites(sql, customerId, (last) => refreshMembers(sql, customerId, rules, contactIds, last));
    return 'more';
  }
  const { company_id: companyId, is_deletion: isDeletion } = settlement;
  if (isDeletion && (await moveOpportunities(sql, customerId, [companyId], null, size)) > 0) return 'more';
  await endSettlement(sql, customerId, settlement);
  return 'more';
}

/**
 * Locks the next contacts to update after a change of their company, and returns their ids. Waits for other
 * transactions that are writing these contacts.
 */
async function lockNextContacts(
  sql: Transaction,
  customerId: string,
  { company_id, version }: Settlement,
  size: number,
): Promise<LockedId[]> {
  const contacts = await sql<{ id: LockedId }[]>`
    select id
    from contacts
    where customer_id = ${customerId}
      and company_id = ${company_id}
      and id > coalesce(
        (
          select s.settled_to
          from company_settlements s
          where s.customer_id = ${customerId}
            and s.company_id = ${company_id}
            and s.version = ${version}
        ),
        ${lowestId}
      )
    ${lockedInOrder(sql, size)}`;
  return contacts.map(({ id }) => id);
}

/** Removes deleted companies from their contacts. */
export async function detachContacts(
  sql: Transaction,
  customerId: string,
  companyIds: readonly string[],
  contactIds: readonly LockedId[],
): Promise<void> {
  await sql`
    update contacts c
    set company_id = null, updated_at = (select clock_timestamp())
    where c.customer_id = ${customerId}
      and c.id = any(${contactIds as LockedId[]}::uuid[])
      and c.company_id = any(${companyIds as string[]}::uuid[])`;
}

/**
 * Saves the id of the last contact that the background update of a company has processed. Does nothing if the company
 * has changed again, because the update then starts again.
 */
async function noteProgress(
  sql: Transaction,
  customerId: string,
  { company_id, version }: Settlement,
  settledTo: string,
): Promise<void> {
  await sql`
    update company_settlements
    set settled_to = ${settledTo}
    where customer_id = ${customerId}
      and company_id = ${company_id}
      and version = ${version}`;
}

/**
 * Marks the background update of a company's contacts as done. Does nothing if the company has changed again meanwhile: a
 * new update follows then. If the company was deleted by its customer, also deletes its row, which was only hidden.
 */
async function endSettlement(sql: Transaction, customerId: string, settlement: Settlement): Promise<void> {
  // Without this row, reads use the stored list memberships.
  const { company_id, version, is_deletion } = settlement;
  await sql`
    delete from company_settlements
    where customer_id = ${customerId}
      and company_id = ${company_id}
      and version = ${version}`;
  if (!is_deletion) return;
  await sql`
    delete from companies
    where customer_id = ${customerId}
      and id = ${company_id}`;
}

/**
 * Finds customers that have contacts to update after a change of their company, or deleted contacts to remove from
 * opportunities.
 */
export const findSettlingCustomers = findCustomersWith(
  (sql) => sql`
    from (
      select customer_id
      from company_settlements
      union all
      select customer_id
      from contact_removals
    ) waiting
    where true`,
);
