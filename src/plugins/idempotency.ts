import { createHash } from 'node:crypto';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import fp from 'fastify-plugin';
import type { Database, Sql, Transaction } from '../database/db.ts';
import { conflict, DomainError, validationFailed } from '../errors.ts';
import {
  findIdempotencyRecord,
  storeAnswer,
  lockIdempotencyKey,
  type StoredAnswer,
} from '../queries/records/idempotency.ts';

/**
 * The function of a route that writes to the database. It runs in one transaction and returns the response.
 * @param prepared The value that the route's `Preparation` function returned.
 */
type Effect<T> = (sql: Transaction, prepared: T) => Promise<StoredAnswer>;

/**
 * A function of a route that runs before the transaction of the request, such as a search. Its result is passed to the
 * `Effect` function, which writes to the database.
 */
type Preparation<T> = () => Promise<T>;

declare module 'fastify' {
  interface FastifyInstance {
    /**
     * Runs the database writes of a request and sends the response. If the request has the header `Idempotency-Key`,
     * the writes run at most once for each key: a retry with the same key gets the stored response.
     *
     * A route that uses this function must declare `idempotent: true`.
     * @param effect Writes to the database and returns the response.
     * @param prepare Runs before the transaction. It is not called if a response is stored.
     * @throws DomainError `idempotency_mismatch` if the key was used for a different request.
     * @throws DomainError `conflict` if the first request with the key is still running.
     */
    once<T = undefined>(
      request: FastifyRequest,
      reply: FastifyReply,
      effect: Effect<T>,
      prepare?: Preparation<T>,
    ): Promise<FastifyReply>;
  }
  interface FastifyContextConfig {
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
 * Returns a hash of the method, the path and the body of a request. An `Idempotency-Key` may be used again only for a
 * request with the same hash.
 */
const fingerprintOf = (request: FastifyRequest): Buffer =>
  createHash('sha256').update(`${request.method} ${request.url}\n`).update(request.bodyBytes).digest();

interface Use {
  key: string;
  fingerprint: Buffer;
}

interface Outcome {
  answer: StoredAnswer;
  replayed: boolean;
}

/** Handles a request without an idempotency key: runs `prepare`, if given, and then runs `effect` in a transaction. */
async function run<T>(db: Database, effect: Effect<T>, prepare?: Preparation<T>): Promise<StoredAnswer> {
  const prepared = (await prepare?.()) as T;
  return db.transaction((sql) => effect(sql, prepared));
}

/**
 * Handles a request with an idempotency key. Returns the stored response for the key, if any. Otherwise runs `prepare`
 * and then runs `effect` in a transaction.
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
 * Runs the database writes of a request and stores the response under the idempotency key. If a response is already
 * stored, returns the stored response and writes nothing.
 * @throws DomainError `idempotency_mismatch` if the key was used for a different request.
 * @throws DomainError `conflict` if another request with the key is still running.
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
 * Returns the response that is stored under an idempotency key, or undefined if no response is stored.
 * @throws DomainError `idempotency_mismatch` if the key was used for a different request.
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
