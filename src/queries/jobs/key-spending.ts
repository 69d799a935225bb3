import type { Queryable, Transaction } from '../../database/db.ts';
import { SpendCapExceeded } from '../../errors.ts';
import type { SpendCap, SpendCaps, Spent } from '../../schemas/api-keys.ts';
import { pools, type Pool } from '../../schemas/credits.ts';

interface KeyAmount {
  apiKeyId: string;
  pool: Pool;
  amount: number;
}

type Sums = Record<SpendCap['per'], number>;

/** The day (UTC) on which a job was started. Its id begins with this time. */
const dayOf = (sql: Transaction, jobId: string) =>
  sql`(uuid_extract_timestamp(${jobId}::uuid) at time zone 'UTC')::date`;

const today = (sql: Queryable) => sql`(now() at time zone 'UTC')::date`;

/** The sums of rows `s` for the times that contain this day. */
const sumsOf = (sql: Queryable, day: ReturnType<typeof today>) => sql`
  coalesce(sum(s.spent) filter (where s.day = ${day}), 0) as day,
  coalesce(sum(s.spent) filter (where date_trunc('month', s.day::timestamp) = date_trunc('month', ${day}::timestamp)), 0) as month,
  coalesce(sum(s.spent), 0) as total`;

/**
 * Counts what a new job reserves for the key that started it. Starts with the same key wait here for each other, until
 * they commit. Call this before the balance is locked.
 * @throws SpendCapExceeded if the key's cap leaves less than `amount`
 */
export async function spendWithKey(
  sql: Transaction,
  customerId: string,
  jobId: string,
  { apiKeyId, pool, amount }: KeyAmount,
): Promise<void> {
  const day = dayOf(sql, jobId);
  // First and alone: the other statements must see what the transaction before has written.
  await sql`select pg_advisory_xact_lock(hashtextextended(${`key spending:${apiKeyId}`}, 0))`;
  const [cap, sums] = await Promise.all([
    findCap(sql, customerId, apiKeyId, pool),
    findSums(sql, customerId, { apiKeyId, pool, day }),
  ]);
  const available = roomIn(cap, sums);
  if (amount > available) throw new SpendCapExceeded({ required: amount, available, pool });
  await sql`
    insert into key_spending as s (customer_id, api_key_id, pool, day, spent)
    values (${customerId}, ${apiKeyId}, ${pool}, ${day}, ${amount})
    on conflict (customer_id, api_key_id, pool, day) do update
    set spent = s.spent + excluded.spent`;
}

/** Counts what a job released when it ended, on the day on which it was started. Call this before the balance is locked. */
export async function giveBackToKey(
  sql: Transaction,
  customerId: string,
  jobId: string,
  { apiKeyId, pool, amount }: KeyAmount,
): Promise<void> {
  if (amount === 0) return;
  await sql`
    update key_spending
    set spent = spent - ${amount}
    where customer_id = ${customerId}
      and api_key_id = ${apiKeyId}
      and pool = ${pool}
      and day = ${dayOf(sql, jobId)}`;
}

/** Returns what the key's cap leaves now; Infinity if it has none. */
export async function findRoomOfKey(sql: Queryable, customerId: string, apiKeyId: string, pool: Pool): Promise<number> {
  const [cap, sums] = await Promise.all([
    findCap(sql, customerId, apiKeyId, pool),
    findSums(sql, customerId, { apiKeyId, pool, day: today(sql) }),
  ]);
  return roomIn(cap, sums);
}

const roomIn = (cap: SpendCap | null, sums: Sums): number =>
  cap === null ? Infinity : Math.max(0, cap.amount - sums[cap.per]);

async function findCap(sql: Queryable, customerId: string, apiKeyId: string, pool: Pool): Promise<SpendCap | null> {
  const [key] = await sql<{ spend_caps: SpendCaps }[]>`
    select spend_caps
    from api_keys
    where customer_id = ${customerId}
      and id = ${apiKeyId}`;
  return key?.spend_caps[pool] ?? null;
}

async function findSums(
  sql: Queryable,
  customerId: string,
  { apiKeyId, pool, day }: { apiKeyId: string; pool: Pool; day: ReturnType<typeof today> },
): Promise<Sums> {
  const [sums] = await sql<[Sums]>`
    select ${sumsOf(sql, day)}
    from key_spending s
    where s.customer_id = ${customerId}
      and s.api_key_id = ${apiKeyId}
      and s.pool = ${pool}`;
  return sums;
}

/** Adds to each key what it has spent: in the time of its cap, without a cap since the key was made. */
export async function withSpent<T extends { id: string; spend_caps: SpendCaps }>(
  sql: Queryable,
  customerId: string,
  keys: readonly T[],
): Promise<(T & { spent: Spent })[]> {
  const rows = await sql<(Sums & { api_key_id: string; pool: Pool })[]>`
    select s.api_key_id, s.pool, ${sumsOf(sql, today(sql))}
    from key_spending s
    where s.customer_id = ${customerId}
      and s.api_key_id = any(${keys.map(({ id }) => id)}::uuid[])
    group by s.api_key_id, s.pool`;
  const found = new Map(rows.map((row) => [`${row.api_key_id} ${row.pool}`, row]));
  return keys.map((key) => ({
    ...key,
    spent: Object.fromEntries(
      pools.map((pool) => [pool, found.get(`${key.id} ${pool}`)?.[key.spend_caps[pool]?.per ?? 'total'] ?? 0]),
    ) as Spent,
  }));
}
