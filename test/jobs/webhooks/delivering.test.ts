import { afterAll, expect, test, vi } from 'vitest';
import { updateEndpoint, replayEndpoint } from '../../../src/accounts/webhooks.ts';
import { startWorkers } from '../../../src/jobs/workers.ts';
import { commandLine } from '../../../src/schemas/accounts.ts';
import type { EventSource, EventType } from '../../../src/schemas/events.ts';
import { startApp } from '../../setup/app.ts';
import { dbOf } from '../../setup/factories.ts';
import { contextOf } from '../working.ts';
import { loopback, makeEndpoint, record, startReceiver, status, verify, type Receiver } from './receivers.ts';

/** Webhooks that are sent at the same time. */
const slots = 20;
const app = await startApp({ ...loopback, WEBHOOK_DELIVERIES: `${slots}` });
const workers = await startWorkers({ ...contextOf(app), url: app.url });
afterAll(() => workers.stop());

const management = (customerId: string) => ({
  db: dbOf(app.fastify),
  config: app.config,
  customerId,
  by: commandLine,
});

/** A customer with an endpoint at a receiver of its own. */
async function start(options: Parameters<typeof makeEndpoint>[3] = {}, answer = status(200)) {
  const { id: customerId } = await app.customer();
  const receiver = await startReceiver(answer);
  const endpoint = await makeEndpoint(app, customerId, receiver.url, options);
  return { customerId, receiver, endpoint, id: endpoint.id };
}

const stored = async (id: string) => {
  const [row] = await app.owner<Record<string, any>[]>`select * from webhook_endpoints where id = ${id}`; // eslint-disable-line typescript/no-explicit-any -- any column
  return row!;
};

const namesOf = ({ received }: Receiver) => received.map(({ event }) => String(event.data['name']));
const wait = <T>(check: () => T | Promise<T>) => vi.waitFor(check, { timeout: 20_000, interval: 50 });

/** Waits until a receiver has got these events, in any order, and nothing is under way. */
async function expectOnly(receiver: Receiver, id: string, names: string[]): Promise<void> {
  await wait(() => expect(namesOf(receiver).toSorted()).toEqual(names.toSorted()));
  await wait(async () => expect(await stored(id)).toMatchObject({ taken_by: null, pending: 0 }));
  expect(namesOf(receiver).toSorted()).toEqual(names.toSorted());
}

/** Keeps requests without an answer. Returns what answers them, and all later ones. */
function hold(receiver: Receiver): (code: number) => void {
  const held: (() => void)[] = [];
  receiver.answer = (response, ...rest) => void held.push(() => receiver.answer(response, ...rest));
  return (code) => {
    receiver.answer = status(code);
    for (const answer of held) answer();
  };
}

const contacts = (...names: string[]) => names.map((name) => ['contact.created', { name }] as const);
/** Makes what waits due now, or in an hour. */
const makeDue = async (id: string, seconds = 0) => {
  const at = app.owner`now() + ${seconds} * interval '1 second'`;
  await app.owner`update webhook_deliveries set due_at = ${at} where endpoint_id = ${id} and due_at is not null`;
  await app.owner`update webhook_endpoints set next_at = ${at} where id = ${id} and pending > 0`;
};

test('an endpoint gets each event from its creation on, once, as one signed POST', async () => {
  const { id: customerId } = await app.customer();
  await record(app, customerId, contacts('before'));
  const receiver = await startReceiver();
  const { id, secret } = await makeEndpoint(app, customerId, receiver.url);
  const names = Array.from({ length: 120 }, (_, i) => `contact ${i}`);
  await record(app, customerId, contacts(...names.slice(0, 70)));
  for (const name of names.slice(70)) await record(app, customerId, contacts(name));
  await expectOnly(receiver, id, names);
  for (const one of receiver.received) {
    verify(secret, one);
    expect(one.headers['webhook-id']).toBe(one.event.id);
    expect(Object.keys(one.event)).toEqual(['id', 'type', 'occurred_at', 'data']);
  }
  expect(new Set(receiver.received.map(({ event }) => event.id)).size).toBe(120);
  const [{ rows }] = await app.owner<[{ rows: string }]>`
      select count(*) as rows from webhook_deliveries where endpoint_id = ${id} and ok and attempt = 1`;
  expect(Number(rows)).toBe(120);
});

