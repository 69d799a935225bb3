import type { Sql, Transaction } from '../db.ts';
import type { Fragment, FragmentMaker } from '../filters/sql.ts';
import { CountChanges } from './counters.ts';
import { refreshMembers } from './list-members.ts';
import { detachOpportunities } from './opportunities.ts';
import { holdRules } from './rules.ts';

/*
 * A change or deletion of a large company is one short transaction that leaves a row in `company_settlements`. Its contacts
 * are settled afterwards, batch by batch: their memberships are made to agree with the rules, and they are detached from a
 * company that is deleted. What is read meanwhile is exact:
 * - A contact's company is joined, and a deleted one is not; `updated_at` counts the time of the deletion.
 * - For contacts of the companies that have a row here, memberships by rule are evaluated on read, in lists whose rules
 *   look at what the change of a company changes.
 *
 * A contact that is written meanwhile becomes right by its own write, or by the batch that waits for its lock.
 * Rows are locked in this order: company, contacts by id, the row here, counters.
 */

/** More contacts or opportunities than this make a company large: some 30 ms of work. */
const mostAtOnce = 500;

/** What of a contact changes when its company is renamed, changes its industry, or is deleted. */
export type CompanyField = 'company.company_name' | 'company.industry' | 'company_id' | 'updated_at';

/** Everything that a deletion changes. */
const companyFields: readonly CompanyField[] = ['company.company_name', 'company.industry', 'company_id', 'updated_at'];

/** A list's rules look at one of these fields. */
export const lookAtCompanies = (sql: FragmentMaker, fields = companyFields): Fragment =>
  sql`rules @> any(${fields.map((field) => JSON.stringify([{ field }]))}::text[]::jsonb[])`;

/** No contact of the customer has yet to be settled, or none of a deleted company. The condition names no outer column. */
export const noneSettling = (sql: FragmentMaker, customerId: string, which?: 'deletions'): Fragment => sql`
  not exists (
    select
    from company_settlements s
    where s.customer_id = ${customerId}::uuid
      ${which === 'deletions' ? sql`and s.is_deletion` : sql``}
  )`;

/** Whether a company that is locked has too much attached to be settled in the same transaction. */
export async function isLarge(sql: Transaction, customerId: string, companyId: string): Promise<boolean> {
  const hasMany = (table: 'contacts' | 'opportunities') => sql`
    (
      select count(*)
      from (
        select
        from ${sql(table)}
        where customer_id = ${customerId}
          and company_id = ${companyId}
        limit ${mostAtOnce + 1}
      ) few
    ) > ${mostAtOnce}`;
  const [company] = await sql<{ is_large: boolean }[]>`
    select
      exists (select from company_settlements where customer_id = ${customerId} and company_id = ${companyId})
      or ${hasMany('contacts')}
      or ${hasMany('opportunities')} as is_large`;
  return company!.is_large;
}

/** Whether any list of the customer looks at one of these fields. The rules have to be held. */
export async function concernsLists(
  sql: Transaction,
  customerId: string,
  fields: readonly CompanyField[],
): Promise<boolean> {
  const [row] = await sql<{ concerns: boolean }[]>`
    select exists (select from lists where customer_id = ${customerId} and ${lookAtCompanies(sql, fields)}) as concerns`;
  return row!.concerns;
}

/**
 * Leaves the contacts of a company that was changed or marked as deleted in this transaction, and is locked, to be settled.
 * The same transaction has to see to it that a worker comes.
 */
export async function beginSettling(
  sql: Transaction,
  customerId: string,
  companyId: string,
  { isDeletion }: { isDeletion: boolean },
): Promise<void> {
  await sql`
    insert into company_settlements (customer_id, company_id, is_deletion)
    values (${customerId}, ${companyId}, ${isDeletion})
    on conflict (customer_id, company_id) do update
    set version = excluded.version, is_deletion = excluded.is_deletion, settled_to = null`;
}

/** What came of a batch: there may be more to do, there is nothing, or other workers are at all there is. */
export type BatchOutcome = 'more' | 'done' | 'busy';

interface Settlement {
  company_id: string;
  version: string;
  is_deletion: boolean;
}

/**
 * Settles the next contacts of the customer's company that waits longest, or ends its settlement. May be repeated, by any
 * number of workers.
 * @param size how many contacts, which are locked until the transaction ends
 */
export async function settleBatch(sql: Transaction, customerId: string, size: number): Promise<BatchOutcome> {
  const [turn] = await sql<{ is_ours: boolean }[]>`
    select pg_try_advisory_xact_lock(hashtextextended(${`settle:${customerId}`}, 0)) as is_ours`;
  if (!turn!.is_ours) return 'busy';
  const rules = await holdRules(sql, customerId);
  const [settlement] = await sql<Settlement[]>`
    select company_id, version, is_deletion
    from company_settlements
    where customer_id = ${customerId}
    order by version
    limit 1`;
  if (!settlement) return 'done';
  const contactIds = await lockNextContacts(sql, customerId, settlement, size);
  if (contactIds.length > 0) {
    if (settlement.is_deletion) await detachContacts(sql, customerId, settlement.company_id, contactIds);
    await noteProgress(sql, customerId, settlement, contactIds.at(-1)!);
    await refreshMembers(sql, customerId, rules, contactIds, new CountChanges());
    return 'more';
  }
  const { company_id: companyId, is_deletion: isDeletion } = settlement;
  if (isDeletion && (await detachOpportunities(sql, customerId, companyId, size)) > 0) return 'more';
  await endSettlement(sql, customerId, settlement);
  return 'more';
}

/** Locks the contacts that come next, and with that waits for those who are writing them by what the company was. */
async function lockNextContacts(
  sql: Transaction,
  customerId: string,
  { company_id, version }: Settlement,
  size: number,
): Promise<string[]> {
  const contacts = await sql<{ id: string }[]>`
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
        '00000000-0000-0000-0000-000000000000'
      )
    order by id
    limit ${size}
    for no key update`;
  return contacts.map(({ id }) => id);
}

/**
 * Detaches contacts, which are locked, of a company that is marked as deleted: they get what is read of them since. They
 * have no company, and were updated when it was deleted.
 */
export async function detachContacts(
  sql: Transaction,
  customerId: string,
  companyId: string,
  contactIds: string[],
): Promise<void> {
  await sql`
    update contacts c
    set company_id = null, updated_at = greatest(c.updated_at, gone.deleted_at)
    from companies gone
    where c.customer_id = ${customerId}
      and c.id = any(${contactIds}::uuid[])
      and gone.customer_id = ${customerId}
      and gone.id = ${companyId}`;
}

/** A company that changed again meanwhile has another version, and begins anew. */
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

/** Believes the memberships again, unless the company changed once more; of a deleted one nothing is left. */
async function endSettlement(sql: Transaction, customerId: string, settlement: Settlement): Promise<void> {
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
 * Customers, of all, that have something to settle, in the order of their ids.
 * @param after the last customer of the batch before
 */
export async function customersSettling(
  sql: Sql | Transaction,
  { after, limit }: { after: string; limit: number },
): Promise<string[]> {
  const rows = await sql<{ customer_id: string }[]>`
    select distinct customer_id
    from company_settlements
    where customer_id > ${after}
    order by customer_id
    limit ${limit}`;
  return rows.map(({ customer_id }) => customer_id);
}
