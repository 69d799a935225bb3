import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import type { Transaction } from '../../../src/database/db.ts';
import { findEnd, findPositionAt, oldest, readEvents } from '../../../src/queries/records/feed.ts';
import type { FeedEvent, FeedPosition, ReadPosition } from '../../../src/queries/records/feed.ts';
import { addToJournal, partSeconds, parts, readTotals, truncateJournal } from '../../../src/queries/records/journal.ts';
import { customerOfEachTest, startApp } from '../../setup/app.ts';
import { truncateJournalOf } from '../../setup/journal.ts';

const app = await startApp();

const customer = customerOfEachTest(app);

const start: FeedPosition = { position: 0, id: null };

/** Records one event for each of these texts, in one transaction. */
const record = (...names: string[]) => app.db.transaction(async (sql) => recordIn(sql, names));

const recordIn = (sql: Transaction, names: string[]) =>
  addToJournal(
    sql,
    customer.id,
    names.map((name) => ({ type: 'contact.created', data: { name } })),
    { contacts: names.length, companies: 0 },
  );

const read = (after: ReadPosition, limit = 1_000) => readEvents(app.db, customer.id, { after, limit });

const idsOf = (events: FeedEvent[]) => events.map(({ data }) => data['name']);

/** Reads from a place to the end of the feed. */
async function readAll(after: ReadPosition, limit = 1_000): Promise<{ ids: unknown[]; next: FeedPosition }> {
  const events: FeedEvent[] = [];
  for (;;) {
    const { next, isMore, ...page } = await read(after, limit);
    events.push(...page.events);
    after = next;
    if (isMore) continue;
    expect(new Set(events.map(({ id }) => id)).size).toBe(events.length);
    return { ids: idsOf(events), next };
  }
}

/** Records the event `late` in a transaction that stays open. Returns a function that commits it. */
async function recordLate(): Promise<() => Promise<void>> {
  const wait = Promise.withResolvers<void>();
  const recorded = Promise.withResolvers<void>();
  const late = app.db.transaction(async (sql) => {
    recordIn(sql, ['late']);
    recorded.resolve();
    await wait.promise;
  });
  await Promise.race([recorded.promise, late]);
  return async () => {
    wait.resolve();
    await late;
  };
}

test('an event that is committed late appears behind what was read before', async () => {
  const commitLate = await recordLate();
  await record('first');
  const before = await readAll(oldest);
  expect(before.ids).toEqual(['first']);
  await commitLate();
  expect((await readAll(before.next)).ids).toEqual(['late']);
  expect((await readAll(oldest)).ids).toEqual(['first', 'late']);
});

test('a place whose event is not there is expired; the last place never is', async () => {
  await record('a');
  const { next } = await readAll(oldest);
  await record('b');
  const last = (await readAll(next)).next;
  const expired = { code: 'cursor_expired' };
  await expect(read({ ...next, id: randomUUID() })).rejects.toMatchObject(expired);
  await expect(read({ ...last, position: 3 })).rejects.toMatchObject(expired);
  await expect(read({ ...last, position: 1e6 })).rejects.toMatchObject(expired);
  await expect(readEvents(app.db, randomUUID(), { after: last, limit: 1 })).rejects.toMatchObject(expired);
  await truncateJournalOf(app.owner, customer.id);
  await expect(read(next)).rejects.toMatchObject(expired);
  await expect(read(start)).rejects.toMatchObject(expired);
  expect(await read(last)).toEqual({ events: [], next: last, isMore: false });
  await record('c');
  for (const place of [oldest, last]) expect((await readAll(place)).ids).toEqual(['c']);
  await expect(read({ ...last, id: next.id })).rejects.toMatchObject(expired);
});

/** Makes rows of the customer so old that they are truncated. */
async function age(to = 1e9): Promise<number> {
  const part = Math.floor(Date.now() / 1_000 / partSeconds - 13) % parts;
  await app.owner`
    update journal
    set part = ${part}, occurred_at = '2000-01-01'
    where customer_id = ${customer.id}
      and position <= ${to}`;
  return truncateJournal(app.db, 90);
}

test('a place is expired if events behind it were truncated; the end stays, and so do totals', async () => {
  const places = [await findEnd(app.db, customer.id)];
  await record('a');
  places.push(await findEnd(app.db, customer.id));
  await record('b', 'c');
  const end = await findEnd(app.db, customer.id);
  expect(await age()).toBe(1);
  for (const place of places) await expect(read(place)).rejects.toMatchObject({ code: 'cursor_expired' });
  expect(await read(end)).toEqual({ events: [], next: end, isMore: false });
  expect(await findEnd(app.db, customer.id)).toEqual(end);
  expect(await app.db.lookup((sql) => readTotals(sql, customer.id))).toEqual({ contacts: 3, companies: 0 });
  await record('d');
  for (const place of [end, oldest, { position: 1 }]) expect((await readAll(place)).ids).toEqual(['d']);
  for (const place of places) await expect(read(place)).rejects.toMatchObject({ code: 'cursor_expired' });
  expect(await age()).toBe(1);
  expect(await read(oldest)).toMatchObject({ events: [], next: { position: 4 }, isMore: false });
});

test('who begins at the oldest events, or at a time, is not stopped by a truncation', async () => {
  await record('removed', 'removed too');
  await record('kept', 'and this');
  const second = (await read(oldest, 2)).next;
  expect(await age(2)).toBe(1);
  for (const limit of [1, 1_000]) expect((await readAll(oldest, limit)).ids).toEqual(['kept', 'and this']);
  expect((await readAll(second)).ids).toEqual(['kept', 'and this']);
  for (const time of ['2000-01-01T00:00:00Z', new Date().toISOString()])
    expect((await readAll(await findPositionAt(app.db, customer.id, time))).ids).toEqual(['kept', 'and this']);
  await app.owner`update journal set occurred_at = now() - interval '1 hour' where customer_id = ${customer.id} and position = 3`;
  expect((await readAll(await findPositionAt(app.db, customer.id, new Date().toISOString()))).ids).toEqual([
    'and this',
  ]);
});