test('an endpoint gets only the types that it wants, and what imports and jobs write only with bulk', async () => {
  const { customerId, receiver, id } = await start({ types: ['contact.created', 'import.ended'] });
  const everything = await startReceiver();
  const bulk = await makeEndpoint(app, customerId, everything.url, { bulk: true });
  await record(app, customerId, [...contacts('wanted'), ['company.created', { name: 'other type' }]]);
  await record(app, customerId, [...contacts('imported'), ['import.ended', { name: 'end' }]], 'import');
  await record(app, customerId, contacts('by a job'), 'job');
  await expectOnly(receiver, id, ['wanted', 'end']);
  await expectOnly(everything, bulk.id, ['wanted', 'other type', 'imported', 'end', 'by a job']);
});

test.each<[what: string, Parameters<typeof updateEndpoint>[2], EventSource, EventType]>([
  ['of imports any more when it is changed to be without bulk', { bulk: false }, 'import', 'contact.created'],
  ['of a type that it does not want any more', { types: ['company.created'] }, 'api', 'company.created'],
])('an endpoint gets nothing %s, also if a delivery waits', async (_what, change, source, type) => {
  const { customerId, receiver, id } = await start({ bulk: true }, status(500));
  await record(app, customerId, contacts('unwanted'), source);
  await record(app, customerId, [[type, { name: 'wanted' }]]);
  await wait(async () => expect(await stored(id)).toMatchObject({ pending: 2, failures_in_row: 2, taken_by: null }));
  await updateEndpoint(management(customerId), id, change);
  receiver.answer = status(200);
  receiver.received.length = 0;
  await makeDue(id);
  await expectOnly(receiver, id, ['wanted']);
});

test('an endpoint gets at most ten events at the same time', async () => {
  const { customerId, receiver, id } = await start();
  await record(app, customerId, contacts('first'));
  await expectOnly(receiver, id, ['first']);
  receiver.answer = (response) => void setTimeout(() => response.end(), 200);
  const names = Array.from({ length: 40 }, (_, i) => `contact ${i}`);
  await record(app, customerId, contacts(...names));
  await expectOnly(receiver, id, ['first', ...names]);
  expect(receiver.maxOpen).toBeGreaterThan(5);
  expect(receiver.maxOpen).toBeLessThanOrEqual(10);
});

test('an endpoint gets no more than a thousand deliveries at a time: the others wait in the feed', async () => {
  const { customerId, receiver, id } = await start({}, status(500));
  await record(app, customerId, contacts('first'));
  await wait(async () => expect(await stored(id)).toMatchObject({ pending: 1, taken_by: null }));
  // As if many had failed now and then, between others that succeeded.
  await app.owner`
      insert into webhook_deliveries (customer_id, endpoint_id, event_id, type, attempt, position, due_at)
      select ${customerId}, ${id}, uuidv7(), 'contact.created', 2, n, now() + interval '1 hour'
      from generate_series(100001, 100998) n`;
  await app.owner`update webhook_endpoints set pending = 999 where id = ${id}`;
  await record(app, customerId, contacts('second', 'third', 'fourth'));
  await wait(async () => expect(await stored(id)).toMatchObject({ pending: 1_000, taken_by: null, ahead: '{[3,)}' }));
  expect(namesOf(receiver)).not.toContain('third');
});

