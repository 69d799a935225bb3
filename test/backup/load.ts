import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { contactBody } from '../setup/factories.ts';
import { sendTo, type HttpAnswer } from '../setup/over-http.ts';

/** A request that the service has answered with 2xx. */
export interface Acknowledged {
  path: string;
  body: object;
  /** Its Idempotency-Key. */
  key: string;
  status: number;
  /** Id of the created contact or of the started job. */
  id: string;
  /** Time at which the request was sent, as `performance.now()`. */
  sentAt: number;
}

interface Reply {
  pagination?: { total_records: number };
  id?: string;
  data?: { id: string };
}

/** Pause of each client between two requests (ms), so that what is backed up and restored gets processor time. */
const pauseMs = 25;

/** Clients that create contacts and start unlock jobs, one request after another, until `stop` is called. */
export class Load {
  readonly #url: string;
  readonly #apiKey: string;
  readonly #clients: Promise<void>[];
  readonly #stopping = new AbortController();
  /** Every acknowledged request, in the order of the answers. */
  readonly acknowledged: Acknowledged[] = [];
  /** Answers other than 2xx and 503. */
  readonly surprises: string[] = [];

  constructor(url: string, apiKey: string, clients: number) {
    this.#url = url;
    this.#apiKey = apiKey;
    this.#clients = Array.from({ length: clients }, () => this.#work());
  }

  async #work(): Promise<void> {
    for (let turn = 0; !this.#stopping.signal.aborted; turn += 1) {
      const { path, body } = turn % 20 === 19 ? unlock : createContact();
      const key = randomUUID();
      const sentAt = performance.now();
      const { status, reply } = await this.send(path, body, key);
      const id = reply.data?.id ?? reply.id;
      if (status < 300 && id !== undefined) this.acknowledged.push({ path, body, key, status, id, sentAt });
      // While the worker is frozen, a start may wait too long for a lock.
      else if (status !== 503) this.surprises.push(`${status} ${JSON.stringify(reply)}`);
      await sleep(pauseMs);
    }
  }

  #post(url: string, path: string, body: object, headers?: Record<string, string>): Promise<HttpAnswer> {
    return sendTo({ url, key: this.#apiKey }, 'POST', path, body, headers);
  }

  /** Sends one request with an Idempotency-Key to the service at `url`. */
  async send(
    path: string,
    body: object,
    key: string,
    url = this.#url,
  ): Promise<{ status: number; reply: Reply; isReplayed: boolean }> {
    const { status, headers, body: reply } = await this.#post(url, path, body, { 'idempotency-key': key });
    return { status, reply, isReplayed: headers.get('idempotency-replayed') === 'true' };
  }

  /** Reads the feed from a cursor to its end. Returns the created contacts, in order, and the cursor behind them. */
  async follow(cursor?: string, url = this.#url): Promise<{ status: number; ids: string[]; cursor: string }> {
    const ids: string[] = [];
    for (let at = cursor; ;) {
      const asked = { types: ['contact.created'], paginate: { limit: 100, ...(at ? { cursor: at } : {}) } };
      const { status, headers, body } = await this.#post(url, '/events/list', asked);
      if (status !== 200) return { status, ids, cursor: '' };
      ids.push(...(body as { data: { id: string } }[]).map(({ data }) => data.id));
      at = headers.get('x-next-cursor')!;
      if (headers.get('x-more') !== 'true') return { status, ids, cursor: at };
    }
  }

  /** Returns when `count` more requests are acknowledged. */
  async more(count: number): Promise<void> {
    const enough = this.acknowledged.length + count;
    while (this.acknowledged.length < enough) {
      if (this.surprises.length > 0) throw new Error(this.surprises[0]);
      await sleep(10);
    }
  }

  /** Ends after the requests in flight. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await Promise.all(this.#clients);
  }
}

const createContact = () => ({
  path: '/contacts',
  body: contactBody({ work_email: `${randomUUID()}@example.com`, company: { name: 'Analytical Engines' } }),
});
const unlock = {
  path: '/service-handler/unlock-contacts',
  body: { filters: {}, total_records: 5, sync_crm: true },
};
