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
  const own = eventSourceOf(sql);
  if (own === undefined) return;
  for (let i = 0; i < events.length; i += mostOfRow) {
    const some = events.slice(i, i + mostOfRow);
    const types = [...new Set(some.map(({ type }) => type))];
    const entries = some.map(({ type, data }) => [type, data]);
    await sql`
      insert into events (customer_id, source, types, size, entries)
      values (${customerId}, ${source ?? own}, ${types}::text[], ${some.length}, ${sql.json(entries as never)})`;
  }
}