test('an endpoint gets nothing of what the journal does not keep any more, which counts as given up', async () => {
  const { customerId, receiver, id } = await start({}, status(500));
  await record(app, customerId, contacts('tried'));
  await wait(async () => expect(await stored(id)).toMatchObject({ pending: 1, taken_by: null }));
  await app.owner`update webhook_endpoints set active = false, ahead = '{[2,4)}' where id = ${id}`;
  await record(app, customerId, contacts('lost', 'lost', 'kept'));
  await app.owner`delete from journal where customer_id = ${customerId} and position < 4`;
  await app.owner`
      insert into journal_ends select customer_id, 3, uuidv7(), 0, 0 from webhook_endpoints where id = ${id}`;
  receiver.answer = status(200);
  receiver.received.length = 0;
  await app.owner`update webhook_endpoints set active = true, ahead = '{[2,)}' where id = ${id}`;
  await makeDue(id);
  await expectOnly(receiver, id, ['kept']);
  expect(await stored(id)).toMatchObject({ given_up: '3', failures_in_row: 0 });
});

test('an endpoint gets nothing while its customer is suspended, and all of it afterwards', async () => {
  const { customerId, receiver, id } = await start();
  const other = await start();
  await app.owner`update customers set status = 'SUSPENDED' where id = ${customerId}`;
  await record(app, customerId, contacts('waits'));
  await record(app, other.customerId, contacts('comes'));
  await expectOnly(other.receiver, other.id, ['comes']);
  expect(receiver.received).toEqual([]);
  await app.owner`update customers set status = 'OK' where id = ${customerId}`;
  await expectOnly(receiver, id, ['waits']);
});

test('an endpoint does not wait for silent ones of other customers, though they hold the slots that they may have', async () => {
  const { customerId, receiver, id } = await start();
  await record(app, customerId, contacts('known to work'));
  await expectOnly(receiver, id, ['known to work']);
  const silent = await startReceiver();
  const answer = hold(silent);
  const others = await Promise.all(Array.from({ length: slots / 4 }, () => app.customer()));
  for (const other of others)
    await Promise.all(Array.from({ length: 4 }, () => makeEndpoint(app, other.id, silent.url)));
  await Promise.all(others.map((other) => record(app, other.id, contacts('unanswered'))));
  await wait(() => expect(silent.open).toBeGreaterThan(slots / 3));
  const names = Array.from({ length: 20 }, (_, i) => `contact ${i}`);
  for (const name of names) await record(app, customerId, contacts(name));
  await wait(() => expect(receiver.received).toHaveLength(21));
  // Each is given up after 15 seconds: none has been yet.
  expect(silent.open).toBe(silent.maxOpen);
  answer(410);
});

test('a failed delivery is tried again, after the pauses of the schedule, until it is given up', async () => {
  const { customerId, receiver, id } = await start({}, status(500));
  await record(app, customerId, contacts('unwanted'));
  const pauses = [5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400];
  for (const [i, pause] of pauses.entries()) {
    await wait(() => expect(receiver.received).toHaveLength(i + 1));
    const [retry] = await wait(async () => {
      const rows = await app.owner<{ seconds: number }[]>`
          select d.attempt, extract(epoch from coalesce(r.due_at, d.next_attempt_at) - d.sent_at)::float8 as seconds
          from webhook_deliveries d
          join webhook_deliveries r using (customer_id, endpoint_id, event_id)
          where d.endpoint_id = ${id} and d.attempt = ${i + 1} and r.attempt = d.attempt + 1`;
      expect(rows).toHaveLength(1);
      return rows;
    });
    expect(retry!.seconds, `after try ${i + 1}`).toBeGreaterThan(pause * 0.79);
    expect(retry!.seconds, `after try ${i + 1}`).toBeLessThan(pause * 1.21 + 5);
    await wait(async () => expect((await stored(id))['taken_by']).toBeNull());
    await makeDue(id);
  }
  await wait(async () => expect(await stored(id)).toMatchObject({ given_up: '1', pending: 0, next_at: null }));
  expect(receiver.received).toHaveLength(10);
  expect(new Set(receiver.received.map(({ headers }) => headers['webhook-id'])).size).toBe(1);
  expect(new Set(receiver.received.map(({ body }) => body)).size).toBe(1);
});

