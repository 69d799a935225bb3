import { createHash } from 'node:crypto';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import fp from 'fastify-plugin';
import type { Database, Sql, Transaction } from '../db.ts';
import { conflict, DomainError, validationFailed } from '../errors.ts';
import { findIdempotencyRecord, keepAnswer, takeIdempotencyKey, type KeptAnswer } from '../queries/idempotency.ts';

/** The effect of a request and its answer, in one transaction; with what was prepared for it. */
export type Effect<T> = (sql: Transaction, prepared: T) => Promise<KeptAnswer>;

/** What has to be known before the effect, and must not be asked for while a transaction is open. */
export type Preparation<T> = () => Promise<T>;

declare module 'fastify' {
  interface FastifyInstance {
    /**
     * Runs an effect once per `Idempotency-Key`, whatever happens: the answer is kept in the transaction of the effect and
     * given again to a retry. Without the header it just runs. Routes that use it declare `idempotent: true`.
     * @param prepare runs before the effect, outside its transaction, and not for a retry that gets the kept answer
     * @throws idempotency_mismatch when the key was used for another request, conflict while its first request still runs
     */
    once<T = undefined>(
      request: FastifyRequest,
      reply: FastifyReply,
      effect: Effect<T>,
      prepare?: Preparation<T>,
    ): Promise<FastifyReply>;
  }
  interface FastifyContextConfig {
    /** Whether the route honours `Idempotency-Key`. */
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

/** Which request a key is used for. */
interface Use {
  key: string;
  fingerprint: Buffer;
}

interface Outcome {
  answer: KeptAnswer;
  replayed: boolean;
}

async function run<T>(db: Database, effect: Effect<T>, prepare?: Preparation<T>): Promise<KeptAnswer> {
  const prepared = (await prepare?.()) as T;
  return db.transaction((sql) => effect(sql, prepared));
}

/** What is prepared at length is worth a look first, whether it is needed. */
async function runWithKey<T>(
  db: Database,
  customerId: string,
  use: Use,
  effect: Effect<T>,
  prepare?: Preparation<T>,
): Promise<Outcome> {
  const kept = prepare && (await db.lookup((sql) => findKept(sql, customerId, use)));
  if (kept) return kept;
  const prepared = (await prepare?.()) as T;
  return db.transaction((sql) => runOnce(sql, customerId, use, (within) => effect(within, prepared)));
}

async function runOnce(
  sql: Transaction,
  customerId: string,
  use: Use,
  effect: (sql: Transaction) => Promise<KeptAnswer>,
): Promise<Outcome> {
  const { key, fingerprint } = use;
  if (!(await takeIdempotencyKey(sql, customerId, key)))
    throw conflict('A request with this Idempotency-Key is still running');
  const kept = await findKept(sql, customerId, use);
  if (kept) return kept;
  const answer = await effect(sql);
  await keepAnswer(sql, customerId, key, { ...answer, fingerprint });
  return { answer, replayed: false };
}

/** The answer that was given under the key before. */
async function findKept(
  sql: Sql | Transaction,
  customerId: string,
  { key, fingerprint }: Use,
): Promise<Outcome | undefined> {
  const kept = await findIdempotencyRecord(sql, customerId, key);
  if (!kept) return undefined;
  if (!kept.fingerprint.equals(fingerprint))
    throw new DomainError('idempotency_mismatch', 'This Idempotency-Key was used for another request');
  return { answer: { status: kept.status, body: kept.body }, replayed: true };
}
