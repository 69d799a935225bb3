import { createHash } from 'node:crypto';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import fp from 'fastify-plugin';
import type { Database, Sql, Transaction } from '../database/db.ts';
import { conflict, DomainError, validationFailed } from '../errors.ts';
import { findIdempotencyRecord, storeAnswer, lockIdempotencyKey, type StoredAnswer } from '../queries/idempotency.ts';

/**
 * Performs a request's writes and returns its response, all in one transaction.
 * @param prepared what the request's `Preparation` returned
 */
export type Effect<T> = (sql: Transaction, prepared: T) => Promise<StoredAnswer>;

/** Work that must finish before the effect and must not run inside its transaction, such as a search. */
export type Preparation<T> = () => Promise<T>;

declare module 'fastify' {
  interface FastifyInstance {
    /**
     * Runs an effect at most once per `Idempotency-Key`. The response is stored in the transaction of the effect, and a
     * retry gets the stored response. Without the header, the effect just runs. Routes that use this declare
     * `idempotent: true`.
     * @param prepare runs before the effect, outside its transaction; not for a retry that gets the stored response
     * @throws idempotency_mismatch when the key was used for another request
     * @throws conflict while the first request with the key is still running
     */
    once<T = undefined>(
      request: FastifyRequest,
      reply: FastifyReply,
      effect: Effect<T>,
      prepare?: Preparation<T>,
    ): Promise<FastifyReply>;
  }
  interface FastifyContextConfig {
    /** Whether the route supports `Idempotency-Key`. */
    idempotent?: true;
  }
}

export default fp(
  async (app) => {
    const once: FastifyInstance['once'] = async (request, reply, effect, prepare) => {
      const key = idempotencyKey(request);
      if (key === undefined) return send(reply, await run(request.db, effect, prepare));
      const use = { key, fingerprint: fingerprintOf(request) };
      const { answer, replayed } = await runWithKey(request.db, request.caller.customerId, use, effect, prepare);
      if (replayed) void reply.header('idempotency-replayed', 'true');
      return send(reply, answer);
    };
    app.decorate('once', once);
  },
  { name: 'idempotency', dependencies: ['requester', 'json-body'] },
);

const send = (reply: FastifyReply, { status, body }: StoredAnswer): FastifyReply => reply.code(status).send(body);

function idempotencyKey(request: FastifyRequest): string | undefined {
  const header = request.headers['idempotency-key'];
  if (header === undefined) return undefined;
  if (typeof header === 'string' && /^[\x20-\x7e]{1,255}$/.test(header)) return header;
  throw validationFailed([
    { path: '', message: 'the header Idempotency-Key must be 1 to 255 printable ASCII characters' },
  ]);
}

/**
 * Returns the fingerprint of a request: the hash of its method, its path with ids, and the bytes of its body. A key is
 * valid for requests with the same fingerprint only.
 */
const fingerprintOf = (request: FastifyRequest): Buffer =>
  createHash('sha256').update(`${request.method} ${request.url}\n`).update(request.bodyBytes).digest();

/** An idempotency key and the fingerprint of the request that it came with. */
interface Use {
  key: string;
  fingerprint: Buffer;
}

/** The response to a request, and whether it is the stored response to an earlier one. */
interface Outcome {
  answer: StoredAnswer;
  replayed: boolean;
}

/** Runs a preparation, then its effect in a transaction. */
async function run<T>(db: Database, effect: Effect<T>, prepare?: Preparation<T>): Promise<StoredAnswer> {
  const prepared = (await prepare?.()) as T;
  return db.transaction((sql) => effect(sql, prepared));
}

/**
 * Runs an effect under an idempotency key. If there is a preparation, looks for a stored response first: preparing can
 * take long and may not be needed.
 */
async function runWithKey<T>(
  db: Database,
  customerId: string,
  use: Use,
  effect: Effect<T>,
  prepare?: Preparation<T>,
): Promise<Outcome> {
  const stored = prepare && (await db.lookup((sql) => findKept(sql, customerId, use)));
  if (stored) return stored;
  const prepared = (await prepare?.()) as T;
  return db.transaction((sql) => runOnce(sql, customerId, use, (within) => effect(within, prepared)));
}

/**
 * Runs an effect and stores its response, unless the key already has one.
 * @throws conflict while another request with the key is running
 */
async function runOnce(
  sql: Transaction,
  customerId: string,
  use: Use,
  effect: (sql: Transaction) => Promise<StoredAnswer>,
): Promise<Outcome> {
  const { key, fingerprint } = use;
  if (!(await lockIdempotencyKey(sql, customerId, key)))
    throw conflict('A request with this Idempotency-Key is still running');
  const stored = await findKept(sql, customerId, use);
  if (stored) return stored;
  const answer = await effect(sql);
  await storeAnswer(sql, customerId, key, { ...answer, fingerprint });
  return { answer, replayed: false };
}

/**
 * Returns the response that was stored under the key, or undefined.
 * @throws idempotency_mismatch when the key was used for another request
 */
async function findKept(
  sql: Sql | Transaction,
  customerId: string,
  { key, fingerprint }: Use,
): Promise<Outcome | undefined> {
  const stored = await findIdempotencyRecord(sql, customerId, key);
  if (!stored) return undefined;
  if (!stored.fingerprint.equals(fingerprint))
    throw new DomainError('idempotency_mismatch', 'This Idempotency-Key was used for another request');
  return { answer: { status: stored.status, body: stored.body }, replayed: true };
}
