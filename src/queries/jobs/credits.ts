import { type Queryable, type Transaction, afterCommit, type Database, type Sql } from '../../database/db.ts';
import { SpendCapExceeded, InsufficientCredits } from '../../errors.ts';
import type { SpendCap, SpendCaps, Spent } from '../../schemas/accounts.ts';
import { pools, type Pool, type Credits, type EntryKind, type LedgerEntry } from '../../schemas/jobs.ts';
import type { Spender } from '../../access/credentials.ts';
import { movedCredits } from '../../process/metrics.ts';
import { isAfter, limitAndOffset, pageById, type PageOrCursor, type RecordPage } from '../records/finders.ts';
import { addToJournal } from '../records/journal.ts';

export interface Amount {
  pool: Pool;
  amount: number;
}

interface KeyAmount extends Amount {
  apiKeyId: string;
}

type Sums = Record<SpendCap['per'], number>;

const startDayOf = (sql: Transaction, jobId: string) =>
  sql`(uuid_extract_timestamp(${jobId}::uuid) at time zone 'UTC')::date`;

const today = (sql: Queryable) => sql`(now() at time zone 'UTC')::date`;

const sumsOf = (sql: Queryable, day: ReturnType<typeof today>) => sql`
  coalesce(sum(s.spent) filter (where s.day = ${day}), 0) as day,
  coalesce(sum(s.spent) filter (where date_trunc('month', s.day::timestamp) = date_trunc('month', ${day}::timestamp)), 0) as month,
  coalesce(sum(s.spent), 0) as total`;

/**
 * Adds the credits that a new job reserves to the spending of its API key. Concurrent starts with the same key wait for
 * each other. Call it before the balance is locked.
 * @throws SpendCapExceeded if the key's cap leaves less than `amount`
 */
export async function addKeySpending(
  sql: Transaction,
  customerId: string,
  jobId: string,
  { apiKeyId, pool, amount }: KeyAmount,
): Promise<void> {
  const day = startDayOf(sql, jobId);
  // First and alone: the other statements must see what the transaction before has written.
  await sql`select pg_advisory_xact_lock(hashtextextended(${`key spending:${apiKeyId}`}, 0))`;
  const available = await findRoomOfKey(sql, customerId, { apiKeyId, pool }, day);
  if (amount > available) throw new SpendCapExceeded({ required: amount, available, pool });
  await sql`
    insert into key_spending as s (customer_id, api_key_id, pool, day, spent)
    values (${customerId}, ${apiKeyId}, ${pool}, ${day}, ${amount})
    on conflict (customer_id, api_key_id, pool, day) do update
    set spent = s.spent + excluded.spent`;
}

/**
 * Subtracts the credits that an ended job released from the spending of its API key, on the day of the job's start.
 * Call it before the balance is locked.
 */
