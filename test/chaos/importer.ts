import { randomInt, randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import type { Client, Journal, Servers } from './clients.ts';

/** A response, or undefined if there was none. */
type Answer = { status: number; body: { status?: string; code?: string; data?: { id: string } } } | undefined;

/** An address that makes its record fail. */
const bad = 'no address';

/**
 * A client that imports files of new contacts, one after another. Each file has its tag in the name of the import and in
 * the addresses of its contacts, so that the audit can count them.
 */
export class Importer {
  readonly #client: Client;
  readonly #servers: Servers;
  readonly #journal: Journal;

  constructor(client: Client, { servers, journal }: { servers: Servers; journal: Journal }) {
    this.#client = client;
    this.#servers = servers;
    this.#journal = journal;
  }

  /** Imports files until `stopping` is aborted. Sometimes cancels an import. */
  async work(stopping: AbortSignal): Promise<void> {
    while (!stopping.aborted) {
      const tag = randomUUID();
      const id = await this.#begin(tag, stopping);
      if (id === undefined) return;
      const isSent = await this.#send(id, fileOf(tag, randomInt(1, 4_000)), stopping);
      if (isSent) this.#journal.imports += 1;
      if (randomInt(5) === 0) await this.#call('POST', `/imports/${id}/cancel`);
      await this.#waitForEnd(id, stopping);
    }
  }

  async #begin(name: string, stopping: AbortSignal): Promise<string | undefined> {
    const body = JSON.stringify({ object: 'contacts', mode: 'create', format: 'csv', invalid_values: 'fail', name });
    const headers = { 'content-type': 'application/json', 'idempotency-key': name };
    const answer = await this.#insist(stopping, () => this.#call('POST', '/imports', { body, headers }));
    return answer?.status === 201 ? answer.body.data!.id : undefined;
  }

  /** Sends a file until it has arrived. A conflict means that it has: the response to an earlier attempt was lost. */
  async #send(id: string, file: string, stopping: AbortSignal): Promise<boolean> {
    const isPacked = randomInt(2) === 0;
    const body = isPacked ? gzipSync(file) : file;
    const headers = { 'content-type': 'text/csv', ...(isPacked ? { 'content-encoding': 'gzip' } : {}) };
    const send = () => this.#call('PUT', `/imports/${id}/file`, { body, headers });
    const answer = await this.#insist(stopping, send);
    return answer !== undefined && (answer.status === 200 || answer.status === 409);
  }

  async #waitForEnd(id: string, stopping: AbortSignal): Promise<void> {
    while (!stopping.aborted) {
      const found = await this.#call('GET', `/imports/${id}`);
      if (['COMPLETED', 'FAILED', 'CANCELLED'].includes(found?.body.status ?? '')) return;
      await sleep(randomInt(50, 200));
    }
  }

  /** Repeats a call until it has a final response, for a while also after the end of the test. */
  async #insist(stopping: AbortSignal, call: () => Promise<Answer>): Promise<Answer> {
    for (let patience = 100; patience > 0; patience -= stopping.aborted ? 1 : 0) {
      const answer = await call();
      if (answer && answer.status !== 503) return answer;
      await sleep(randomInt(20, 150));
    }
    return undefined;
  }

  async #call(
    method: string,
    path: string,
    { body, headers = {} }: { body?: string | Buffer; headers?: Record<string, string> } = {},
  ): Promise<Answer> {
    const { url } = this.#servers[randomInt(this.#servers.length)]!;
    if (!url) return undefined;
    try {
      const answer = await fetch(`${url}/api/ext${path}`, {
        method,
        headers: { authorization: `X-API-Key ${this.#client.key}`, ...headers },
        ...(body === undefined ? {} : { body: body as string }),
        signal: AbortSignal.timeout(30_000),
      });
      const json = (await answer.json()) as NonNullable<Answer>['body'];
      if (![200, 201, 409, 503].includes(answer.status))
        this.#journal.surprises.push(`${method} ${path}: ${answer.status} ${JSON.stringify(json)}`);
      return { status: answer.status, body: json };
    } catch {
      return undefined;
    }
  }
}

/** Returns a CSV file of contacts. About one in a hundred is not valid. */
function fileOf(tag: string, lines: number): string {
  const addresses = Array.from({ length: lines }, (_, i) => (i % 97 === 5 ? bad : `line${i}@${tag}.example`));
  return ['first_name,last_name,work_email', ...addresses.map((address, i) => `Ada,No ${i},${address}`)].join('\n');
}
