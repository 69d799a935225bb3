import type { Sql, Transaction } from '../db.ts';

/** An answer that was given, as it is given again. */
export interface KeptAnswer {
  status: number;
  body: object;
}

/** What is kept under an Idempotency-Key: the answer, and of which request it was the answer. */
export interface IdempotencyRecord extends KeptAnswer {
  fingerprint: Buffer;
}

/**
 * Takes an Idempotency-Key for the rest of the transaction, over all processes. A process that dies gives it back, since
 * its connection dies with it.
 * @returns false while another request holds it
 */
export async function takeIdempotencyKey(sql: Transaction, customerId: string, key: string): Promise<boolean> {
  const [lock] = await sql<{ taken: boolean }[]>`
    select pg_try_advisory_xact_lock(hashtextextended(${`idempotency:${customerId}:${key}`}, 0)) as taken`;
  return lock!.taken;
}

/** The record of the last 24 hours under that key; an older one counts as none. */
export async function findIdempotencyRecord(
  sql: Sql | Transaction,
  customerId: string,
  key: string,
): Promise<IdempotencyRecord | undefined> {
  const [record] = await sql<IdempotencyRecord[]>`
    select fingerprint, status, body
    from idempotency_records
    where customer_id = ${customerId}
      and key = ${key}
      and created_at > now() - interval '24 hours'`;
  return record;
}

/** Keeps an answer under a key that is taken; an expired record is overwritten. */
export async function keepAnswer(
  sql: Transaction,
  customerId: string,
  key: string,
  record: IdempotencyRecord,
): Promise<void> {
  const { fingerprint, status, body } = record;
  await sql`
    insert into idempotency_records (customer_id, key, fingerprint, status, body)
    values (${customerId}, ${key}, ${fingerprint}, ${status}, ${JSON.stringify(body)}::text::json)
    on conflict (customer_id, key) do update
    set fingerprint = excluded.fingerprint, status = excluded.status, body = excluded.body, created_at = excluded.created_at`;
}

/** Removes up to 1,000 records older than 24 hours. Returns how many. */
export async function removeExpiredRecords(sql: Transaction): Promise<number> {
  const expired = await sql<{ customer_id: string; key: string }[]>`
    select customer_id, key
    from idempotency_records
    where created_at <= now() - interval '24 hours'
    order by created_at
    limit 1000`;
  const byCustomer = Map.groupBy(expired, ({ customer_id }) => customer_id);
  const removed = await Promise.all(
    Array.from(byCustomer, ([customerId, records]) => removeRecords(sql, customerId, records)),
  );
  return removed.reduce((sum, { count }) => sum + count, 0);
}

/** Removes those of a customer's records that are still expired and that nobody else has locked. */
const removeRecords = (sql: Transaction, customerId: string, records: readonly { key: string }[]) => sql`
  delete from idempotency_records
  where customer_id = ${customerId}
    and key in (
      select key
      from idempotency_records
      where customer_id = ${customerId}
        and key = any(${records.map(({ key }) => key)}::text[])
        and created_at <= now() - interval '24 hours'
      for update skip locked
    )`;
