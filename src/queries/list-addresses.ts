import type { Transaction } from '../db.ts';
import { conflict, notFound } from '../errors.ts';
import { contactSource } from '../filters/columns.ts';
import { record, recorder } from '../filters/recorded.ts';
import { toSql } from '../filters/to-sql.ts';
import type { Rule } from '../schemas/lists.ts';
import { memberOf } from './list-filters.ts';
import { keepRules } from './rules.ts';

/** Members of a list that one job verifies. */
const mostMembers = 100_000;

/**
 * Gives a job the work e-mails of a list's members, each address once, however it is written, with all members that have it.
 * @returns how many addresses there are
 * @throws not_found; conflict when the list has too many members
 */
export async function insertListInputs(
  sql: Transaction,
  customerId: string,
  jobId: string,
  listId: string,
): Promise<number> {
  await keepRules(sql, customerId);
  const [list] = await sql<{ rules: Rule[]; is_filling: boolean }[]>`
    select rules, fill_version is not null as is_filling
    from lists
    where customer_id = ${customerId}
      and id = ${listId}`;
  if (!list) throw notFound('list');
  const members = memberOf(
    [listId.toLowerCase()],
    list.is_filling ? [{ id: listId.toLowerCase(), rules: list.rules }] : [],
  );
  const { text, parameters } = record(recorder`
    with members as materialized (
      select c.id, c.work_email
      from ${recorder.unsafe(contactSource.from)}
      where c.customer_id = ${customerId}::uuid
        and ${toSql(recorder, contactSource, members)}
      limit ${mostMembers + 1}::bigint
    ),
    addresses as (
      select (array_agg(work_email order by id))[1] as item, array_agg(id order by id) as contact_ids
      from members
      where work_email <> ''
        and (select count(*) from members) <= ${mostMembers}::bigint
      group by lower(btrim(work_email))
    ),
    inputs as (
      insert into job_inputs (customer_id, job_id, position, item, contact_ids)
      select ${customerId}::uuid, ${jobId}::uuid, row_number() over (order by contact_ids[1]), item, contact_ids
      from addresses
      returning position
    )
    select (select count(*) from members) as members, (select count(*) from inputs) as addresses`);
  const [counted] = await sql.unsafe<{ members: number; addresses: number }[]>(text, parameters as string[]);
  if (counted!.members > mostMembers) throw conflict(`The list has more than ${mostMembers} members`);
  return counted!.addresses;
}