test('a failed delivery waits as long as the receiver asks, at most a day', async () => {
  for (const [asked, expected] of [
    ['3600', 3600],
    ['999999', 86_400],
  ] as const) {
    const { customerId, id } = await start({}, status(503, { 'retry-after': asked }));
    await record(app, customerId, contacts('later'));
    await wait(async () => {
      const [retry] = await app.owner<{ seconds: number }[]>`
          select extract(epoch from due_at - now())::float8 as seconds from webhook_deliveries
          where endpoint_id = ${id} and attempt = 2`;
      expect(retry!.seconds).toBeGreaterThan(expected - 30);
      expect(retry!.seconds).toBeLessThanOrEqual(expected + 1);
    });
  }
});

test('a failed delivery does not hold back what comes after it, until twenty failed in a row: then only the oldest is tried', async () => {
  const { customerId, receiver, id } = await start({}, status(500));
  const names = Array.from({ length: 25 }, (_, i) => `contact ${i}`);
  await record(app, customerId, contacts(...names));
  await wait(async () => expect((await stored(id))['failures_in_row']).toBe(20));
  await makeDue(id, 3_600);
  await wait(async () => expect((await stored(id))['taken_by']).toBeNull());
  const before = receiver.received.length;
  await makeDue(id);
  await wait(() => expect(receiver.received.length).toBe(before + 1));
  expect(namesOf(receiver).at(-1)).toBe('contact 0');
  await wait(async () => expect(await stored(id)).toMatchObject({ taken_by: null, failures_in_row: 21 }));
  expect(receiver.received.length).toBe(before + 1);
  receiver.answer = status(200);
  receiver.received.length = 0;
  await makeDue(id);
  await wait(() => expect(namesOf(receiver).toSorted()).toEqual(names.toSorted()));
  await wait(async () =>
    expect(await stored(id)).toMatchObject({ failures_in_row: 0, failing_since: null, pending: 0 }),
  );
});

test('a failed delivery leaves an active endpoint behind its feed a time at which it is tried next, in every state', async () => {
  const states = [1, 19, 20, 40].flatMap((failures) => [0, 1].map((kept) => ({ failures, kept })));
  const walk = async ({ failures, kept }: (typeof states)[number]): Promise<void> => {
    const since = new Date().toISOString();
    const { customerId, receiver, id } = await start({}, status(500));
    await record(app, customerId, contacts('old'));
    const until = (state: object) =>
      wait(async () => expect(await stored(id)).toMatchObject({ taken_by: null, ...state }));
    await until({ pending: 1 });
    if (kept === 0) {
      await app.owner`update webhook_deliveries set attempt = 10 where endpoint_id = ${id} and due_at is not null`;
      await makeDue(id);
      await until({ pending: 0, given_up: '1' });
    }
    await app.owner`update webhook_endpoints set failures_in_row = ${failures} where id = ${id}`;
    await record(app, customerId, contacts('new', 'newer'));
    const again = () => replayEndpoint(management(customerId), id, since);
    await again();
    // As time goes by, all of it comes, and the replay ends.
    receiver.answer = status(200);
    await wait(async () => {
      await makeDue(id);
      expect(new Set(namesOf(receiver))).toEqual(new Set(['old', 'new', 'newer']));
      expect(await stored(id)).toMatchObject({ failures_in_row: 0, pending: 0 });
    });
    await again();
  };
  await Promise.all(states.map(walk));
});

test('a failed delivery with 410 disables the endpoint', async () => {
  const { customerId, receiver, id } = await start({}, status(410));
  await record(app, customerId, contacts('last'));
  await wait(async () => expect(await stored(id)).toMatchObject({ active: false, disabled_reason: 'gone' }));
  await record(app, customerId, contacts('unseen'));
  const audited = await app.owner`
      select event, actor, details ->> 'reason' as reason from audit_events
      where details ->> 'webhook' = ${id} order by id`;
  expect(audited.at(-1)).toEqual({ event: 'webhook.disabled', actor: 'service', reason: 'gone' });
  receiver.answer = status(200);
  receiver.received.length = 0;
  await updateEndpoint(management(customerId), id, { active: true });
  await record(app, customerId, contacts('new'));
  await expectOnly(receiver, id, ['last', 'new']);
});

