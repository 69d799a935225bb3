import { Type } from '@sinclair/typebox';
import { afterAll, expect, test } from 'vitest';
import { appWithoutDatabase } from '../../contract/declared.ts';

const timeout = 2_000;
const app = appWithoutDatabase({ REQUEST_TIMEOUT_MS: String(timeout) });
afterAll(() => app.close());

const Item = Type.Object({
  name: Type.String(),
  tags: Type.Optional(Type.Array(Type.String())),
  more: Type.Unsafe<object>({ type: 'object', additionalProperties: true }),
});
const Batch = Type.Object({
  message: Type.String(),
  note: Type.Optional(Type.String()),
  data: Type.Object({ counts: Type.Object({ read: Type.Integer() }), results: Type.Array(Item) }),
});
/** A record with a text of 18 KB. */
const item = (index: number) => ({ name: `"é\u2028${index}`, tags: ['a'], more: { text: 'ü'.repeat(9_000) } });
const items = (count: number): object[] => Array.from({ length: count }, (_, index) => item(index));
const batch = (count: number) => ({ message: 'm"', data: { counts: { read: 1 }, results: items(count) } });

/** What each route returns. */
const payloads: Record<string, unknown> = {
  '/items/0': items(0),
  '/items/1': items(1),
  '/items/2000': items(2_000),
  '/batch/0': batch(0),
  '/batch/2000': batch(2_000),
  '/faulty': [...items(2_000), { name: 'a' }],
};
/** Number of rounds of the event loop between the end of a handler and the complete text of its response. */
let rounds = 0;
let isMaking = false;
function countRounds(): void {
  if (!isMaking) return;
  rounds += 1;
  setImmediate(countRounds);
}

const access = { public: true as const };
for (const [path, payload] of Object.entries(payloads)) {
  const isArray = Array.isArray(payload);
  const config = { access, ...(isArray ? {} : { isBatch: true as const }) };
  const schema = { summary: path, tags: ['x'], response: { 200: isArray ? Type.Array(Item) : Batch } };
  app.get(path, { config, schema, onSend: async () => void (isMaking = false) }, async ({ url }) => {
    isMaking = true;
    // The event loop is blocked, so the time is up at the first pause.
    for (const start = performance.now(); url.endsWith('late') && performance.now() - start < timeout;);
    setImmediate(countRounds);
    return payload;
  });
}

test.each(Object.keys(payloads).filter((path) => path !== '/faulty'))(
  '%s is sent whole, and HEAD has its length',
  async (path) => {
    const got = await app.inject(path);
    expect([got.statusCode, got.headers['content-type']]).toEqual([200, 'application/json; charset=utf-8']);
    expect(got.headers['content-length']).toBe(String(got.rawPayload.length));
    expect(got.json()).toEqual(payloads[path]);
    const head = await app.inject({ method: 'HEAD', url: path });
    expect([head.statusCode, head.rawPayload.length]).toEqual([200, 0]);
    expect(head.headers['content-length']).toBe(got.headers['content-length']);
  },
);

test('fields that are not declared are left out of each record', async () => {
  const [given] = payloads['/items/1'] as [{ secret?: string }];
  given.secret = 'x';
  expect((await app.inject('/items/1')).body).not.toContain('secret');
  delete given.secret;
});

test.each(['/items/2000', '/batch/2000'])('while %s is made, the event loop handles other events', async (path) => {
  rounds = 0;
  expect((await app.inject(path)).rawPayload.length).toBeGreaterThan(30_000_000);
  expect(rounds).toBeGreaterThan(0);
});

test('a record that cannot be made into text is an error of the service', async () => {
  expect((await app.inject('/faulty')).statusCode).toBe(500);
});

test('the time of the request can be up while its response is made', async () => {
  const late = await app.inject('/items/2000?late');
  expect([late.statusCode, late.json()]).toEqual([200, payloads['/items/2000']]);
});
