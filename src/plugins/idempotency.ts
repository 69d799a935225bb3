import { createHash } from 'node:crypto';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { plugin } from './plugin.ts';
import type { Queryable, Transaction } from '../database/db.ts';
import { conflict, DomainError, validationFailed } from '../errors.ts';
import { decide, storeApprovedAnswer } from '../queries/accounts/approvals.ts';
import { requestApprovalIfNeeded, type SizeNow } from './approvals.ts';
import { findIdempotencyRecord, storeAnswer, lockIdempotencyKey } from '../queries/records/idempotency.ts';
import { changeOf } from '../queries/records/journal.ts';
import type { StoredAnswer } from '../queries/records/idempotency.ts';

declare module 'fastify' {
  interface FastifyInstance {
    /**
     * Runs the database writes of a request, and sends the response with the status of `reply`. With the header
     * `Idempotency-Key`, the writes run at most once: a retry with the same key gets the stored response. The route
     * must declare `idempotent: true`.
     * @param effect writes to the database, in one transaction, and returns the body of the response
     * @param before `prepare` runs before the transaction, for work such as a search, and passes its result to
     * `effect`. `size` returns the cost and the number of records of the call. If the key needs an approval for a call
     * of this size, the call is stored and gets 202.
     * @throws DomainError `idempotency_mismatch` if the key was used for a different request
     * @throws DomainError `conflict` if the first request with the key is still running
     */
    once<T = undefined>(
      request: FastifyRequest,
      reply: FastifyReply,
      effect: (sql: Transaction, prepared: T) => Promise<object>,
      before?: { prepare?: () => Promise<T>; size?: ((sql: Transaction, prepared: T) => SizeNow) | undefined },
    ): Promise<FastifyReply>;
  }
  interface FastifyContextConfig {
    idempotent?: true;
    mayNeedApproval?: true;
  }
}

export default plugin({ name: 'idempotency', dependencies: ['requester', 'json-body'] }, async (app) => {
  app.decorate('once', async (request, reply, effect, { prepare, size } = {}) => {
    const { customerId } = request.caller;
    const key = idempotencyKey(request);
    const use = key === undefined ? undefined : { key, fingerprint: fingerprintOf(request) };
    // Looked up before the preparation, which can take long.
    const early = use && prepare && (await request.db.lookup((sql) => findStored(sql, customerId, use)));
    if (early) return replay(reply, early);
    const prepared = (await prepare?.()) as never;
    const run = async (sql: Transaction) => {
      const { caller } = request;
      const approved = caller.kind === 'key' ? caller.approved : undefined;
      if (approved) await decide(sql, approved, 'approved');
      const waits = size && (await requestApprovalIfNeeded(sql, request, reply, () => size(sql, prepared)));
      const body = waits ?? (await effect(sql, prepared));
      if (approved) await storeApprovedAnswer(sql, approved, body);
      return body;
    };
    if (!use) return reply.send(await request.db.transaction(run));
    const { stored, body } = await request.db.transaction((sql) => runOnce(sql, customerId, use, reply, run));
    return stored ? replay(reply, stored) : reply.send(body);
  });
});

function replay(reply: FastifyReply, { status, body, change_id }: StoredAnswer): FastifyReply {
  if (change_id !== null) void reply.header('x-change-id', change_id);
  return reply.code(status).header('idempotency-replayed', 'true').send(body);
}

function idempotencyKey(request: FastifyRequest): string | undefined {
  const header = request.headers['idempotency-key'];
  if (header === undefined) return undefined;
  if (typeof header === 'string' && /^[\x20-\x7e]{1,255}$/.test(header)) return header;
  throw validationFailed([
    { path: '', message: 'the header Idempotency-Key must be 1 to 255 printable ASCII characters' },
  ]);
}

const fingerprintOf = (request: FastifyRequest): Buffer =>
  createHash('sha256').update(`${request.method} ${request.url}\n`).update(request.bodyBytes).digest();

interface Use {
  key: string;
  fingerprint: Buffer;
}

async function runOnce(
  sql: Transaction,
  customerId: string,
  use: Use,
  reply: FastifyReply,
  run: (sql: Transaction) => Promise<object>,
): Promise<{ stored?: StoredAnswer; body?: object }> {
  if (!(await lockIdempotencyKey(sql, customerId, use.key)))
    throw conflict('A request with this Idempotency-Key is still running');
  const stored = await findStored(sql, customerId, use);
  if (stored) return { stored };
  const body = await run(sql);
  const { key, fingerprint } = use;
  const change_id = changeOf(sql) ?? null;
  await storeAnswer(sql, customerId, key, { status: reply.statusCode, body, fingerprint, change_id });
  return { body };
}

async function findStored(
  sql: Queryable,
  customerId: string,
  { key, fingerprint }: Use,
): Promise<StoredAnswer | undefined> {
  const stored = await findIdempotencyRecord(sql, customerId, key);
  if (stored && !stored.fingerprint.equals(fingerprint))
    throw new DomainError(
      'idempotency_mismatch',
      'This Idempotency-Key was used for another request: use a new key, or send the same method, path and body',
    );
  return stored;
}
