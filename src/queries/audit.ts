import type { Sql, Transaction } from '../db.ts';
import type { AuditEvent, NewAuditEvent } from '../schemas/audit.ts';

/** Keeps an event, in the transaction of its effect: neither is ever seen without the other. */
export async function recordEvent(sql: Transaction, given: NewAuditEvent): Promise<void> {
  await sql`
    insert into audit_events (customer_id, user_id, api_key_id, event, actor, address, details)
    values (
      ${given.customerId}, ${given.userId ?? null}, ${given.apiKeyId ?? null}, ${given.event},
      ${given.by.actor}, ${given.by.address}, ${sql.json(given.details ?? {})}
    )`;
}

/** The customer's latest events, newest first. */
export const listEvents = (sql: Sql | Transaction, customerId: string, limit: number): Promise<AuditEvent[]> =>
  sql<AuditEvent[]>`
    select id, created_at, event, actor, address, user_id, api_key_id, details
    from audit_events
    where customer_id = ${customerId}
    order by id desc
    limit ${limit}`;
