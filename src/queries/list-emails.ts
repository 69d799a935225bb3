import type { Transaction } from '../database/db.ts';
import { conflict, notFound } from '../errors.ts';
import { exactContactSource } from '../filters/columns.ts';
import { record, recorder } from '../filters/sql-recorder.ts';
import type { Fragment } from '../filters/sql.ts';
import { toSql } from '../filters/to-sql.ts';
import type { Filter } from '../filters/tree.ts';
import { usesCompanyFields, noneSettling } from './company-settlements.ts';
import { lockRulesShared } from './list-rules.ts';
import { memberOf, type Unsettled, type UnsettledList } from './settled-reads.ts';

/** Maximum number of list members that one job can verify. */
const maxMembers = 100_000;

/**
 * Inserts the work e-mails of a list's members as inputs of a job. Addresses that differ only in case or surrounding
 * white space become one input, with the ids of all members that have the address.
 * @returns the number of inputs
 * @throws DomainError `not_found` when the list does not exist
 * @throws DomainError `conflict` when the list has more than `maxMembers` members
 */
export async function insertListInputs(
  sql: Transaction,
  customerId: string,
  jobId: string,
  listId: string,
): Promise<number> {
  await lockRulesShared(sql, customerId);
  const [list] = await sql<Row[]>`
    select id, rules, fill_version is not null as is_filling, is_copying, ${usesCompanyFields(sql)} as looks_at_companies
    from lists
    where customer_id = ${customerId}
      and id = ${listId}
      and deleted_at is null`;
  if (!list) throw notFound('list');
  return insertMembers(sql, customerId, jobId, list);
}

/** A list, with two columns that say whether its stored members may be out of date. */
interface Row extends UnsettledList {
  /** Whether the list's members are still being written. */
  is_filling: boolean;
  /**
   * True if the list's rules use a field that depends on the contact's company. After a change of the company, the
   * stored memberships of its contacts are out of date for a while.
   */
  looks_at_companies: boolean;
}

/**
 * Inserts the e-mails of a list's members as a job's inputs. Evaluates the list's rules for contacts whose stored
 * memberships may be out of date.
 * @returns the number of inputs
 */
async function insertMembers(sql: Transaction, customerId: string, jobId: string, list: Row): Promise<number> {
  const membersWith = (unsettled: Partial<Unsettled>) =>
    memberOf([list.id], { customerId, filling: [], changing: [], ...unsettled });
  const always = recorder`true`;
  let members = membersWith(list.is_filling ? { filling: [list] } : {});
  const mayBeInexact = !list.is_filling && list.looks_at_companies;
  const guard = mayBeInexact ? noneSettling(recorder, customerId) : always;
  let inputs = await insertMatching(sql, customerId, jobId, members, guard);
  if (inputs === 0 && mayBeInexact) {
    members = membersWith({ changing: [list] });
    inputs = await insertMatching(sql, customerId, jobId, members, always);
  }
  if (inputs === 0) await requireFewMembers(sql, customerId, members);
  return inputs;
}

/**
 * Inserts the e-mails of the contacts that match the filter `members` as inputs of a job. Inserts nothing if the SQL
 * condition `guard` is false, or if more than `maxMembers` contacts match.
 * @returns the number of inputs
 */
async function insertMatching(
  sql: Transaction,
  customerId: string,
  jobId: string,
  members: Filter,
  guard: Fragment,
): Promise<number> {
  const { text, parameters } = record(recorder`
    with members as materialized (${selectMembers(customerId, members, guard)}),
    addresses as (
      select (array_agg(work_email order by id))[1] as item, array_agg(id order by id) as contact_ids
      from members
      where work_email <> ''
        and (select count(*) from members) <= ${maxMembers}::bigint
      group by lower(btrim(work_email))
    )
    insert into job_inputs (customer_id, job_id, position, item, contact_ids)
    select ${customerId}::uuid, ${jobId}::uuid, row_number() over (order by contact_ids[1]), item, contact_ids
    from addresses`);
  return (await sql.unsafe(text, parameters as string[])).count;
}

/** @throws DomainError `conflict` if more than `maxMembers` contacts match the filter */
async function requireFewMembers(sql: Transaction, customerId: string, members: Filter): Promise<void> {
  const { text, parameters } = record(recorder`
    select count(*)::integer as members
    from (${selectMembers(customerId, members, recorder`true`)}) found`);
  const [found] = await sql.unsafe<{ members: number }[]>(text, parameters as string[]);
  if (found!.members > maxMembers) throw conflict(`The list has more than ${maxMembers} members: verify smaller lists`);
}

/** Returns SQL for the contacts that match a filter: one more than `maxMembers` at most, none if `guard` is false. */
const selectMembers = (customerId: string, members: Filter, guard: Fragment): Fragment => recorder`
  select c.id, c.work_email
  from ${recorder.unsafe(exactContactSource.from)}
  where c.customer_id = ${customerId}::uuid
    and ${toSql(recorder, exactContactSource, customerId, members)}
    and ${guard}
  limit ${maxMembers + 1}::bigint`;
