import { randomUUID } from 'node:crypto';
import { beforeAll, beforeEach, expect, test } from 'vitest';
import type { Transaction } from '../../../src/database/db.ts';
import { findEnd, readEvents, type FeedEvent, type FeedPosition } from '../../../src/queries/events/feed.ts';
import { removeOldEvents } from '../../../src/queries/events/retention.ts';
import { recordEvents } from '../../../src/queries/events/recording.ts';
import type { TestCustomer } from '../../setup/factories.ts';
import { startApp, type TestApp } from '../../setup/app.ts';

let app: TestApp;
let customer: TestCustomer;

beforeAll(async () => {
  app = await startApp();
});

beforeEach(async () => {
  customer = await app.customer();
});

const start: FeedPosition = { position: 0, id: null };

/** Records one event for each of these texts, in one transaction. */
const record = (...ids: string[]) => app.db.transaction((sql) => recordIn(sql, ids));

const recordIn = (sql: Transaction, ids: string[]) =>
  recordEvents(
    sql,
    customer.id,
    ids.map((id) => ({ type: 'contact.created', data: { id } })),
  );

const read = (after: FeedPosition | 'start', limit = 1_000) => readEvents(app.db, customer.id, { after, limit });

const idsOf = (events: FeedEvent[]) => events.map(({ data }) => data['id']);

/** Reads from a place to the end of the feed. */
async function readAll(after: FeedPosition | 'start', limit = 1_000): Promise<{ ids: unknown[]; next: FeedPosition }> {
  const events: FeedEvent[] = [];
  for (;;) {
    const page = await read(after, limit);
    events.push(...page.events);
    after = page.next;
    if (!page.isMore) break;
  }
  expect(new Set(events.map(({ id }) => id)).size).toBe(events.length);
  return { ids: idsOf(events), next: after };
}

test('a reader gets each event once, in the order of the transactions, by pages of any size', async () => {
  await record('a');
  await record('b', 'c', 'd');
  await record(...Array.from({ length: 1_200 }, (_, i) => `e${i}`));
  await record('f');
  const wanted = ['a', 'b', 'c', 'd', ...Array.from({ length: 1_200 }, (_, i) => `e${i}`), 'f'];
  for (const limit of [1_000, 100, 7]) expect((await readAll('start', limit)).ids).toEqual(wanted);
  const { next } = await readAll(start);
  expect(next.position).toBe(wanted.length);
  expect(await read(next)).toEqual({ events: [], next, isMore: false });
  await record('g');
  expect((await readAll(next)).ids).toEqual(['g']);
});

test('an event that is committed late appears behind what was read before', async () => {
  const wait = Promise.withResolvers<void>();
  const recorded = Promise.withResolvers<void>();
  const late = app.db.transaction(async (sql) => {
    await recordIn(sql, ['late']);
    recorded.resolve();
    await wait.promise;
  });
  await recorded.promise;
  await record('first');
  const before = await readAll('start');
  expect(before.ids).toEqual(['first']);
  wait.resolve();
  await late;
  expect((await readAll(before.next)).ids).toEqual(['late']);
  expect((await readAll('start')).ids).toEqual(['first', 'late']);
});

test('readers of some types get only these, and come to the end', async () => {
  await record('a');
  await app.db.transaction((sql) =>
    recordEvents(sql, customer.id, [
      { type: 'list.deleted', data: { id: 'b' } },
      { type: 'contact.created', data: { id: 'c' } },
    ]),
  );
  await record('d');
  const page = await readEvents(app.db, customer.id, { after: 'start', types: ['list.deleted'], limit: 10 });
  expect(page).toMatchObject({ events: [{ type: 'list.deleted', position: 2 }], next: { position: 4 }, isMore: false });
  const [event] = page.events;
  expect(event!.data).toEqual({ id: 'b', source: 'command' });
});

test('a place whose event is not there is expired; the last place never is', async () => {
  await record('a');
  const { next } = await readAll('start');
  await record('b');
  const last = (await readAll(next)).next;
  const expired = { code: 'cursor_expired' };
  await expect(read({ ...next, id: randomUUID() })).rejects.toMatchObject(expired);
  await expect(read({ ...last, position: 3 })).rejects.toMatchObject(expired);
  await expect(read({ ...last, position: 1e6 })).rejects.toMatchObject(expired);
  await expect(readEvents(app.db, randomUUID(), { after: last, limit: 1 })).rejects.toMatchObject(expired);
  await app.owner`delete from events where customer_id = ${customer.id}`;
  await expect(read(next)).rejects.toMatchObject(expired);
  await expect(read(start)).rejects.toMatchObject(expired);
  expect(await read(last)).toEqual({ events: [], next: last, isMore: false });
  await record('c');
  for (const place of ['start', last] as const) expect((await readAll(place)).ids).toEqual(['c']);
  await expect(read({ ...last, id: next.id })).rejects.toMatchObject(expired);
});

test('the end is behind all that is committed', async () => {
  expect(await findEnd(app.db, customer.id)).toEqual(start);
  await record('a', 'b');
  const end = await findEnd(app.db, customer.id);
  expect(end.position).toBe(2);
  expect((await readAll(end)).ids).toEqual([]);
});

test('a place is expired if events behind it were removed before anybody read them', async () => {
  const age = async () => {
    const part = Math.floor(Date.now() / 1_000 / 345_600 - 9) % 16;
    await app.owner`update events set part = ${part}, occurred_at = now() - interval '36 days' where customer_id = ${customer.id}`;
    return removeOldEvents(app.db, 30);
  };
  const places = [await findEnd(app.db, customer.id)];
  await record('unread');
  expect(await age()).toBe(1);
  await record('a');
  places.push((await readAll('start')).next);
  await record('unread too', 'and this');
  expect(await age()).toBe(1);
  for (const place of places) await expect(read(place)).rejects.toMatchObject({ code: 'cursor_expired' });
  await record('b');
  for (const place of places) await expect(read(place)).rejects.toMatchObject({ code: 'cursor_expired' });
  expect((await readAll('start')).ids).toEqual(['b']);
  expect(await age()).toBe(1);
  await expect(read('start')).resolves.toMatchObject({ events: [], isMore: false });
});
