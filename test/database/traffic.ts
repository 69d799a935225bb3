import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { contactBody } from '../setup/factories.ts';

/** A customer that sends requests, and the node that has its rows. */
export interface Tenant {
  id: string;
  key: string;
  node: string;
  prospects: readonly string[];
}

/** One request and its response. The status is 0 if there was no response. */
interface Sent {
  node: string;
  tenant: string;
  request: string;
  status: number;
  ms: number;
  body: string;
}

/** The requests of the customers of one node. */
interface NodeReport {
  served: number;
  /** The requests that got no success, as text. */
  failed: string[];
  statuses: number[];
  longestMs: number;
}

/** The requests that ended within a time span. */
export class Report {
  readonly #sent: readonly Sent[];

  constructor(sent: readonly Sent[]) {
    this.#sent = sent;
  }

  of(node: string): NodeReport {
    const sent = this.#sent.filter((one) => one.node === node);
    const failed = sent.filter(({ status }) => status === 0 || status >= 400);
    return {
      served: sent.length - failed.length,
      failed: failed.map(({ request, status, ms, body }) => `${request}: ${status} after ${Math.round(ms)} ms ${body}`),
      statuses: [...new Set(sent.map(({ status }) => status))].toSorted((a, b) => a - b),
      longestMs: Math.round(Math.max(0, ...sent.map(({ ms }) => ms))),
    };
  }

