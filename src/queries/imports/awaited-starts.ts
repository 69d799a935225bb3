import type { Queryable } from '../../database/db.ts';
import { approvalHours } from '../../schemas/base/approvals.ts';

/** A condition on a row of `approvals`: an admin can still decide the call. */
export const isWaiting = (sql: Queryable) => sql`
  (approvals.status = 'pending' and approvals.created_at >= now() - make_interval(hours => ${approvalHours}::int))`;

/**
 * A condition on an import: its start waits for an admin, or was approved just now.
 * @param imports the table or alias whose row is meant
 * @param customerId of the import; undefined in a statement about all customers. A distributed database locks rows only in
 *   statements that name one customer for each table
 */
export const isAwaited = (sql: Queryable, imports = sql`imports`, customerId?: string) => sql`
  exists (
    select 1
    from approvals
    where approvals.customer_id = ${customerId ? sql`${customerId}::uuid` : sql`${imports}.customer_id`}
      and (${isWaiting(sql)} or approvals.status = 'approved' and approvals.decided_at > now() - interval '1 minute')
      and replace(lower(approvals.url), '%2d', '-') like '/api/ext/imports/' || ${imports}.id || '/start%'
  )`;
