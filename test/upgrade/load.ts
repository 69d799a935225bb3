import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

/** Clients that write and read all the time, and everything that went wrong for them. */
export interface Load {
  /** Names of the products that were created, with the ids that the answers gave. */
  readonly created: Map<string, Set<string>>;
  readonly failures: string[];
  /** Resolves when every client has completed another round. */
  anotherRound(): Promise<void>;
  /** Resolves when every client has completed its last round. */
  stop(): Promise<void>;
}

/** Pause of each client between two rounds (ms), so that the instances that start get processor time. */
const pauseMs = 30;

type Json = any; // eslint-disable-line typescript/no-explicit-any -- tests read any field of responses

/**
 * Starts clients that create products with an `Idempotency-Key`, send each such request twice, and read what they
 * wrote; unless `onlyRepeatable`, they also change the products and start jobs.
 * @param url of the proxy
 */
export function startLoad(url: string, key: string, clients: number, { onlyRepeatable = false } = {}): Load {
  const rounds = Array<number>(clients).fill(0);
  const created = new Map<string, Set<string>>();
  const failures: string[] = [];
  const stopping = new AbortController();

  const call = async (method: string, path: string, body?: object, idempotencyKey?: string): Promise<Json> => {
    const authorization = { authorization: `X-API-Key ${key}`, 'content-type': 'application/json' };
    const headers = {
      ...authorization,
      ...(idempotencyKey === undefined ? {} : { 'idempotency-key': idempotencyKey }),
    };
    const sent = { method, headers, ...(body ? { body: JSON.stringify(body) } : {}) };
    const answer = await fetch(`${url}/api/ext${path}`, sent);
    const json: Json = await answer.json();
    // The first try still runs, on an instance that died and whose database connection is about to be closed.
    if (onlyRepeatable && idempotencyKey !== undefined && answer.status === 409)
      return call(method, path, body, idempotencyKey);
    if (answer.status >= 300) failures.push(`${method} ${path}: ${answer.status} ${JSON.stringify(json)}`);
    return json;
  };

  /** Reads a product. The label, which only the latest release shows, must fit the name that was written last. */
  const check = async (id: string, expected: string): Promise<void> => {
    const { name, label = expected.toUpperCase() } = await call('GET', `/products/${id}`);
    if (name !== expected || label !== expected.toUpperCase()) failures.push(`${name}, ${label}, not ${expected}`);
  };

  const round = async (): Promise<void> => {
    const name = `product-${randomUUID()}`;
    const ids = new Set<string>();
    created.set(name, ids);
    for (const _ of ['first', 'again']) {
      const { data } = await call('POST', '/products', { name, price: 1, unit: 'piece' }, `create ${name}`);
      if (data) ids.add(data.id);
    }
    const [id] = ids;
    await check(id!, name);
    if (onlyRepeatable) return;
    await call('PATCH', `/products/${id}`, { name: `${name}-renamed` });
    await check(id!, `${name}-renamed`);
    await call('POST', '/contacts/list', { paginate: { limit: 10 } });
    const job = { emails: [{ email: 'nobody' }], sync_crm: false };
    await call('POST', '/service-handler/verify-email', job, `job ${name}`);
  };

  const client = async (number: number) => {
    while (!stopping.signal.aborted) {
      await round().catch((error: unknown) => failures.push(String(error)));
      await sleep(pauseMs);
      rounds[number]! += 1;
    }
  };
  const running = Promise.all(rounds.map((_, number) => client(number)));
  return {
    created,
    failures,
    anotherRound: async () => {
      const before = [...rounds];
      while (rounds.some((count, number) => count < before[number]! + 2)) await sleep(pauseMs);
    },
    stop: async () => {
      stopping.abort();
      await running;
    },
  };
}
