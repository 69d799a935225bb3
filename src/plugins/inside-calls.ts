import { AsyncLocalStorage } from 'node:async_hooks';
import type { OutgoingHttpHeaders } from 'node:http';
import type { FastifyRequest, InjectOptions } from 'fastify';

const inside = new AsyncLocalStorage<true>();

export interface InsideAnswer {
  status: number;
  headers: OutgoingHttpHeaders;
  body: unknown;
}

/**
 * Sends a request to a route of this service, inside the process, for `request` and with its API key. All that holds for
 * a request from outside holds for it, but it does not count toward the rate limit `default`, because `request` has.
 */
export async function callInside(
  { server, headers, address, requester }: FastifyRequest,
  { headers: more, ...options }: InjectOptions,
): Promise<InsideAnswer> {
  const [, key = ''] = /^\S+ +(\S+)$/.exec(headers.authorization ?? '') ?? [];
  // `inject` sends the request when it is awaited, so it is awaited inside.
  const answer = await inside.run(true, async () => {
    const sent = await server.inject({
      ...options,
      remoteAddress: address,
      signal: requester.signal!,
      headers: { ...more, host: headers.host, authorization: `X-API-Key ${key}` },
    });
    return sent;
  });
  return { status: answer.statusCode, headers: answer.headers, body: JSON.parse(answer.body || 'null') };
}

/** True for a request that the service itself sends for one that it has received. */
export const isInside = (): boolean => inside.getStore() === true;
