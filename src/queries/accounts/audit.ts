import type { Queryable, Transaction } from '../../database/db.ts';
import { lowestId } from '../../database/wire-types.ts';
import type { RefusalCause } from '../../errors.ts';
import type { AuditEvent, NewAuditEvent } from '../../schemas/audit.ts';

/**
 * Pass the transaction of the recorded action, so that both commit together or not at all. The log of PostgreSQL gets a line,
 * too: after a restore to an earlier moment, it tells what must be done again.
 */
export async function recordEvent(sql: Transaction, given: NewAuditEvent): Promise<void> {
  const { event, customerId, userId = null, apiKeyId = null, by, details = {} } = given;
  await Promise.all([
    sql`
      insert into audit_events (customer_id, user_id, api_key_id, event, actor, address, details)
      values (${customerId}, ${userId}, ${apiKeyId}, ${event}, ${by.actor}, ${by.address}, ${sql.json(details)})`,
    sql`select log_audit_event(${event}, ${customerId}, ${userId}, ${apiKeyId}, ${by.actor})`,
  ]);
}

/** Stored in place of a customer's and user's ids when a login fails because no user has the email. */
export const nobody = {
  customerId: lowestId,
  userId: lowestId,
};

/**
 * Addresses that are counted separately for the failed logins of one account, day and reason. Further ones share a row.
 */
export const maxAddresses = 100;

/**
 * Counts a failed login in the row of its account, day, reason and network address. The email that was entered is not
 * stored, because people sometimes type their password into that field.
 */
export async function recordFailedLogin(
  sql: Transaction,
  customerId: string,
  { userId, reason, address }: { userId: string; reason: RefusalCause; address: string },
): Promise<void> {
  // An account has about `maxAddresses` rows at most for a day and reason, so attackers cannot fill the table.
  const today = sql`customer_id = ${customerId} and user_id = ${userId} and day = current_date and reason = ${reason}`;
  await sql`
    insert into failed_logins (customer_id, user_id, day, reason, address)
    select
      ${customerId}, ${userId}, current_date, ${reason},
      case
        when (select count(*) from failed_logins where ${today} and address <> '') < ${maxAddresses}
          or exists (select 1 from failed_logins where ${today} and address = ${address})
        then ${address}
        else ''
      end
    on conflict (customer_id, user_id, day, reason, address)
    do update set attempts = failed_logins.attempts + 1, last_at = excluded.last_at`;
}

/**
 * Newest first. Failed logins with the same account, day, reason and address are one event, at the time of the last
 * attempt.
 */
export const listEvents = (sql: Queryable, customerId: string, limit: number): Promise<AuditEvent[]> =>
  sql<AuditEvent[]>`
    with others as (
      select id, created_at, event, actor, address, user_id, api_key_id, details
      from audit_events
      where customer_id = ${customerId}
      order by id desc
      limit ${limit}
    ),
    failed as (
      select
        f.id, f.last_at as created_at, 'user.login_failed' as event, 'anonymous' as actor,
        nullif(f.address, '') as address, f.user_id, null::uuid as api_key_id,
        jsonb_build_object(
          'email', u.email,
          'reason', f.reason,
          'attempts', f.attempts::text,
          'first_at', to_char(f.first_at, 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
        ) as details
      from failed_logins f
      join users u on u.customer_id = f.customer_id and u.id = f.user_id
      where f.customer_id = ${customerId}
      order by f.last_at desc
      limit ${limit}
    )
    select * from others
    union all
    select * from failed
    order by created_at desc, id desc
    limit ${limit}`;
