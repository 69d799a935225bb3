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

/** Removes up to 1,000 records older than 24 hours; answers how many. */
export async function removeExpiredRecords(sql: Transaction): Promise<number> {
  const { count } = await sql`
    delete from idempotency_records
    where (customer_id, key) in (
      select customer_id, key
      from idempotency_records
      where created_at <= now() - interval '24 hours'
      order by created_at
      limit 1000
      for update skip locked
    )`;
  return count;
}
