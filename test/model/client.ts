import { setTimeout as sleep } from 'node:timers/promises';
import type { Random } from '../../src/commands/generate-people.ts';
import { sendTo, type HttpAnswer } from '../setup/over-http.ts';

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

  /**
   * Sends a request. Repeats it while the service is unavailable, when nothing was written, or if need be until the exports of
   * other callers have ended.
   */
  async send(method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<HttpAnswer> {
    const end = performance.now() + patience;
    for (;;) {
      const { url } = this.#random.pick(this.#servers);
      this.#journal.requests += 1;
      const answer = await sendTo({ url, key: this.#key }, method, path, body, headers);
      // 408: a busy machine was too slow to send the body.
      if (![408, 429, 503].includes(answer.status)) return answer;
      if (answer.status === 503) this.#journal.unavailable.push(`${method} ${path}: ${JSON.stringify(answer.body)}`);
      if (performance.now() > end) throw new Difference(`${method} ${path}: ${answer.status} for ${patience} ms`);
      await sleep(100);
    }
  }

  /** Reads a file. With a body, by a POST. */
  async text(path: string, body?: unknown): Promise<string> {
    const answer = await this.send(body === undefined ? 'GET' : 'POST', path, body);
    if (answer.status !== 200) throw new Difference(`${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
    return answer.body;
  }
}
