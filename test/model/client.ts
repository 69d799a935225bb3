import { setTimeout as sleep } from 'node:timers/promises';
import type { Random } from '../../src/commands/generate-people.ts';

/** A response. Tests read any field of the body. */
export interface Answer {
  status: number;
  headers: Headers;
  body: any; // eslint-disable-line typescript/no-explicit-any
}

/** What all clients did, for the output and the final checks. */
export interface Journal {
  requests: number;
  unavailable: string[];
}

/** Where requests are sent: the URL of a process, undefined while it does not serve. */
export interface Server {
  readonly url: string | undefined;
}

/** Thrown if the service did something else than the model. */
export class Difference extends Error {}

/** How long a request is repeated while the service is unavailable (milliseconds). */
const patience = 60_000;

/** Sends the requests of one caller to random servers. */
export class Client {
  readonly #key: string;
  readonly #servers: readonly Server[];
  readonly #random: Random;
  readonly #journal: Journal;

  constructor(
    key: string,
    { servers, random, journal }: { servers: readonly Server[]; random: Random; journal: Journal },
  ) {
    this.#key = key;
    this.#servers = servers;
    this.#random = random;
    this.#journal = journal;
  }

  /** Sends a request. Repeats it while the service is unavailable: nothing was written. */
  async send(method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<Answer> {
    const end = performance.now() + patience;
    for (;;) {
      const answer = await this.#sendOnce(method, path, body, headers);
      if (answer.status !== 503) return answer;
      this.#journal.unavailable.push(`${method} ${path}: ${JSON.stringify(answer.body)}`);
      if (performance.now() > end) throw new Difference(`${method} ${path}: ${answer.status} for ${patience} ms`);
      await sleep(100);
    }
  }

  /** Reads a file, if need be once the exports of other callers have ended. With a body, by a POST. */
  async text(path: string, body?: unknown): Promise<string> {
    const { url } = this.#random.pick(this.#servers);
    const end = performance.now() + patience;
    const headers = {
      authorization: `X-API-Key ${this.#key}`,
      'content-type': 'application/json',
      connection: 'close',
    };
    const request = body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) };
    for (;;) {
      const answer = await fetch(`${url}/api/ext${path}`, { headers, ...request });
      const text = await answer.text();
      if (answer.ok) return text;
      if (performance.now() > end) throw new Difference(`${path}: ${answer.status} ${text}`);
      await sleep(100);
    }
  }

  async #sendOnce(method: string, path: string, body: unknown, headers: Record<string, string>): Promise<Answer> {
    const { url } = this.#random.pick(this.#servers);
    const isFile = typeof body === 'string' || body instanceof Uint8Array;
    this.#journal.requests += 1;
    const answer = await fetch(`${url}/api/ext${path}`, {
      method,
      headers: {
        authorization: `X-API-Key ${this.#key}`,
        connection: 'close', // a busy machine may be late to see that an idle connection was closed
        'content-type': isFile ? 'text/plain' : 'application/json',
        ...headers,
      },
      ...(body === undefined ? {} : { body: isFile ? (body as string) : JSON.stringify(body) }),
      signal: AbortSignal.timeout(patience),
    });
    return { status: answer.status, headers: answer.headers, body: await answer.json() };
  }
}
