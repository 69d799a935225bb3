import type { Transaction } from '../../database/db.ts';
import { conflict, notFound } from '../../errors.ts';
import { contactSource, fromOf, type Filter } from '../../filters/columns.ts';
import { liveLists, record, recorder, type Fragment } from '../../filters/sql.ts';
import { toSql } from '../../filters/to-sql.ts';
import { earlierVerification, sinceNow } from './enrichment.ts';
import { listedRules, membersOf, type ListedRules } from './list-members.ts';

const maxMembers = 100_000;

/**
 * Inserts the work e-mails of a list's members as inputs of a job. Addresses that differ only in case or surrounding
 * white space become one input, with the ids of all members that have it.
 * @returns the number of inputs
 * @throws DomainError `not_found`; `conflict` if the list has more than `maxMembers` members
 */
export async function insertListInputs(
  sql: Transaction,
  customerId: string,
  jobId: string,
  listId: string,
): Promise<number> {
  const members = await findMembers(sql, customerId, listId);
  const inputs = await insertMatching(sql, customerId, jobId, members);
  if (inputs === 0) await requireFewMembers(sql, customerId, members);
  return inputs;
}

interface ListAddresses {
  addresses: number;
  reusable: number;
}

export async function countListAddresses(
  sql: Transaction,
  customerId: string,
  listId: string,
  reuseHours: number,
): Promise<ListAddresses> {
  const members = await findMembers(sql, customerId, listId);
  const earlier = earlierVerification(recorder, customerId, recorder`a.address`, sinceNow(recorder, reuseHours));
  const { text, parameters } = record(recorder`
    ${withAddresses(customerId, members)}
    select
      count(*)::integer as addresses,
      (count(*) filter (where ${earlier} is not null))::integer as reusable
    from addresses a`);
  const [counts] = await sql.unsafe<ListAddresses[]>(text, parameters as string[]);
  if (counts!.addresses === 0) await requireFewMembers(sql, customerId, members);
  return counts!;
}

async function findMembers(sql: Transaction, customerId: string, listId: string): Promise<Filter> {
  const [list] = await sql<ListedRules[]>`
    select ${listedRules(sql, customerId)}
    from ${liveLists(sql, customerId)}
      and l.id = ${listId}`;
  if (!list) throw notFound('list');
  return membersOf([list]);
}

async function insertMatching(sql: Transaction, customerId: string, jobId: string, members: Filter): Promise<number> {
  const { text, parameters } = record(recorder`
    ${withAddresses(customerId, members)}
    insert into job_inputs (customer_id, job_id, position, item, address, contact_ids)
    select ${customerId}::uuid, ${jobId}::uuid, row_number() over (order by contact_ids[1]), item, address, contact_ids
    from addresses`);
  return (await sql.unsafe(text, parameters as string[])).count;
}

/**
 * Returns SQL for two CTEs: the contacts that match a filter (`members`), and their addresses. `addresses` is empty if
 * more than `maxMembers` contacts match.
 */
const withAddresses = (customerId: string, members: Filter): Fragment => recorder`
  with members as materialized (${selectMembers(customerId, members)}),
  addresses as (
    select
      (array_agg(work_email order by id))[1] as item,
      min(address collate "C") as address,
      array_agg(id order by id) as contact_ids
    from members
    where work_email <> ''
      and (select count(*) from members) <= ${maxMembers}::bigint
    group by lower(btrim(work_email))
  )`;

async function requireFewMembers(sql: Transaction, customerId: string, members: Filter): Promise<void> {
  const { text, parameters } = record(recorder`
    select count(*)::integer as members
    from (${selectMembers(customerId, members)}) found`);
  const [found] = await sql.unsafe<{ members: number }[]>(text, parameters as string[]);
  if (found!.members > maxMembers) throw conflict(`The list has more than ${maxMembers} members: verify smaller lists`);
}

const selectMembers = (customerId: string, members: Filter): Fragment => recorder`
  select c.id, c.work_email, c.folded ->> 'work_email' as address
  from ${fromOf(recorder, contactSource, customerId)}
  where c.customer_id = ${customerId}::uuid
    and ${toSql(recorder, contactSource, customerId, members)}
  limit ${maxMembers + 1}::bigint`;
