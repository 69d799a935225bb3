import type { PendingQuery, Row } from 'postgres';
import type { Transaction } from '../../database/db.ts';
import { eventSourceOf } from '../../database/origin.ts';
import type { EventSource, EventType } from '../../schemas/events/types.ts';

/** An event to record. `data` is what readers get, without `source`. */
export interface NewEvent {
  type: EventType;
  data: object;
}

/** Maximum number of events in one row. */
const mostOfRow = 1_000;

/**
 * Records events of a customer. They are in the feed from the commit on. Call it late, when the transaction holds all
 * locks of records: the events of one record are in the feed in the order of these calls. Writers of contacts, companies,
 * lists, products and opportunities do not call it: they collect their events in `LastWrites`.
 * @param sql the transaction itself, not a savepoint of it
 * @param source default: that of the requester for whom the transaction was opened
 */
export async function recordEvents(
  sql: Transaction,
  customerId: string,
  events: readonly NewEvent[],
  source?: EventSource,
): Promise<void> {
  await Promise.all(insertsOf(sql, customerId, events, source));
}

/** Returns the statements that record events, which are not sent yet. See `recordEvents`. */
export function insertsOf(
  sql: Transaction,
  customerId: string,
  events: readonly NewEvent[],
  source: EventSource | undefined = eventSourceOf(sql),
): PendingQuery<Row[]>[] {
  if (eventSourceOf(sql) === undefined) return [];
  const rows = Array.from({ length: Math.ceil(events.length / mostOfRow) }, (_, i) =>
    events.slice(i * mostOfRow, (i + 1) * mostOfRow),
  );
  return rows.map((some) => {
    const types = [...new Set(some.map(({ type }) => type))];
    const entries = some.map(({ type, data }) => [type, data]);
    return sql`
      insert into events (customer_id, source, types, size, entries)
      values (${customerId}, ${source!}, ${types}::text[], ${some.length}, ${sql.json(entries as never)})`;
  });
}
