import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeAll, beforeEach, expect, test } from 'vitest';
import type { Transaction } from '../../../src/database/db.ts';
import {
  findEnd,
  findPlaceAt,
  oldest,
  readEvents,
  type FeedEvent,
  type FeedPosition,
  type Place,
} from '../../../src/queries/events/feed.ts';
import { givePositions } from '../../../src/queries/events/positions.ts';
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

const read = (after: Place, limit = 1_000) => readEvents(app.db, customer.id, { after, limit });

const idsOf = (events: FeedEvent[]) => events.map(({ data }) => data['id']);

/** Reads from a place to the end of the feed. */
async function readAll(after: Place, limit = 1_000): Promise<{ ids: unknown[]; next: FeedPosition }> {
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

test('a reader gets each event once, in the order of the transactions, by pages of any size', async () => {
  await record('a');
  await record('b', 'c', 'd');
  await record(...Array.from({ length: 1_200 }, (_, i) => `e${i}`));
  await record('f');
  const wanted = ['a', 'b', 'c', 'd', ...Array.from({ length: 1_200 }, (_, i) => `e${i}`), 'f'];
  for (const limit of [1_000, 100, 7]) expect((await readAll(oldest, limit)).ids).toEqual(wanted);
  const { next } = await readAll(start);
  expect(next.position).toBe(wanted.length);
  expect(await read(next)).toEqual({ events: [], next, isMore: false });
  await record('g');
  expect((await readAll(next)).ids).toEqual(['g']);
});

/** Records the event `late` in a transaction that stays open. Returns a function that commits it. */
async function recordLate(): Promise<() => Promise<void>> {
  const wait = Promise.withResolvers<void>();
  const recorded = Promise.withResolvers<void>();
  const late = app.db.transaction(async (sql) => {
    await recordIn(sql, ['late']);
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

test('readers of some types get only these, and come to the end', async () => {
  await record('a');
  await app.db.transaction((sql) =>
    recordEvents(sql, customer.id, [
      { type: 'list.deleted', data: { id: 'b' } },
      { type: 'contact.created', data: { id: 'c' } },
    ]),
  );
  await record('d');
  const page = await readEvents(app.db, customer.id, { after: oldest, types: ['list.deleted'], limit: 10 });
  expect(page).toMatchObject({ events: [{ type: 'list.deleted', position: 2 }], next: { position: 4 }, isMore: false });
  const [event] = page.events;
  expect(event!.data).toEqual({ id: 'b', source: 'command' });
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
  await app.owner`delete from events where customer_id = ${customer.id}`;
  await expect(read(next)).rejects.toMatchObject(expired);
  await expect(read(start)).rejects.toMatchObject(expired);
  expect(await read(last)).toEqual({ events: [], next: last, isMore: false });
  await record('c');
  for (const place of [oldest, last]) expect((await readAll(place)).ids).toEqual(['c']);
  await expect(read({ ...last, id: next.id })).rejects.toMatchObject(expired);
});

test.each([1, 2, 3])(
  'the first event may get its position while another reader is before its step %i',
  async (step) => {
    await record('a');
    let steps = 0;
    const racing: typeof app.db = {
      ...app.db,
      lookup: async (work) => {
        if ((steps += 1) === step) await read(oldest);
        return app.db.lookup(work);
      },
    };
    const { events } = await readEvents(racing, customer.id, { after: start, limit: 10 });
    expect(idsOf(events)).toEqual(['a']);
  },
);

test('twenty thousand waiting events get their positions in seconds, whatever the planner knows of the customer', async () => {
  await record('first');
  await readAll(oldest);
  await app.owner`
    insert into events (customer_id, source, types, size, entries)
    select ${customer.id}, 'api', array['contact.created'], 1, json_build_array(json_build_array('contact.created', '{}'::json))
    from generate_series(1, 20000)`;
  const begun = performance.now();
  let waiting = true;
  while (waiting) waiting = (await givePositions(app.db, customer.id)).isWaiting;
  // A second on a quiet machine. If each kept event were compared with each waiting one: more than twenty.
  expect(performance.now() - begun).toBeLessThan(15_000);
  expect((await findEnd(app.db, customer.id)).position).toBe(20_001);
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
  places.push((await readAll(oldest)).next);
  await record('unread too', 'and this');
  expect(await age()).toBe(1);
  for (const place of places) await expect(read(place)).rejects.toMatchObject({ code: 'cursor_expired' });
  await record('b');
  for (const place of places) await expect(read(place)).rejects.toMatchObject({ code: 'cursor_expired' });
  expect((await readAll(oldest)).ids).toEqual(['b']);
  expect(await age()).toBe(1);
  await expect(read(oldest)).resolves.toMatchObject({ events: [], isMore: false });
});

test('who begins at the oldest events is not stopped by those that stay before a gap', async () => {
  // Two transactions at the turn of a partition, in the order of their numbers but not of their times.
  await record('straggler', 'another');
  await record('removed');
  await record('kept');
  const { events } = await read(oldest);
  await app.owner`
    update events
    set
      part = ${Math.floor(Date.now() / 1_000 / 345_600 - 9) % 16},
      occurred_at = now() - interval '36 days'
    where customer_id = ${customer.id}
      and last_position = 3`;
  expect(await removeOldEvents(app.db, 30)).toBe(1);
  await app.owner`
    update events set occurred_at = now() - interval '1 hour' where customer_id = ${customer.id} and last_position < 3`;
  const place = await findPlaceAt(app.db, customer.id, new Date(Date.now() - 60_000).toISOString());
  expect((await readAll(place)).ids).toEqual(['kept']);
  for (const limit of [1, 1_000]) expect((await readAll(oldest, limit)).ids).toEqual(['kept']);
  expect((await readAll({ position: events[0]!.position })).ids).toEqual(['kept']);
  await record('new');
  expect((await readAll(oldest, 1)).ids).toEqual(['kept', 'new']);
});

test('twenty readers beside a writer that holds its transaction for 3 s: all get the same events, once', async () => {
  const ending = new AbortController();
  let longest = 0;
  const follow = async (): Promise<unknown[]> => {
    const seen: unknown[] = [];
    let after: FeedPosition = start;
    for (let isLast = false; ; isLast = ending.signal.aborted) {
      const begun = performance.now();
      const page: Awaited<ReturnType<typeof read>> = await read(after, 7);
      longest = Math.max(longest, performance.now() - begun);
      seen.push(...idsOf(page.events));
      after = page.next;
      if (isLast && !page.isMore) return seen;
      if (!page.isMore) await sleep(50);
    }
  };
  const readers = Array.from({ length: 20 }, follow);
  const written: string[] = [];
  const late = app.db.transaction(async (sql) => {
    await recordIn(sql, ['late']);
    await sleep(3_000);
  });
  const isOver = late.then(() => true);
  while (!(await Promise.race([isOver, sleep(5, false)]))) {
    const id = `quick ${written.length}`;
    await record(id);
    written.push(id);
  }
  ending.abort();
  const [first, ...others] = await Promise.all(readers);
  expect(first!.filter((id) => id !== 'late')).toEqual(written);
  expect(first!.filter((id) => id === 'late')).toHaveLength(1);
  for (const other of others) expect(other).toEqual(first);
  process.stdout.write(
    `20 readers beside a slow writer: ${written.length} events, longest read ${Math.round(longest)} ms\n`,
  );
  expect(longest, 'the longest read (ms): each must answer within the limit of a request').toBeLessThan(10_000);
});

test('a read while another reader gives positions returns what was committed before it', async () => {
  let { next } = await read(start);
  for (let i = 0; i < 200; i += 1) {
    await record(`${i}`);
    const [page] = await Promise.all([read(next), givePositions(app.db, customer.id)]);
    expect(idsOf(page.events)).toEqual([`${i}`]);
    next = page.next;
  }
});

test('whoever begins while another reader gives the first positions gets all events', async () => {
  for (let i = 0; i < 100; i += 1) {
    customer = await app.customer();
    await record('first');
    const [page] = await Promise.all([read(oldest), givePositions(app.db, customer.id)]);
    expect(idsOf(page.events)).toEqual(['first']);
  }
});

/** Makes all rows of the customer as if the clock had been, when they were written, ahead by so many days. */
async function shiftClock(days: number): Promise<void> {
  const by = days * 86_400;
  // In forms that Citus takes for a column: a sum of a time and an interval is none.
  await app.owner`
    update events
    set
      occurred_at = to_timestamp(extract(epoch from occurred_at at time zone 'UTC') + ${by}::int),
      part = ((extract(epoch from occurred_at at time zone 'UTC') + ${by}::int)::bigint / 345600 % 16)::smallint
    where customer_id = ${customer.id}`;
  await app.owner`
    update event_heads
    set
      candidate_at = to_timestamp(extract(epoch from candidate_at at time zone 'UTC') + ${by}::int),
      swept_at = to_timestamp(extract(epoch from swept_at at time zone 'UTC') + ${by}::int)
    where customer_id = ${customer.id}`;
}

test.each([1, -1])('a clock that was set by a day (%d) loses no event and changes no order', async (days) => {
  const commitLate = await recordLate();
  await record('a');
  const { next } = await readAll(oldest);
  await record('b');
  await shiftClock(days);
  await record('c');
  await commitLate();
  expect((await readAll(next)).ids).toEqual(['late', 'b', 'c']);
  await record('d');
  expect((await readAll(oldest)).ids).toEqual(['a', 'late', 'b', 'c', 'd']);
});
