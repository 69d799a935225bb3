import { once } from 'node:events';
import { connect, type AddressInfo } from 'node:net';
import type { FastifyInstance } from 'fastify';
import { parseList } from 'structured-headers';
import { onTestFinished } from 'vitest';
import type { Answer } from './factories.ts';

/**
 * Reads the rate limit headers of a response, by policy: allowed requests, window (seconds), remaining requests,
 * seconds until the reset.
 */
export function limitsOf({ headers }: Answer): Record<string, { q: number; w: number; r: number; t: number }> {
  const found: Record<string, object> = {};
  for (const name of ['ratelimit-policy', 'ratelimit'])
    for (const [policy, parameters] of parseList(String(headers[name] ?? '')))
      found[policy as string] = { ...found[policy as string], ...Object.fromEntries(parameters) };
  return found as Record<string, { q: number; w: number; r: number; t: number }>;
}

/** Returns the remaining requests of each policy. */
export const leftOf = (answer: Answer): Record<string, number> =>
  Object.fromEntries(Object.entries(limitsOf(answer)).map(([policy, { r }]) => [policy, r]));

/** Sends requests one after the other, and counts the responses by status. */
export async function inTurn(times: number, call: () => Promise<Answer>): Promise<Record<number, number>> {
  const statuses: number[] = [];
  for (let i = 0; i < times; i += 1) statuses.push((await call()).status);
  return tally(statuses);
}

/** Sends requests concurrently, and counts the responses by status. */
export const atOnce = async (times: number, call: () => Promise<Answer>): Promise<Record<number, number>> =>
  tally((await Promise.all(Array.from({ length: times }, call))).map(({ status }) => status));

const tally = (statuses: number[]): Record<number, number> =>
  Object.fromEntries([...Map.groupBy(statuses, (status) => status)].map(([status, { length }]) => [status, length]));

let addresses = 0;

/** Returns an unused address, to be sent as `x-forwarded-for` to an app that trusts the proxy 127.0.0.1. */
export function freshAddress(): string {
  addresses += 1;
  return `198.51.${addresses >> 8}.${addresses & 255}`;
}

/** Sends the first byte of a POST of 1 MiB, and returns the first line of the response. */
export async function firstLine(app: FastifyInstance, path: string, headers: Record<string, string>): Promise<string> {
  if (!app.server.listening) await app.listen({ host: '127.0.0.1', port: 0 });
  const socket = connect((app.server.address() as AddressInfo).port, '127.0.0.1');
  onTestFinished(() => void socket.destroy());
  const body = { 'content-type': 'application/json', 'content-length': '1048576' };
  const lines = Object.entries({ host: 'x', ...body, ...headers }).map((line) => line.join(': '));
  socket.write(`POST ${path} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n{`);
  const [data] = (await once(socket, 'data')) as [Buffer];
  return data.toString().split('\r\n', 1)[0]!;
}
