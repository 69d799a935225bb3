import { createHash } from 'node:crypto';
import type { Transaction } from '../../database/db.ts';
import { findIdempotencyRecord, lockIdempotencyKey, storeAnswer } from './idempotency.ts';

/**
 * Records that a web form was submitted, so that the form takes effect at most once. Call it in the transaction that
 * carries out the action of the form.
 * @param token text that no other form has
 * @returns false if the form was submitted before, or if another request is processing it now
 */
export async function markSent(sql: Transaction, customerId: string, token: string): Promise<boolean> {
  const hash = createHash('sha256').update(token).digest();
  // Stored beside the keys of the header Idempotency-Key, which cannot contain this character. Nothing but the hash is
  // stored: the answer to the form can contain an API key.
  const key = `form·${hash.toString('base64url')}`;
  if (!(await lockIdempotencyKey(sql, customerId, key))) return false;
  if (await findIdempotencyRecord(sql, customerId, key)) return false;
  await storeAnswer(sql, customerId, key, { fingerprint: hash, status: 200, body: {} });
  return true;
}
