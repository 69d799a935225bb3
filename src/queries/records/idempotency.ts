import { promisify } from 'node:util';
import { deflateRaw, inflateRaw } from 'node:zlib';
import { createHash } from 'node:crypto';
import type { Queryable, Transaction } from '../../database/db.ts';

export interface StoredAnswer {
  status: number;
  body: object;
  change_id: string | null;
}

interface IdempotencyRecord extends StoredAnswer {
  fingerprint: Buffer;
}

/**
 * Tries to lock an Idempotency-Key, so that no other process handles a request with this key.
 * @returns false if another request holds the lock
 */
export async function lockIdempotencyKey(sql: Transaction, customerId: string, key: string): Promise<boolean> {
  const [lock] = await sql<{ taken: boolean }[]>`
    select pg_try_advisory_xact_lock(hashtextextended(${lockName(customerId, key)}, 0)) as taken`;
  return lock!.taken;
}

const lockName = (customerId: string, key: string): string => `idempotency:${customerId}:${key}`;

export async function findIdempotencyRecord(
  sql: Queryable,
  customerId: string,
  key: string,
): Promise<IdempotencyRecord | undefined> {
  const [record] = await sql<(Omit<IdempotencyRecord, 'body'> & { body: object | string })[]>`
    select fingerprint, status, body, change_id
    from idempotency_records
    where customer_id = ${customerId}
      and key = ${key}
      and created_at > now() - interval '24 hours'`;
  return record && { ...record, body: await unpack(record.body) };
}

/** Maximum length of the JSON of a response that is stored uncompressed (UTF-16 units). */
const maxPlainLength = 2_000;

async function pack(body: object): Promise<string> {
  const text = JSON.stringify(body);
  return text.length > maxPlainLength ? JSON.stringify((await compress(text)).toString('base64')) : text;
}

const unpack = async (stored: object | string): Promise<object> =>
  typeof stored === 'string' ? JSON.parse((await decompress(Buffer.from(stored, 'base64'))).toString()) : stored;

const compress = promisify<string, Buffer>(deflateRaw);
const decompress = promisify<Buffer, Buffer>(inflateRaw);

/**
 * Stores the response to the request with this Idempotency-Key, in place of an older one. The caller must have locked
 * the key.
 */
export async function storeAnswer(sql: Transaction, customerId: string, key: string, record: IdempotencyRecord) {
  const { fingerprint, status, body, change_id } = record;
  await sql`
    insert into idempotency_records (customer_id, key, fingerprint, status, body, change_id)
    values (${customerId}, ${key}, ${fingerprint}, ${status}, ${await pack(body)}::text::json, ${change_id})
    on conflict (customer_id, key) do update
    set
      fingerprint = excluded.fingerprint,
      status = excluded.status,
      body = excluded.body,
      change_id = excluded.change_id,
      created_at = excluded.created_at`;
}

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

/**
 * Stores that a web form was submitted, so that the form takes effect at most once. Call it in the transaction that
 * carries out the action of the form.
 * @param form its token is text that no other form has
 * @returns undefined if the form takes effect now, or else how it did before (see `findSent`)
 */
export async function markSent(sql: Transaction, customerId: string, form: SentForm): Promise<Sent | undefined> {
  const key = keyOf(form);
  // Waits for another request with this form: only its end tells whether it takes effect.
  await sql`select pg_advisory_xact_lock(hashtextextended(${lockName(customerId, key)}, 0))`;
  const earlier = await findSent(sql, customerId, form);
  if (earlier) return earlier;
  // Nothing but hashes is stored: the answer to the form can contain an API key, its fields a password. The token salts them.
  const fingerprint = hashOf(JSON.stringify(form));
  await storeAnswer(sql, customerId, key, { fingerprint, status: 200, body: {}, change_id: null });
  return undefined;
}

type Sent = 'same' | 'other';

/** Returns `same` if this form took effect before, and `other` if a form with this token but other fields did. */
export async function findSent(sql: Queryable, customerId: string, form: SentForm): Promise<Sent | undefined> {
  const found = await findIdempotencyRecord(sql, customerId, keyOf(form));
  return found && (found.fingerprint.equals(hashOf(JSON.stringify(form))) ? 'same' : 'other');
}

interface SentForm {
  token: string;
  fields: object;
}

const hashOf = (text: string): Buffer => createHash('sha256').update(text).digest();

// Stored beside the keys of the header Idempotency-Key, which cannot contain this character.
const keyOf = ({ token }: SentForm): string => `form·${hashOf(token).toString('base64url')}`;
