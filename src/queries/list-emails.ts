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
 * @throws not_found when the list does not exist; conflict when it has more than `maxMembers` members
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
  const counted = await insertMembers(sql, customerId, jobId, list);
  if (counted.members > maxMembers)
    throw conflict(`The list has more than ${maxMembers} members: verify smaller lists`);
  return counted.addresses;
}

/** A list, and two reasons why its stored members may be out of date. */
interface Row extends UnsettledList {
  /** Whether the list's members are still being written. */
  is_filling: boolean;
  /**
   * True if the list's rules use a field that depends on the contact's company. After a change of the company, the
   * stored memberships of its contacts are out of date for a while.
   */
  looks_at_companies: boolean;
}

interface Counted {
  members: number;
  addresses: number;
}

/**
 * Inserts the e-mails of a list's members as a job's inputs. Evaluates the list's rules for contacts whose stored
 * memberships may be out of date.
 */
async function insertMembers(sql: Transaction, customerId: string, jobId: string, list: Row): Promise<Counted> {
  const insert = (unsettled: Partial<Unsettled>, guard: Fragment) => {
    const members = memberOf([list.id], { customerId, filling: [], changing: [], ...unsettled });
    return insertMatching(sql, customerId, jobId, members, guard);
  };
  const always = recorder`true`;
  if (list.is_filling) return insert({ filling: [list] }, always);
  if (!list.looks_at_companies) return insert({}, always);
  const { is_exact, ...counted } = await insert({}, noneSettling(recorder, customerId));
  return is_exact ? counted : insert({ changing: [list] }, always);
}

/**
 * Inserts the e-mails of the contacts that match the filter `members` as inputs of a job. Does nothing if the SQL
 * condition `guard` is false. Returns the value of `guard` as `is_exact`.
 */
async function insertMatching(
  sql: Transaction,
  customerId: string,
  jobId: string,
  members: Filter,
  guard: Fragment,
): Promise<Counted & { is_exact: boolean }> {
  const { text, parameters } = record(recorder`
    with members as materialized (
      select c.id, c.work_email
      from ${recorder.unsafe(exactContactSource.from)}
      where c.customer_id = ${customerId}::uuid
        and ${toSql(recorder, exactContactSource, members)}
        and ${guard}
      limit ${maxMembers + 1}::bigint
    ),
    addresses as (
      select (array_agg(work_email order by id))[1] as item, array_agg(id order by id) as contact_ids
      from members
      where work_email <> ''
        and (select count(*) from members) <= ${maxMembers}::bigint
      group by lower(btrim(work_email))
    ),
    inputs as (
      insert into job_inputs (customer_id, job_id, position, item, contact_ids)
      select ${customerId}::uuid, ${jobId}::uuid, row_number() over (order by contact_ids[1]), item, contact_ids
      from addresses
      returning position
    )
    select (select count(*) from members) as members, (select count(*) from inputs) as addresses, (${guard}) as is_exact`);
  const [counted] = await sql.unsafe<(Counted & { is_exact: boolean })[]>(text, parameters as string[]);
  return counted!;
}
