import { expect, test } from 'vitest';
import { partSeconds, parts, oldParts } from '../../src/queries/records/journal.ts';
import { customerOfEachTest, startApp } from '../setup/app.ts';
import { contactBody, make, productBody, type Answer } from '../setup/factories.ts';
import { truncateJournalOf } from '../setup/journal.ts';

const app = await startApp();
const customer = customerOfEachTest(app);

const list = (body: object = {}, by = customer): Promise<Answer> => by.post('/events/list', body);
const cursorOf = ({ headers }: Answer) => headers['x-next-cursor'] as string;

test('the feed gives each event once, by pages, with the record as it is now', async () => {
  const ids = [await make(customer, '/contacts', contactBody()), await make(customer, '/contacts', contactBody())];
  const first = await list({ paginate: { limit: 1 } });
  expect(first).toMatchObject({
    status: 200,
    body: [{ type: 'contact.created', data: { id: ids[0], source: 'api' } }],
  });
  expect(first.headers['x-more']).toBe('true');
  await customer.delete(`/contacts/${ids[0]}`);
  const rest = await list({ paginate: { cursor: cursorOf(first) }, expand: true });
  expect(rest.headers['x-more']).toBe('false');
  const shown = (await customer.get(`/contacts/${ids[1]}`)).body;
  expect(rest.body).toMatchObject([
    { type: 'contact.created', data: { id: ids[1] }, record: shown },
    { type: 'contact.deleted', data: { id: ids[0] }, record: null },
  ]);
  const end = await list({ paginate: { cursor: cursorOf(rest) } });
  expect(end.body).toEqual([]);
  expect(cursorOf(end)).toBe(cursorOf(rest));
  expect(cursorOf(await list({ from: 'now' }))).toBe(cursorOf(rest));
  const [since, later] = ['2020-01-01T00:00:00Z', new Date().toISOString()];
  for (const from of [since, later]) expect((await list({ from })).body).toHaveLength(3);
});

test('a cursor that was changed, or is of another customer, is refused; one whose event is gone is 410', async () => {
  await make(customer, '/contacts', contactBody());
  const cursor = cursorOf(await list());
  const other = await app.customer();
  const fault = { status: 400, body: { errors: [{ path: '/paginate/cursor' }] } };
  expect(await list({ paginate: { cursor } }, other)).toMatchObject(fault);
  for (const changed of [`${cursor}A`, cursor.slice(1), `A${cursor.slice(1)}x`, `B${cursor.slice(1)}`, 'x', ''])
    expect(await list({ paginate: { cursor: changed } })).toMatchObject(fault);
  expect(await list({ paginate: { cursor }, from: 'start' })).toMatchObject({ body: { errors: [{ path: '/from' }] } });
  expect((await list({ types: [] })).status).toBe(400);
  await make(customer, '/contacts', contactBody());
  await truncateJournalOf(app.owner, customer.id);
  for (let i = 0; i < 2; i += 1) await make(customer, '/contacts', contactBody());
  expect(await list({ paginate: { cursor } })).toMatchObject({ status: 410, body: { code: 'cursor_expired' } });
});

test('a key reads the types whose records it may read', async () => {
  await make(customer, '/contacts', contactBody());
  await make(customer, '/products', productBody());
  const reader = await customer.withScopes(['products:read']);
  expect((await list({}, reader)).body).toMatchObject([{ type: 'product.created' }]);
  expect((await list({ types: ['contact.created'] }, reader)).status).toBe(403);
  expect((await list({}, await customer.withScopes(['pipelines:read']))).status).toBe(403);
});

test('an ended job is told to the keys that may read the job, and to no other', async () => {
  const contact_ids = [await make(customer, '/contacts', contactBody())];
  const { id } = (await customer.post('/service-handler/enrich-contacts', { contact_ids, max_credits: 0 })).body;
  expect((await customer.post(`/service-handler/${id}/cancel`)).status).toBe(200);
  const told: boolean[] = [];
  for (const also of [[], ['contacts:update']] as const) {
    const reader = await customer.withScopes(['payment_prospect:create', ...also]);
    const { body } = await list({ types: ['job.ended'], expand: true }, reader);
    const job = await reader.get(`/service-handler/${id}`);
    expect(body).toMatchObject(job.status === 200 ? [{ data: { id }, record: job.body }] : []);
    told.push(body.length > 0);
  }
  expect(told).toEqual([false, true]);
});

test('a waiting call gets the next event within a second or so, and an empty page when the time is over', async () => {
  const cursor = cursorOf(await list({ from: 'now' }));
  const empty = await list({ paginate: { cursor }, wait: 1 });
  expect(empty).toMatchObject({ status: 200, body: [] });
  const waiting = list({ paginate: { cursor }, wait: 20 });
  await make(customer, '/products', productBody());
  const committed = performance.now();
  expect((await waiting).body).toMatchObject([{ type: 'product.created' }]);
  expect(performance.now() - committed).toBeLessThan(5_000);
});

test('of one customer 20 calls can wait', async () => {
  const cursor = cursorOf(await list({ from: 'now' }));
  const calls = Array.from({ length: 21 }, () => list({ paginate: { cursor }, wait: 20 }));
  const refused = await Promise.race(calls);
  expect(refused).toMatchObject({ status: 429, body: { code: 'rate_limited' } });
  expect(refused.headers['retry-after']).toBe('1');
  await make(customer, '/products', productBody());
  expect((await Promise.all(calls)).filter(({ status }) => status === 200)).toHaveLength(20);
});

test('only partitions whose rows are all too old are emptied, long before they are used again', () => {
  const now = 5_000 * partSeconds + 1_000;
  for (const days of [1, 30, 90, 110]) {
    const kept = Array.from({ length: Math.ceil(days / 8) + 1 }, (_, i) => (5_000 - i) % parts);
    const old = oldParts(now, days);
    expect(old.filter((part) => kept.includes(part))).toEqual([]);
    expect(old.length).toBeGreaterThanOrEqual(parts - kept.length - 1);
  }
  expect(oldParts(now + partSeconds - 2_800, 1)).not.toContain(5_001 % parts);
});
