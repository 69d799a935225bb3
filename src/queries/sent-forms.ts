import { createHash } from 'node:crypto';
import type { Transaction } from '../database/db.ts';
import { findIdempotencyRecord, lockIdempotencyKey, storeAnswer } from './idempotency.ts';

/**
 * Notes that a form was sent, in the transaction that does what the form asks for. So a form has its effect at most once.
 * @param token text that no other form has
 * @returns false if the form was sent before, or is being handled now
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
