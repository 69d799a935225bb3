import type { Queryable, Transaction } from '../../database/db.ts';
import { conflict, notFound } from '../../errors.ts';
import { approvalDays, maxPendingApprovals } from '../../schemas/accounts.ts';
import type { Approval, ApprovedCall, Call, ListedApproval } from '../../schemas/accounts.ts';
import { isWaiting } from '../jobs/import-rows.ts';
import { recordEvent } from './customers.ts';

const listed = (sql: Queryable) => sql`
  id, api_key_id, url, credits, records, created_at, decided_at, decided_by,
  case
    when status = 'pending' and not ${isWaiting(sql)} then 'lapsed'
    else status
  end as status`;

export async function createApproval(sql: Transaction, customerId: string, call: Call): Promise<string> {
  await sql`select pg_advisory_xact_lock(hashtextextended(${`approvals:${customerId}`}, 0))`;
  const [{ waiting }] = await sql<[{ waiting: number }]>`
    select count(*)::integer as waiting
    from approvals
    where customer_id = ${customerId}
      and api_key_id = ${call.apiKeyId}
      and ${isWaiting(sql)}`;
  if (waiting >= maxPendingApprovals)
    throw conflict(
      `${maxPendingApprovals} calls of this key wait for an approval already: approve or refuse some of them first`,
    );
  const [row] = await sql<[{ id: string }]>`
    insert into approvals (customer_id, api_key_id, url, body, credits, records)
    values (${customerId}, ${call.apiKeyId}, ${call.url}, ${call.body}, ${call.credits}, ${call.records})
    returning id`;
  return row.id;
}

export const listApprovals = (sql: Queryable, customerId: string): Promise<ListedApproval[]> => sql`
  select ${listed(sql)}
  from approvals
  where customer_id = ${customerId}
  order by id desc
  limit 1000`;

export async function requireApproval(sql: Queryable, customerId: string, id: string, apiKeyId?: string) {
  const [approval] = await sql<Approval[]>`
    select ${listed(sql)}, answer
    from approvals
    where customer_id = ${customerId}
      and id = ${id}
      and (${apiKeyId ?? null}::uuid is null or api_key_id = ${apiKeyId ?? null})`;
  if (!approval) throw notFound('approval');
  return approval;
}

/**
 * Returns a call that waits for an approval, as the caller sent it.
 * @throws DomainError `not_found`; `conflict` if somebody has decided about the call, or the time for that is over
 */
export async function requirePending(
  sql: Queryable,
  customerId: string,
  id: string,
): Promise<Omit<ApprovedCall, 'by'>> {
  const [call] = await sql<Omit<ApprovedCall, 'by' | 'customerId'>[]>`
    select id, api_key_id as "apiKeyId", url, body, credits, records
    from approvals
    where customer_id = ${customerId}
      and id = ${id}
      and ${isWaiting(sql)}`;
  if (!call) throw await decidedAlready(sql, customerId, id);
  return { ...call, customerId };
}

const decidedAlready = async (sql: Queryable, customerId: string, id: string) =>
  conflict(`The call is ${(await requireApproval(sql, customerId, id)).status} already`);

/**
 * Approves or refuses a call that waits for an approval, and records the audit event.
 * @throws DomainError `conflict` if somebody has decided about the call, or the time for that is over
 */
export async function decide(
  sql: Transaction,
  { customerId, id, by }: Pick<ApprovedCall, 'customerId' | 'id' | 'by'>,
  status: 'approved' | 'refused',
): Promise<void> {
  const [decided] = await sql<{ api_key_id: string; url: string }[]>`
    update approvals
    set status = ${status}, decided_at = (select clock_timestamp()), decided_by = ${by.actor}, body = ''
    where customer_id = ${customerId}
      and id = ${id}
      and ${isWaiting(sql)}
    returning api_key_id, url`;
  if (!decided) throw await decidedAlready(sql, customerId, id);
  await recordEvent(sql, {
    event: `approval.${status}`,
    customerId,
    apiKeyId: decided.api_key_id,
    by,
    details: { approval: id, url: decided.url },
  });
}

export async function storeApprovedAnswer(
  sql: Transaction,
  { customerId, id }: Pick<ApprovedCall, 'customerId' | 'id'>,
  answer: object,
): Promise<void> {
  await sql`
    update approvals
    set answer = ${sql.json(answer as never)}
    where customer_id = ${customerId}
      and id = ${id}`;
}

/**
 * Deletes a batch of approvals that are older than `approvalDays`. Also clears the bodies of calls that nobody decided
 * about in time.
 * @returns the number of deleted and cleared approvals
 */
export async function removeOldApprovals(sql: Transaction): Promise<number> {
  const lapsed = await sql<{ customer_id: string; id: string }[]>`
    select customer_id, id
    from approvals
    where status = 'pending'
      and not ${isWaiting(sql)}
      and octet_length(body) > 0
    limit 1000`;
  for (const { customer_id: customerId, id } of lapsed)
    await sql`
      update approvals
      set body = ''
      where customer_id = ${customerId}
        and id = ${id}
        and status = 'pending'`;
  const old = await sql<{ customer_id: string; id: string }[]>`
    select customer_id, id
    from approvals
    where created_at < now() - make_interval(days => ${approvalDays}::int)
    limit 1000`;
  for (const [customerId, rows] of Map.groupBy(old, ({ customer_id }) => customer_id))
    await sql`
      delete from approvals
      where customer_id = ${customerId}
        and id = any(${rows.map(({ id }) => id)}::uuid[])`;
  return lapsed.length + old.length;
}
