import { randomUUID } from 'node:crypto';
import type { Db, PgBoss } from 'pg-boss';
import type { Transaction, Queryable } from '../../database/db.ts';
import { queueSchema, turnKinds, type TurnKind } from '../../database/queues.ts';
import type { TraceContext } from '../../process/spans.ts';
import { currentTrace } from '../../process/tracing.ts';
import { anyCustomerSetting } from '../../database/connection.ts';
import { constant, type Fragment } from '../../filters/sql.ts';

export interface Turn extends TraceContext {
  customerId: string;
}

// Adds a message even if another one waits: a worker could take that one before it sees what this transaction has
// written. `mergeTurns` removes surplus messages.
/**
 * Enqueues a turn: a worker's next work for a customer. Workers see its message after the commit. Call it before
 * credits are reserved or charged, because that locks the balance.
 * @param how `seconds`: delay before a worker may process the message; `isLate`: true lets other turns come first
 */
export async function enqueueTurn(
  sql: Transaction,
  queue: TurnKind,
  customerId: string,
  { seconds = 0, isLate = false }: { seconds?: number; isLate?: boolean } = {},
): Promise<void> {
  const data = { customerId, ...currentTrace() };
  sender ??= openSender();
  await (
    await sender
  ).send(queue, data, {
    singletonKey: randomUUID(),
    group: { id: customerId },
    priority: isLate ? 0 : 1,
    db: asDb(sql),
    ...(seconds > 0 && { startAfter: seconds }),
  });
}

/**
 * Enqueues a turn for a customer in each queue. Call it after a suspension, during which workers drop the customer's
 * turns.
 */
export async function enqueueAllTurns(sql: Transaction, customerId: string): Promise<void> {
  for (const queue of turnKinds) await enqueueTurn(sql, queue, customerId);
}

// The caller's turn does the work of the removed messages, which is visible by then, and enqueues the rest. The oldest
// message is for a second worker.
/**
 * Removes the waiting messages of a customer, except the oldest. So a customer with many jobs has no more turns than
 * others. Call it before the search for work, in the same transaction.
 */
export async function mergeTurns(sql: Transaction, queue: TurnKind, customerId: string): Promise<void> {
  await sql`
    delete from pgboss.job
    where name = ${queue}
      and state = 'created'
      and id in (
        select id
        from pgboss.job
        where name = ${queue}
          and group_id = ${customerId}
          and state = 'created'
          and not blocked
          and start_after <= now()
        order by created_on, id
        offset 1
      )`;
}

export interface Message {
  id: string;
  retryCount: number;
}

/**
 * Locks a message, so that the queue cannot give it to another worker.
 * @returns false if another worker has it already
 */
export async function holdTurn(sql: Transaction, queue: TurnKind, { id, retryCount }: Message): Promise<boolean> {
  const { count } = await sql`
    select
    from pgboss.job
    where name = ${queue}
      and id = ${id}
      and state = 'active'
      and retry_count = ${retryCount}
    for share`;
  return count === 1;
}

export async function areOthersWaiting(sql: Transaction, queue: TurnKind, customerId: string): Promise<boolean> {
  const [row] = await sql<[{ wait: boolean }]>`
    select exists (
      select 1
      from pgboss.job
      where name = ${queue}
        and state < 'active'
        and not blocked
        and start_after <= now()
        and group_id is distinct from ${customerId}
    ) as wait`;
  return row.wait;
}

// Written as a subquery: with `not exists`, the planner may read all messages of the queue.
export async function findWithoutTurn(sql: Transaction, queue: TurnKind, customerIds: string[]): Promise<string[]> {
  const rows = await sql<{ id: string }[]>`
    select given.id
    from unnest(${customerIds}::text[]) as given (id)
    where (
      select j.id
      from pgboss.job j
      where j.name = ${queue}
        and j.group_id = given.id
        and j.state < 'completed'
      limit 1
    ) is null`;
  return rows.map(({ id }) => id);
}

const prepared = { prepare: true };

const asDb = (sql: Transaction): Db => ({
  executeSql: async (text, values = []) => ({ rows: await sql.unsafe(text, values as string[], prepared) }),
});

let sender: Promise<PgBoss> | undefined;

const openSender = async (): Promise<PgBoss> =>
  new (await import('pg-boss')).PgBoss({
    // Each call hands its transaction over. Without one, pg-boss only asks how a queue is stored, once for each queue.
    db: {
      executeSql: async (_text, [names] = []) => ({
        rows: (names as string[]).map((name) => ({ name, table: 'job', notify: true })),
      }),
    },
    schema: queueSchema,
    migrate: false,
    supervise: false,
    schedule: false,
  });

const tablesOfImport: Record<string, string[]> = {
  contacts: ['contacts', 'companies'],
  companies: ['companies'],
  products: ['products'],
  opportunities: ['opportunities', 'opportunity_lines', 'opportunity_contacts'],
};

// Once the planner knows that a table is empty, any index seems as good as its primary key.
/**
 * Returns the tables in which an import changed more than a tenth of the rows. They need an analysis and a vacuum.
 * Omits tables without a row of the customer. Returns none in a Citus database, whose nodes analyse by themselves.
 */
export async function findChangedTables(sql: Queryable, customerId: string, importId: string): Promise<string[]> {
  const [row] = await sql<{ object: string; changed: number }[]>`
    select object, created + updated as changed
    from imports
    where customer_id = ${customerId}
      and id = ${importId}
      and not dry_run`;
  if (!row) return [];
  const tables = await sql<{ name: string }[]>`
    select relname as name
    from pg_class
    where oid = any(${tablesOfImport[row.object]!}::text[]::regclass[])
      and reltuples < 10 * ${row.changed}::bigint
      and current_setting(${anyCustomerSetting}, true) is null`;
  const filled: string[] = [];
  for (const { name } of tables) {
    const rows = await sql`select from ${constant(sql, name)} where customer_id = ${customerId} limit 1`;
    if (rows.length > 0) filled.push(name);
  }
  return filled;
}

/** Analyses a table, so that the planner knows how many records each customer has. Skips the table if it is locked. */
export async function analyzeTable(sql: Queryable, table: string): Promise<void> {
  await sql`analyze (skip_locked) ${constant(sql, table)}`;
}

// The index of search terms keeps new entries aside (up to 1 MB) until they are sorted in.
/**
 * Vacuums a table, unless it is locked. Look-ups of search terms then need not read all new entries. Counts become
 * faster, too.
 */
export async function vacuumTable(sql: Queryable, table: string): Promise<void> {
  await sql`vacuum (skip_locked) ${constant(sql, table)}`;
}

export async function removeRows(
  sql: Transaction,
  customerId: string,
  table: 'job_inputs' | 'job_results',
  jobId: string,
  size: number,
): Promise<number> {
  const rows: Fragment = sql`
    from ${constant(sql, table)}
    where customer_id = ${customerId}
      and job_id = ${jobId}`;
  const { count } = await sql`
    delete ${rows}
      and position <= coalesce((select position ${rows} order by position offset ${size - 1} limit 1), 9223372036854775807)`;
  return count;
}
