import { AsyncLocalStorage } from 'node:async_hooks';
import type { OutgoingHttpHeaders } from 'node:http';
import type { FastifyRequest, InjectOptions } from 'fastify';
import type { ApprovedCall } from '../schemas/base/approvals.ts';

const inside = new AsyncLocalStorage<{ approved?: ApprovedCall }>();

export interface InsideAnswer {
  status: number;
  headers: OutgoingHttpHeaders;
  body: unknown;
}

/**
 * Sends a request to a route of this service, inside the process, for `request` and with its API key. All that holds for
 * a request from outside holds for it, but it does not count toward the rate limit `default`, because `request` has.
 */
export function callInside(request: FastifyRequest, { headers, ...options }: InjectOptions): Promise<InsideAnswer> {
  const [, key = ''] = /^\S+ +(\S+)$/.exec(request.headers.authorization ?? '') ?? [];
  return send(request, { ...options, headers: { ...headers, authorization: `X-API-Key ${key}` } }, {});
}

/** The same for a call that the admin who sends `request` has approved, with the key that sent it first. */
export const callApproved = (request: FastifyRequest, approved: ApprovedCall): Promise<InsideAnswer> =>
  send(
    request,
    { method: 'POST', url: approved.url, payload: approved.body, headers: { 'content-type': 'application/json' } },
    { approved },
  );

async function send(
  { server, headers, address, requester }: FastifyRequest,
  { headers: more, ...options }: InjectOptions,
  as: { approved?: ApprovedCall },
): Promise<InsideAnswer> {
  // `inject` sends the request when it is awaited, so it is awaited inside.
  const answer = await inside.run(as, async () => {
    const sent = await server.inject({
      ...options,
      remoteAddress: address,
      signal: requester.signal!,
      headers: { ...more, host: headers.host },
    });
    return sent;
  });
  return { status: answer.statusCode, headers: answer.headers, body: JSON.parse(answer.body || 'null') };
}

/** True for a request that the service itself sends for one that it has received. */
export const isInside = (): boolean => inside.getStore() !== undefined;

/** The approved call that this request is. */
export const approvedCall = (): ApprovedCall | undefined => inside.getStore()?.approved;
