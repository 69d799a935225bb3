import { randomInt, randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { sendTo, type HttpAnswer } from '../setup/over-http.ts';

/** The servers of the service. A server that is down has no URL. */
export type Servers = readonly { url: string | undefined }[];

export const pick = <T>(items: readonly T[]): T => items[randomInt(items.length)]!;
export const chance = (percent: number): boolean => randomInt(100) < percent;

/** A list with each name as often as its frequency says. */
export const byFrequency = <T extends string>(frequencies: Record<T, number>): T[] =>
  (Object.keys(frequencies) as T[]).flatMap((name) => Array<T>(frequencies[name]).fill(name));

/** Sends requests to random servers, each with one of the keys. A server may die before it answers. */
export class Client {
  readonly #servers: Servers;
  readonly #keys: readonly string[];

  constructor(servers: Servers, keys: readonly string[]) {
    this.#servers = servers;
    this.#keys = keys;
  }

  /**
   * Repeats a request with one Idempotency-Key until its outcome is known.
   * @throws Error if the status is neither 2xx nor one of `accepted`
   */
  async insist(
    method: string,
    path: string,
    body?: unknown,
    { accepted = [], key = randomUUID() }: { accepted?: number[]; key?: string } = {},
  ): Promise<HttpAnswer> {
    for (;;) {
      const answer = await this.#send(method, path, body, key);
      // The first request with the key, or as many imports as a customer may have: this 409 is not the one that is accepted.
      const mustWait = answer?.status === 409 && /running|under way|wait for their/.test(String(answer.body.message));
      if (answer && !mustWait && (answer.status < 300 || accepted.includes(answer.status))) return answer;
      // 408: a busy machine was too slow to send the body.
      if (answer && ![408, 503].includes(answer.status) && !mustWait)
        throw new Error(`${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
      await sleep(randomInt(20, 150));
    }
  }

  async #send(method: string, path: string, body: unknown, key: string): Promise<HttpAnswer | undefined> {
    const { url } = pick(this.#servers);
    if (!url) return undefined;
    // Sometimes the server dies between its commit and its response.
    const dying = randomInt(1_000) < 5 && method !== 'GET' ? { 'x-die-before-answer': '1' } : {};
    const headers = { 'idempotency-key': key, ...dying };
    return sendTo({ url, key: pick(this.#keys) }, method, path, body, headers).catch(() => undefined);
  }
}
