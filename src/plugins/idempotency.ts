import { createHash } from 'node:crypto';
import type { FastifyReply, FastifyRequest } from 'fastify';
import fp from 'fastify-plugin';
import type { Transaction } from '../db.ts';
import { conflict, DomainError, validationFailed } from '../errors.ts';
import { findIdempotencyRecord, keepAnswer, takeIdempotencyKey, type KeptAnswer } from '../queries/idempotency.ts';

/** The effect of a request and its answer, in one transaction. */
export type Effect = (sql: Transaction) => Promise<KeptAnswer>;

declare module 'fastify' {
  interface FastifyInstance {
    /**
     * Runs an effect once per `Idempotency-Key`, whatever happens: the answer is kept in the transaction of the effect and
     * given again to a retry. Without the header it just runs. Routes that use it declare `idempotent: true`.
     * @throws idempotency_mismatch when the key was used for another request, conflict while its first request still runs
     */
    once(request: FastifyRequest, reply: FastifyReply, effect: Effect): Promise<FastifyReply>;
  }
  interface FastifyContextConfig {
    /** Whether the route honours `Idempotency-Key`. */
    idempotent?: true;
  }
}

export default fp(
  async (app) => {
    app.decorate('once', async (request: FastifyRequest, reply: FastifyReply, effect: Effect) => {
      const key = idempotencyKey(request);
      if (key === undefined) return send(reply, await app.db.transaction(effect));
      const fingerprint = fingerprintOf(request);
      const { answer, replayed } = await app.db.transaction((sql) =>
        runOnce(sql, request.caller.customerId, { key, fingerprint }, effect),
      );
      if (replayed) void reply.header('idempotency-replayed', 'true');
      return send(reply, answer);
    });
  },
  { name: 'idempotency', dependencies: ['services', 'json-body'] },
);

const send = (reply: FastifyReply, { status, body }: KeptAnswer): FastifyReply => reply.code(status).send(body);

function idempotencyKey(request: FastifyRequest): string | undefined {
  const header = request.headers['idempotency-key'];
  if (header === undefined) return undefined;
  if (typeof header === 'string' && /^[\x20-\x7e]{1,255}$/.test(header)) return header;
  throw validationFailed([
    { path: '', message: 'the header Idempotency-Key must be 1 to 255 printable ASCII characters' },
  ]);
}

/** The same key is for the same request only: method, path with its ids, and body to the byte. */
const fingerprintOf = (request: FastifyRequest): Buffer =>
  createHash('sha256').update(`${request.method} ${request.url}\n`).update(request.bodyBytes).digest();

async function runOnce(
  sql: Transaction,
  customerId: string,
  { key, fingerprint }: { key: string; fingerprint: Buffer },
  effect: Effect,
): Promise<{ answer: KeptAnswer; replayed: boolean }> {
  if (!(await takeIdempotencyKey(sql, customerId, key)))
    throw conflict('A request with this Idempotency-Key is still running');
  const kept = await findIdempotencyRecord(sql, customerId, key);
  if (kept && !kept.fingerprint.equals(fingerprint))
    throw new DomainError('idempotency_mismatch', 'This Idempotency-Key was used for another request');
  if (kept) return { answer: { status: kept.status, body: kept.body }, replayed: true };
  const answer = await effect(sql);
  await keepAnswer(sql, customerId, key, { ...answer, fingerprint });
  return { answer, replayed: false };
}