  /** The numbers of served and failed requests and the longest time, by node. */
  get summary(): object {
    const nodes = [...new Set(this.#sent.map(({ node }) => node))].toSorted();
    return Object.fromEntries(
      nodes.map((node) => {
        const { served, failed, statuses, longestMs } = this.of(node);
        return [node, { served, failed: failed.length, statuses, longestMs }];
      }),
    );
  }
}

/**
 * Customers that create, read, change and search contacts and unlock prospects all the time. Requests that fail are
 * sent again with the same Idempotency-Key, as a careful client does.
 */
export class Traffic {
  readonly #tenants: readonly Tenant[];
  readonly #url: () => string | undefined;
  readonly #stopping = new AbortController();
  #running: Promise<unknown> = Promise.resolve();
  #sent: Sent[] = [];
  /** External ids of contacts whose creation was acknowledged. */
  readonly acknowledged = new Set<string>();
  /** Ids of the jobs that each Idempotency-Key started. */
  readonly jobs = new Map<string, Set<string>>();

  /** @param url returns the URL of the service, or undefined while it is down */
  constructor(tenants: readonly Tenant[], url: () => string | undefined) {
    this.#tenants = tenants;
    this.#url = url;
  }

  start(): void {
    this.#running = Promise.all(
      this.#tenants.flatMap((tenant) => [
        this.#write(tenant),
        this.#read(tenant),
        this.#readUsers(tenant),
        this.#unlock(tenant),
      ]),
    );
  }

  /** Lets the running requests end, and sends no more. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#running;
  }

  /** Returns the requests that ended since the last call. */
  mark(): Report {
    const report = new Report(this.#sent);
    this.#sent = [];
    return report;
  }

  /** Waits until each customer was served by a write and a read since the call. */
  async allServed(withinMs: number): Promise<void> {
    const from = this.#sent.length;
    const deadline = performance.now() + withinMs;
    const isServed = (tenant: Tenant, method: string) =>
      this.#sent
        .slice(from)
        .some(
          ({ tenant: id, status, request }) =>
            id === tenant.id && status < 300 && status > 0 && request.startsWith(method),
        );
    while (!this.#tenants.every((tenant) => isServed(tenant, 'GET') && isServed(tenant, 'PATCH'))) {
      if (performance.now() > deadline)
        throw new Error(
          `Not all customers were served in time: ${this.#lastFailures()} ${JSON.stringify(this.mark().summary)}`,
        );
      await sleep(20);
    }
  }

  #lastFailures(): string {
    return JSON.stringify(this.#sent.filter(({ status }) => status === 0 || status >= 400).slice(-5));
  }

  async #write(tenant: Tenant): Promise<void> {
    while (!this.#stopping.signal.aborted) {
      const external_id = randomUUID();
      const body = contactBody({ last_name: external_id.slice(0, 8), external_id });
      const created = await this.#insist(tenant, 'POST', '/contacts', body);
      if (!created) continue;
      this.acknowledged.add(external_id);
      await this.#insist(tenant, 'PATCH', `/contacts/${idOf(created)}`, { job_title: 'Engineer' });
      await sleep(20);
    }
  }

  async #read(tenant: Tenant): Promise<void> {
    const questions = [
      { path: '/contacts/list', body: { paginate: { limit: 20 } } },
      { path: '/contacts/list', body: { filters: { search: 'ada' }, paginate: { limit: 5 } } },
      { path: '/company/list', body: { paginate: { limit: 5 } } },
      { path: '/list-contact/list', body: { limit: 5 } },
    ];
    for (let n = 0; !this.#stopping.signal.aborted; n += 1) {
      const { path, body } = questions[n % questions.length]!;
      await this.#send(tenant, 'POST', path, body);
      await this.#send(tenant, 'GET', '/customer/credits');
      await sleep(10);
    }
  }

  /** Sends requests that the coordinator answers alone. They must not hide that the node is silent. */
  async #readUsers(tenant: Tenant): Promise<void> {
    while (!this.#stopping.signal.aborted) {
      await this.#send(tenant, 'GET', '/customer/users');
      await sleep(200);
    }
  }

  async #unlock(tenant: Tenant): Promise<void> {
    const { prospects } = tenant;
    while (!this.#stopping.signal.aborted) {
      const from = Math.floor(Math.random() * (prospects.length - 10));
      const key = randomUUID();
      const body = { ids: prospects.slice(from, from + 10), sync_crm: true };
      const started = await this.#insist(tenant, 'POST', '/service-handler/unlock-selected-contacts', body, key);
      const id = started && idOf(started);
      if (id) this.jobs.set(key, (this.jobs.get(key) ?? new Set()).add(id));
      await sleep(100);
    }
  }

  /** Sends a request until it succeeds or the traffic stops. */
  async #insist(
    tenant: Tenant,
    method: string,
    path: string,
    body: object,
    key: string = randomUUID(),
  ): Promise<Body | undefined> {
    for (;;) {
      const { status, body: text } = await this.#send(tenant, method, path, body, key);
      if (status >= 200 && status < 300) return JSON.parse(text) as Body;
      if (this.#stopping.signal.aborted) return undefined;
      await sleep(50);
    }
  }

  async #send(tenant: Tenant, method: string, path: string, body?: object, key?: string): Promise<Sent> {
    const begun = performance.now();
    const answer = await this.#fetch(tenant, method, path, body, key).catch((error: Error) => ({
      status: 0,
      body: error.cause instanceof Error ? error.cause.message : error.message,
    }));
    const request = `${method} ${path.replace(/[0-9a-f-]{36}/, ':id')}`;
    const sent = { ...answer, request, node: tenant.node, tenant: tenant.id, ms: performance.now() - begun };
    this.#sent.push(sent);
    return sent;
  }

  async #fetch(tenant: Tenant, method: string, path: string, body?: object, key?: string) {
    const answer = await fetch(`${this.#url()}/api/ext${path}`, {
      method,
      headers: {
        authorization: `X-API-Key ${tenant.key}`,
        ...(body ? { 'content-type': 'application/json' } : {}),
        ...(key ? { 'idempotency-key': key } : {}),
      },
      ...(body ? { body: JSON.stringify(body) } : {}),
    });
    return { status: answer.status, body: (await answer.text()).slice(0, 2_000) };
  }
}

/** The fields of responses that the traffic reads. */
interface Body {
  id?: string;
  data?: { id?: string };
}

const idOf = ({ id, data }: Body): string | undefined => id ?? data?.id;