test('a failed delivery disables an endpoint that only failed for five days, and no other', async () => {
  const { customerId, id } = await start({}, status(500));
  const other = await startReceiver(status(500));
  const { id: younger } = await makeEndpoint(app, customerId, other.url);
  await record(app, customerId, contacts('one'));
  for (const one of [id, younger]) await wait(async () => expect((await stored(one))['failures_in_row']).toBe(1));
  for (const one of [id, younger]) await wait(async () => expect((await stored(one))['taken_by']).toBeNull());
  await app.owner`update webhook_endpoints set failing_since = now() - interval '5 days' where id = ${id}`;
  await app.owner`update webhook_endpoints set failing_since = now() - interval '119 hours' where id = ${younger}`;
  for (const one of [id, younger]) await makeDue(one);
  await wait(async () => expect(await stored(id)).toMatchObject({ active: false, disabled_reason: 'failing' }));
  await wait(async () => expect((await stored(younger))['failures_in_row']).toBe(2));
  expect((await stored(younger))['active']).toBe(true);
});

test('an inactive endpoint gets what happened before and after, not what happened meanwhile; a replay sends that', async () => {
  const { customerId, receiver, id } = await start({}, status(500));
  const since = new Date().toISOString();
  const set = (active: boolean) => updateEndpoint(management(customerId), id, { active });
  const names = Array.from({ length: 22 }, (_, i) => `before ${i}`);
  await record(app, customerId, contacts(...names));
  await wait(async () => expect((await stored(id))['failures_in_row']).toBe(20));
  await set(false);
  await record(app, customerId, contacts('meanwhile'));
  await set(true);
  await set(false);
  await record(app, customerId, contacts('meanwhile again'));
  receiver.answer = status(200);
  receiver.received.length = 0;
  await set(true);
  await record(app, customerId, contacts('after'));
  await expectOnly(receiver, id, [...names, 'after']);
  receiver.received.length = 0;
  await replayEndpoint(management(customerId), id, since);
  await expectOnly(receiver, id, [...names, 'meanwhile', 'meanwhile again', 'after']);
});

test('a replay is under way until each event was tried once, one at a time, and does not begin before the endpoint', async () => {
  const { id: customerId } = await app.customer();
  await record(app, customerId, contacts('before'));
  const receiver = await startReceiver();
  const { id } = await makeEndpoint(app, customerId, receiver.url);
  await record(app, customerId, contacts('one', 'two'));
  await expectOnly(receiver, id, ['one', 'two']);
  receiver.received.length = 0;
  receiver.answer = status(500);
  await replayEndpoint(management(customerId), id, '2020-01-01T00:00:00Z');
  await expect(replayEndpoint(management(customerId), id, '2020-01-01T00:00:00Z')).rejects.toMatchObject({
    code: 'conflict',
  });
  await wait(() => expect(receiver.received.length).toBeGreaterThanOrEqual(2));
  expect(new Set(namesOf(receiver))).toEqual(new Set(['one', 'two']));
  receiver.answer = status(200);
  await makeDue(id);
  await wait(async () => expect((await stored(id))['pending']).toBe(0));
  await replayEndpoint(management(customerId), id, new Date(Date.now() + 3_600_000).toISOString());
});

test('what an old URL answers after its change concerns the new one not at all', async () => {
  const { customerId, receiver, id } = await start();
  const next = await startReceiver();
  const answer = hold(receiver);
  await record(app, customerId, contacts('one'));
  await wait(() => expect(receiver.open).toBe(1));
  await updateEndpoint(management(customerId), id, { url: next.url });
  answer(410);
  await wait(async () => expect(namesOf(next)).toEqual(['one']));
  const unharmed = { active: true, failing_since: null, last_failure_at: null, pending: 0 };
  await wait(async () => expect(await stored(id)).toMatchObject(unharmed));
});
