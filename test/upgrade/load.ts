import { randomInt, randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

/** Clients that write and read all the time, and everything that went wrong for them. */
export interface Load {
  /** Names of the products that were created, with the ids that the answers gave. */
  readonly created: Map<string, Set<string>>;
  /** Ids and final names of products that no client changes any more. */
  readonly finished: [id: string, name: string][];
  /** Number of requests that got the expected answer. */
  readonly answered: number;
  readonly failures: string[];
  /** Resolves when every client has completed another round. */
  anotherRound(): Promise<void>;
  /** Resolves when every client has completed its last round. */
  stop(): Promise<void>;
}

/** Pause of each client between two rounds (ms), so that the instances that start get processor time. */
const pauseMs = 30;

interface Answer {
  status: number;
  body: any; // eslint-disable-line typescript/no-explicit-any -- tests read any field of responses
}

type Call = (method: string, path: string, body?: object, key?: string) => Promise<Answer>;

/**
 * Starts clients that create products with an `Idempotency-Key`, send each such request twice, and read what they
 * wrote, now and earlier; unless `onlyRepeatable`, they also change the products and start jobs.
 * @param url of the proxy
 */
export function startLoad(url: string, key: string, clients: number, { onlyRepeatable = false } = {}): Load {
  const rounds = Array<number>(clients).fill(0);
  const state = {
    created: new Map<string, Set<string>>(),
    finished: [] as [string, string][],
    answered: 0,
    failures: [] as string[],
  };
  const stopping = new AbortController();
  const call: Call = async (method, path, body, idempotencyKey) => {
    for (;;) {
      const answer = await send(url, key, method, path, body, idempotencyKey);
      // The first try still runs, on an instance that died and whose database connection is about to be closed.
      if (onlyRepeatable && idempotencyKey !== undefined && answer.status === 409) continue;
      if (answer.status < 300) state.answered += 1;
      else state.failures.push(`${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
      return answer;
    }
  };
  const client = async (number: number) => {
    while (!stopping.signal.aborted) {
      await round(call, state, onlyRepeatable).catch((error: unknown) => state.failures.push(String(error)));
      await sleep(pauseMs);
      rounds[number]! += 1;
    }
  };
  const running = Promise.all(rounds.map((_, number) => client(number)));
  return Object.assign(state, {
    anotherRound: async () => {
      const before = [...rounds];
      while (rounds.some((count, number) => count < before[number]! + 2)) await sleep(pauseMs);
    },
    stop: async () => {
      stopping.abort();
      await running;
    },
  });
}

async function send(url: string, key: string, method: string, path: string, body?: object, idempotencyKey?: string) {
  const answer = await fetch(`${url}/api/ext${path}`, {
    method,
    headers: {
      authorization: `X-API-Key ${key}`,
      'content-type': 'application/json',
      ...(idempotencyKey === undefined ? {} : { 'idempotency-key': idempotencyKey }),
    },
    ...(body ? { body: JSON.stringify(body) } : {}),
  });
  return { status: answer.status, body: await answer.json() };
}

type State = Pick<Load, 'created' | 'failures' | 'finished'>;

async function round(call: Call, state: State, onlyRepeatable: boolean): Promise<void> {
  const name = `product-${randomUUID()}`;
  const ids = new Set<string>();
  state.created.set(name, ids);
  const create = async () => {
    const { body } = await call('POST', '/products', { name, price: 1, unit: 'piece' }, `create ${name}`);
    if (body.data) ids.add(body.data.id as string);
  };
  await create();
  await create();
  const [id] = ids;
  checkProduct(state, await call('GET', `/products/${id}`), name);
  if (onlyRepeatable) return;
  const renamed = `${name}-renamed`;
  await call('PATCH', `/products/${id}`, { name: renamed });
  checkProduct(state, await call('GET', `/products/${id}`), renamed);
  state.finished.push([id!, renamed]);
  const [earlier, itsName] = state.finished[randomInt(state.finished.length)]!;
  checkProduct(state, await call('GET', `/products/${earlier}`), itsName);
  await call('POST', '/contacts/list', { paginate: { limit: 10 } });
  await call(
    'POST',
    '/service-handler/verify-email',
    { emails: [{ email: 'nobody' }], sync_crm: false },
    `job ${name}`,
  );
}

/** Checks a product. The label, which only the latest release shows, must fit the name that was written last. */
function checkProduct({ failures }: State, { body }: Answer, name: string): void {
  if (body.name !== name) failures.push(`the name is ${body.name}, not ${name}`);
  if ('label' in body && body.label !== name.toUpperCase()) failures.push(`the label of ${name} is ${body.label}`);
}