export async function subtractKeySpending(
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
      and day = ${startDayOf(sql, jobId)}`;
}

async function findRoomOfKey(
  sql: Queryable,
  customerId: string,
  { apiKeyId, pool }: Omit<KeyAmount, 'amount'>,
  day = today(sql),
): Promise<number> {
  const [[key], [sums]] = await Promise.all([
    sql<{ spend_caps: SpendCaps }[]>`
      select spend_caps
      from api_keys
      where customer_id = ${customerId}
        and id = ${apiKeyId}`,
    sql<[Sums]>`
      select ${sumsOf(sql, day)}
      from key_spending s
      where s.customer_id = ${customerId}
        and s.api_key_id = ${apiKeyId}
        and s.pool = ${pool}`,
  ]);
  const cap = key?.spend_caps[pool] ?? null;
  return cap === null ? Infinity : Math.max(0, cap.amount - sums[cap.per]);
}

/** Adds to each key its spending in the period of its cap, or its total spending if it has no cap. */
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

/*
 * All job starts and turns of a customer update the same balance row. So each transaction moves credits last: the row's
 * lock is short, and a transaction that holds it waits for no other lock. What a key spends (credits.ts) is counted
 * just before.
 */

export async function insertBalances(sql: Transaction, customerId: string): Promise<void> {
  await sql`
    insert into credit_balances (customer_id, pool)
    select ${customerId}, pool
    from unnest(${pools}::text[]) as pool`;
}

interface Reservation extends Amount, Pick<Spender, 'apiKeyId' | 'maxCredits'> {}

/**
 * Reserves credits and inserts the ledger entry. Writes nothing if the amount is 0.
 * @throws SpendCapExceeded if the cap of the key, or the limit of the request, leaves fewer credits
 * @throws InsufficientCredits if the customer has fewer credits
 */
export async function reserveCredits(
  sql: Transaction,
  customerId: string,
  jobId: string,
  { apiKeyId, maxCredits = Infinity, ...given }: Reservation,
): Promise<void> {
  const { pool, amount } = given;
  if (amount === 0) return;
  if (amount > maxCredits)
    throw new SpendCapExceeded({ required: amount, available: maxCredits, pool }, 'the request allows');
  if (apiKeyId !== null) await addKeySpending(sql, customerId, jobId, { apiKeyId, pool, amount });
  const isMoved = await move(sql, customerId, {
    ...given,
    kind: 'reserve',
    available: -amount,
    reserved: amount,
    jobId,
  });
  return isMoved ? recordIfLow(sql, customerId, pool) : refuse(sql, customerId, given);
}

export const chargeCredits = (sql: Transaction, customerId: string, jobId: string, credits: Amount): Promise<void> =>
  requireMove(sql, customerId, { ...credits, kind: 'charge', available: 0, reserved: -credits.amount, jobId });

export const releaseCredits = (sql: Transaction, customerId: string, jobId: string, credits: Amount): Promise<void> => {
  const { amount } = credits;
  return requireMove(sql, customerId, { ...credits, kind: 'release', available: amount, reserved: -amount, jobId });
};

export async function grantCredits(sql: Transaction, customerId: string, grant: Amount & { note: string | null }) {
  const { pool, amount } = grant;
  await requireMove(sql, customerId, { ...grant, kind: 'grant', available: amount, reserved: 0 });
  await sql`
    update credit_balances
    set low_of = ${amount}
    where customer_id = ${customerId}
      and pool = ${pool}`;
}

/**
 * Records the event `credits.low` if less than a tenth of the last grant is left. Records it only once for each grant.
 */
async function recordIfLow(sql: Transaction, customerId: string, pool: Pool): Promise<void> {
  const [low] = await sql<{ available: number }[]>`
    update credit_balances
    set low_of = null
    where customer_id = ${customerId}
      and pool = ${pool}
      and available * 10 < low_of
    returning available`;
  if (low) addToJournal(sql, customerId, [{ type: 'credits.low', data: { pool, available: low.available } }]);
}

/**
 * Adds a correction to a balance, or subtracts it.
 * @throws InsufficientCredits if the correction takes more than is available
 */
export async function adjustCredits(
  sql: Transaction,
  customerId: string,
  correction: Amount & { note: string | null },
): Promise<void> {
  const { pool, amount } = correction;
  if (await move(sql, customerId, { ...correction, kind: 'adjust', available: amount, reserved: 0 }))
    return recordIfLow(sql, customerId, pool);
  return refuse(sql, customerId, { pool, amount: -amount });
}

async function refuse(sql: Transaction, customerId: string, { pool, amount: required }: Amount): Promise<never> {
  throw new InsufficientCredits({ required, available: await findAvailableCredits(sql, customerId, pool), pool });
}

interface Move extends Amount {
  kind: EntryKind;
  available: number;
  reserved: number;
  jobId?: string;
  note?: string | null;
}

async function requireMove(sql: Transaction, customerId: string, change: Move): Promise<void> {
  if (change.amount === 0) return;
  if (!(await move(sql, customerId, change)))
    throw new Error(`Cannot ${change.kind} ${change.amount} credits: the ${change.pool} balance is missing or too low`);
}

/**
 * Changes a balance and inserts the ledger entry in one statement.
 * @returns false if too few credits are available. Nothing is written then
 */
async function move(sql: Transaction, customerId: string, change: Move): Promise<boolean> {
  const { pool, kind, amount, jobId = null, note = null } = change;
  const { count } = await sql`
    with moved as (
      update credit_balances
      set
        available = available + ${change.available}::bigint,
        reserved = reserved + ${change.reserved}::bigint,
        entries = entries + 1,
        updated_at = (select clock_timestamp())
      where customer_id = ${customerId}
        and pool = ${pool}
        and available + ${change.available}::bigint >= 0
      returning pool, entries, available, reserved
    )
    insert into credit_entries (customer_id, pool, number, kind, amount, balance_after, reserved_after, job_id, note)
    select ${customerId}::uuid, pool, entries, ${kind}, ${amount}::bigint, available, reserved, ${jobId}::uuid, ${note}::text
    from moved`;
  if (count === 1)
    afterCommit(sql, () => movedCredits.inc({ pool, kind: amount < 0 ? `${kind}_down` : kind }, Math.abs(amount)));
  return count === 1;
}

async function findAvailableCredits(sql: Queryable, customerId: string, pool: Pool): Promise<number> {
  const [balance] = await sql<{ available: number }[]>`
    select available
    from credit_balances
    where customer_id = ${customerId}
      and pool = ${pool}`;
  return balance?.available ?? 0;
}

export async function findSpendable(sql: Queryable, { customerId, apiKeyId }: Spender, pool: Pool): Promise<number> {
  const available = await findAvailableCredits(sql, customerId, pool);
  return apiKeyId === null ? available : Math.min(available, await findRoomOfKey(sql, customerId, { apiKeyId, pool }));
}

export async function findCredits(sql: Queryable, customerId: string): Promise<Credits> {
  const rows = await sql<{ pool: Pool; balance: number; reserved: number }[]>`
    select pool, available as balance, reserved
    from credit_balances
    where customer_id = ${customerId}`;
  return Object.fromEntries(rows.map(({ pool, ...credits }) => [pool, credits])) as Credits;
}

/** Returns the amount of the last grant in each pool of credits. Reads only the newest 10,000 ledger entries. */
export async function findLastGrants(sql: Sql, customerId: string): Promise<Partial<Record<Pool, number>>> {
  const rows = await sql<{ pool: Pool; amount: number }[]>`
    select distinct on (pool) pool, amount
    from (
      select id, pool, kind, amount
      from credit_entries
      where customer_id = ${customerId}
      order by id desc
      limit 10000
    ) newest
    where kind = 'grant'
    order by pool, id desc`;
  return Object.fromEntries(rows.map(({ pool, amount }) => [pool, amount]));
}

export const listEntries = (
  db: Database,
  customerId: string,
  paginate?: PageOrCursor,
  without: readonly EntryKind[] = [],
): Promise<RecordPage<LedgerEntry>> =>
  pageById(['ledger'], customerId, paginate, (page) =>
    db.search(
      (sql) => sql<LedgerEntry[]>`
        select id, pool, kind, amount, balance_after, reserved_after, job_id, note, created_at
        from credit_entries
        where customer_id = ${customerId}
          and kind <> all(${without}::text[])
          and ${isAfter(sql, 'id', page)}
        order by id desc
        ${limitAndOffset(sql, page)}`,
    ),
  );

/** Returns the credits of each pool that jobs have spent in the last days. The last day is today (UTC). */
export const sumCharges = (sql: Sql, customerId: string, days: number) => sql<{ pool: Pool; amount: number }[]>`
  select pool, sum(amount) as amount
  from credit_entries
  where customer_id = ${customerId}
    and kind = 'charge'
    and id >= (
      -- The smallest id of the first day: ids begin with their time in milliseconds.
      select rpad(lpad(to_hex((extract(epoch from day) * 1000)::bigint), 12, '0'), 32, '0')::uuid
      from (select (now() at time zone 'UTC')::date - ${days - 1}::int as day) first
    )
  group by pool`;
