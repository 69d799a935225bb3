import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import type { Random } from '../../src/commands/generate-people.ts';
import { chance } from './random-values.ts';

/** A response. Tests read any field of the body. */
export interface Answer {
  status: number;
  headers: Headers;
  body: any; // eslint-disable-line typescript/no-explicit-any
}

/** What all clients did, for the output and the final checks. */
export interface Journal {
  requests: number;
  repeats: number;
  suspended: number;
  unavailable: string[];
}

/** Where requests are sent: the URL of a process, undefined while it does not serve. */
export interface Server {
  readonly url: string | undefined;
}

/** Thrown if the service did something else than the model. */
export class Difference extends Error {}

/** How long a request is repeated while the customer is suspended, or the service is unavailable (milliseconds). */
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

  /** Sends a request. Repeats it while the customer is suspended or the service is unavailable: nothing was written. */
  async send(method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<Answer> {
    const end = performance.now() + patience;
    for (;;) {
      const answer = await this.#sendOnce(method, path, body, headers);
      if (answer.status === 401) this.#journal.suspended += 1;
      else if (answer.status === 503)
        this.#journal.unavailable.push(`${method} ${path}: ${JSON.stringify(answer.body)}`);
      else return answer;
      if (performance.now() > end) throw new Difference(`${method} ${path}: ${answer.status} for ${patience} ms`);
      await sleep(100);
    }
  }

  /** Reads a file. With a body, by a POST. Repeats it while the customer is suspended. */
  async text(path: string, body?: unknown): Promise<string> {
    const end = performance.now() + patience;
    for (;;) {
      const { url } = this.#random.pick(this.#servers);
      const headers = { authorization: `X-API-Key ${this.#key}`, 'content-type': 'application/json' };
      const request = body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) };
      const answer = await fetch(`${url}/api/ext${path}`, { headers, ...request });
      const text = await answer.text();
      if (answer.ok) return text;
      if (performance.now() > end) throw new Difference(`${path}: ${answer.status} ${text.slice(0, 1_000)}`);
      await sleep(100);
    }
  }

  /**
   * Sends a POST that takes an Idempotency-Key. Sometimes sends it again with the same key, before or after the first
   * has its response.
   */
  async create(path: string, body: unknown): Promise<Answer> {
    if (!chance(this.#random, 20)) return this.send('POST', path, body);
    const key = randomUUID();
    const send = () => this.send('POST', path, body, { 'idempotency-key': key });
    const first = chance(this.#random, 50) ? [await send()] : await Promise.all([send(), send()]);
    const answers = [...first, await send()];
    this.#journal.repeats += answers.length - 1;
    const done = answers.find(({ status }) => status < 300);
    // A response that is not 2xx is not kept: each of these requests is rejected anew.
    if (!done) return answers.at(-1)!;
    for (const answer of answers) {
      const isRunning = answer.status === 409 && answer !== answers.at(-1);
      if (!isRunning && !(answer.status === done.status && isDeepStrictEqual(answer.body, done.body)))
        throw new Difference(`Repeated POST ${path}: ${JSON.stringify(answers.map((one) => [one.status, one.body]))}`);
    }
    if (answers.at(-1)!.headers.get('idempotency-replayed') !== 'true')
      throw new Difference(`POST ${path} was not replayed: ${JSON.stringify(answers.map(({ status }) => status))}`);
    return done;
  }

  async #sendOnce(method: string, path: string, body: unknown, headers: Record<string, string>): Promise<Answer> {
    const { url } = this.#random.pick(this.#servers);
    const isFile = typeof body === 'string' || body instanceof Uint8Array;
    this.#journal.requests += 1;
    const answer = await fetch(`${url}/api/ext${path}`, {
      method,
      headers: {
        authorization: `X-API-Key ${this.#key}`,
        'content-type': isFile ? 'text/plain' : 'application/json',
        ...headers,
      },
      ...(body === undefined ? {} : { body: isFile ? (body as string) : JSON.stringify(body) }),
      signal: AbortSignal.timeout(patience),
    });
    return { status: answer.status, headers: answer.headers, body: await answer.json() };
  }
}
