import { createHash } from 'node:crypto';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import fp from 'fastify-plugin';
import type { Database, Sql, Transaction } from '../database/db.ts';
import { conflict, DomainError, validationFailed } from '../errors.ts';
import { findIdempotencyRecord, storeAnswer, lockIdempotencyKey, type StoredAnswer } from '../queries/idempotency.ts';

/**
 * The part of a request that writes to the database. Runs in one transaction and returns the response.
 * @param prepared the value that the request's `Preparation` returned
 */
export type Effect<T> = (sql: Transaction, prepared: T) => Promise<StoredAnswer>;

/**
 * Work that a request does before its transaction, such as a search. Its result is passed to the function that writes.
 */
export type Preparation<T> = () => Promise<T>;

declare module 'fastify' {
  interface FastifyInstance {
    /**
     * Runs the writes of a request at most once per `Idempotency-Key`, and sends the response. A retry with the same
     * key gets the stored response. Without this header, the writes always run.
     *
     * A route that uses this must declare `idempotent: true`.
     * @param effect the writes; returns the response
     * @param prepare work to do before the transaction; not called if there is a stored response
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
    /** Whether the route supports the request header `Idempotency-Key`. */
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
 * Returns a hash of a request's method, its path and the bytes of its body. An idempotency key may be used again only
 * for a request with the same hash.
 */
const fingerprintOf = (request: FastifyRequest): Buffer =>
  createHash('sha256').update(`${request.method} ${request.url}\n`).update(request.bodyBytes).digest();

/** An idempotency key, and the fingerprint (hash) of the request that it came with. */
interface Use {
  key: string;
  fingerprint: Buffer;
}

/** The response to a request, and whether it was stored by an earlier request (`replayed`). */
interface Outcome {
  answer: StoredAnswer;
  replayed: boolean;
}

/** Handles a request without an idempotency key: runs its preparation, if any, and then its writes in a transaction. */
async function run<T>(db: Database, effect: Effect<T>, prepare?: Preparation<T>): Promise<StoredAnswer> {
  const prepared = (await prepare?.()) as T;
  return db.transaction((sql) => effect(sql, prepared));
}

/**
 * Handles a request with an idempotency key: returns the stored response, or runs the preparation and the writes if
 * none is stored.
 */
async function runWithKey<T>(
  db: Database,
  customerId: string,
  use: Use,
  effect: Effect<T>,
  prepare?: Preparation<T>,
): Promise<Outcome> {
  // Looked up before the preparation, which can take long.
  const stored = prepare && (await db.lookup((sql) => findKept(sql, customerId, use)));
  if (stored) return stored;
  const prepared = (await prepare?.()) as T;
  return db.transaction((sql) => runOnce(sql, customerId, use, (within) => effect(within, prepared)));
}

/**
 * Runs a request's writes and stores the response under its idempotency key. If a response is stored already, returns
 * it and writes nothing.
 * @throws idempotency_mismatch when the key was used for another request
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
 * Returns the response that is stored under an idempotency key, or undefined if there is none.
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
