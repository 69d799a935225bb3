import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { expect, onTestFinished, test } from 'vitest';
import { startApp } from '../../setup/app.ts';
import type { TestCustomer } from '../../setup/factories.ts';

/** The behaviour of a fake cluster. `search` is the body of a search, or undefined for a health probe. */
type Behaviour = (response: ServerResponse, search: string | undefined) => void;

const answer = (response: ServerResponse, status: number, body: object): void =>
  void response
    .writeHead(status, { 'content-type': 'application/json', 'x-elastic-product': 'Elasticsearch' })
    .end(JSON.stringify(body));
const alive = (response: ServerResponse): void => answer(response, 200, { nodes: { a: {} } });
const nothingFound = (response: ServerResponse): void => answer(response, 200, { hits: { hits: [] } });
const refusal = (type: string): object => ({ error: { type }, status: 429 });

interface Scene {
  one: TestCustomer;
  other: TestCustomer;
  /** The number of `one`'s searches that the server has received. */
  heavy: { sent: number };
}

/**
 * Starts the app with a fake search cluster and two customers.
 * @param behaviour how the cluster responds. It recognises the searches of `one` by their filter, see `isHeavy`
 */
async function play(behaviour: Behaviour, environment: Record<string, string> = {}): Promise<Scene> {
  const heavy = { sent: 0 };
  const receive = (response: ServerResponse, search: string | undefined): void => {
    if (search && isHeavy(search)) heavy.sent += 1;
    behaviour(response, search);
  };
  const server = createServer((request, response) => {
    void text(request).then((body) => receive(response, request.url!.includes('_search') ? body : undefined));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void (server.closeAllConnections(), server.close()));
  const { port } = server.address() as { port: number };
  const app = await startApp({ ELASTICSEARCH_URL: `http://127.0.0.1:${port}`, ...environment });
  return { one: await app.customer(), other: await app.customer(), heavy };
}

const isHeavy = (search: string): boolean => search.includes('heavy');
const heavyPage = { filters: { last_name: ['heavy'] } };
const list = async (customer: TestCustomer, body: object = {}): Promise<number> =>
  (await customer.post('/prospect/list', body)).status;
const lists = (count: number, customer: TestCustomer, body?: object): Promise<number[]> =>
  Promise.all(Array.from({ length: count }, () => list(customer, body)));

test('a customer that requests a hundred pages at once does not block another one, and no page is sent twice', async () => {
  const held: ServerResponse[] = [];
  let isHeld = true;
  const { one, other, heavy } = await play((response, search) => {
    if (search === undefined) alive(response);
    else if (isHeavy(search) && isHeld) held.push(response);
    else nothingFound(response);
  });
  const pages = lists(100, one, heavyPage);
  await expect.poll(() => heavy.sent, { timeout: 10_000 }).toBe(4); // half of the slots
  for (let i = 0; i < 4; i += 1) expect(await list(other)).toBe(201);
  isHeld = false;
  held.forEach(nothingFound);
  const statuses = await pages;
  expect(heavy.sent).toBe(statuses.filter((status) => status === 201).length);
});

test.each([
  ['too slow', undefined],
  ['rejected as too large', 'circuit_breaking_exception'],
  ['rejected because queues are full', 'es_rejected_execution_exception'],
])(
  'reads of one customer that are %s are 503 and not sent again; they do not block other customers, and succeed once they can',
  async (_what, reason) => {
    let isMended = false;
    const { one, other, heavy } = await play(
      (response, search) => {
        if (search === undefined) alive(response);
        else if (isMended || !isHeavy(search)) nothingFound(response);
        else if (reason) answer(response, 429, refusal(reason));
      },
      { ELASTICSEARCH_TIMEOUT_MS: '300' },
    );
    for (let i = 0; i < 8; i += 1) {
      expect(await list(one, heavyPage)).toBe(503);
      expect(await list(other)).toBe(201);
    }
    expect(heavy.sent).toBe(8);
    isMended = true;
    expect(await list(one, heavyPage)).toBe(201);
  },
);

test.each([
  ['a shard failed', { _shards: { total: 3, successful: 2, failed: 1 } }],
  ['a shard did not respond', { _shards: { total: 3, successful: 2, failed: 0 } }],
  ['the search timed out', { timed_out: true }],
])('a response of the cluster that is incomplete because %s is 503', async (_why, fault) => {
  const whole = { timed_out: false, _shards: { total: 3, successful: 3, skipped: 0, failed: 0 } };
  const hits = { hits: [], total: { value: 0, relation: 'eq' } };
  const { one } = await play((response) => answer(response, 200, { hits, ...whole, ...fault }));
  expect([await list(one), (await one.post('/prospect/metadata', {})).status]).toEqual([503, 503]);
});
