import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Transaction } from '../database/db.ts';
import { conflict, DomainError, unavailable } from '../errors.ts';
import { publicUrl } from '../process/config.ts';
import { createApproval, decide, requirePending } from '../queries/accounts/approvals.ts';
import type { ApproveOver, Size } from '../schemas/accounts.ts';
import { actorOf } from './auth.ts';
import { callApproved } from './requester.ts';

/** Cost of a call in credits, and the number of records that it writes. A missing number counts as zero. */
export type SizeNow = Promise<Partial<Size>> | Partial<Size>;

/**
 * Checks whether a call costs or writes so much that its API key needs an approval. If so, stores the call and returns
 * the body of the 202 response. Otherwise returns undefined, and the call may run.
 * @throws DomainError `conflict` if an approved call has become larger since it was sent
 */
export async function requestApprovalIfNeeded(
  sql: Transaction,
  { caller, url, bodyBytes, server }: FastifyRequest,
  reply: FastifyReply,
  sizeNow: () => SizeNow,
): Promise<object | undefined> {
  if (caller.kind !== 'key') return undefined;
  const { approveOver: over, approved } = caller;
  if (!approved && !Object.values(over).some((most) => most !== null)) return undefined;
  const size = { credits: 0, records: 0, ...(await sizeNow()) };
  if (approved) {
    if (!isOver(size, approved)) return undefined;
    throw conflict(
      `The call would cost ${size.credits} credits and write ${size.records} records by now: more than the ${approved.credits} and ${approved.records} that were asked for`,
    );
  }
  if (!isOver(size, over)) return undefined;
  const id = await createApproval(sql, caller.customerId, { ...size, apiKeyId: caller.keyId, url, body: bodyBytes });
  void reply.code(202);
  return { approval: { id, url: `${publicUrl(server.config)}/app/approvals/${id}` } };
}

const isOver = (size: Size, over: Partial<ApproveOver>): boolean =>
  size.credits > (over.credits ?? Infinity) || size.records > (over.records ?? Infinity);

/**
 * Runs a call that a user has approved, or stores that the user has refused it.
 * @throws DomainError `not_found`; `conflict` if the call no longer waits for a decision, or has failed
 */
export async function decideCall(request: FastifyRequest, id: string, isApproved: boolean): Promise<void> {
  const { customerId } = request.caller;
  const by = actorOf(request);
  if (!isApproved) return request.db.transaction((sql) => decide(sql, { customerId, id, by }, 'refused'));
  const call = await request.db.lookup((sql) => requirePending(sql, customerId, id));
  const { status, body } = await callApproved(request, { ...call, by });
  if (status < 400) return;
  const { message } = body as { message: string };
  if (status >= 500) throw unavailable(message);
  if (status === 429) throw new DomainError('rate_limited', message);
  throw conflict(status === 401 ? 'The key that sent the call is revoked or expired' : `The call failed: ${message}`);
}
