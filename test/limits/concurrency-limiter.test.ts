import { expect, test } from 'vitest';
import { ConcurrencyLimiter } from '../../src/access/concurrency-limiter.ts';
import { CallerHungUp } from '../../src/access/credentials.ts';

/** An operation that runs until it is told to end. */
function held(): { work: () => Promise<void>; leave: () => void } {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { work: () => promise, leave: resolve };
}

const busy = { code: 'unavailable', retryAfter: 1 };

test('a limiter rejects operations that waited too long, and keeps the slot for the others', async () => {
  const limiter = new ConcurrencyLimiter({ name: 'test', limit: 1, maxWaiting: 10, maxWaitMs: 20 });
  const first = held();
  const running = limiter.runAlone(first.work);
  await expect(limiter.runAlone(async () => 'late')).rejects.toMatchObject(busy);
  expect([limiter.inside, limiter.waiting]).toEqual([1, 0]);
  const next = limiter.runAlone(async () => 'in time');
  first.leave();
  expect(await next).toBe('in time');
  await running;
  expect(limiter.inside).toBe(0);
});

const turn = (): Promise<void> => new Promise(setImmediate);

test('customers get an abort error at once; an operation that runs keeps its slot until it ends', async () => {
  const limiter = new ConcurrencyLimiter({ name: 'test', limit: 1, maxWaiting: 10, maxWaitMs: 10_000 });
  const [begun, waiting] = [new AbortController(), new AbortController()];
  const first = held();
  const running = limiter.run({ customerId: 'one', signal: begun.signal }, first.work);
  const queued = limiter.run({ customerId: 'other', signal: waiting.signal }, async () => 'never');
  waiting.abort(new CallerHungUp());
  await expect(queued).rejects.toBeInstanceOf(CallerHungUp);
  expect([limiter.inside, limiter.waiting]).toEqual([1, 0]);
  begun.abort(new CallerHungUp());
  await expect(running).rejects.toBeInstanceOf(CallerHungUp);
  expect(limiter.inside).toBe(1);
  first.leave();
  await turn();
  expect(limiter.inside).toBe(0);
  const late = limiter.run({ customerId: 'one', signal: begun.signal }, async () => 'never');
  await expect(late).rejects.toBeInstanceOf(CallerHungUp);
  expect(limiter.inside).toBe(0);
});

test('customers share the slots: none takes those that others could need', async () => {
  const limiter = new ConcurrencyLimiter({ name: 'test', limit: 4, maxWaiting: 10, maxWaitMs: 60_000 });
  const entered: string[] = [];
  const begin = (customerId: string, count: number) =>
    Array.from({ length: count }, () => {
      const { work, leave } = held();
      const done = limiter.run({ customerId }, async () => (entered.push(customerId), work()));
      return { leave, done: done.catch((error: { code: string }) => error.code) };
    });
  const greedy = begin('greedy', 9);
  expect([limiter.inside, limiter.waiting]).toEqual([2, 5]);
  for (const refused of greedy.splice(7)) expect(await refused.done).toBe('unavailable');
  const [modest, other] = [begin('modest', 2), begin('other', 2)];
  expect([limiter.inside, limiter.waiting]).toEqual([4, 7]);
  for (const works of [greedy, modest, other, greedy]) {
    works.shift()!.leave();
    await turn();
  }
  expect(entered).toEqual(['greedy', 'greedy', 'modest', 'other', 'modest', 'other', 'greedy']);
  const left = [...greedy, ...modest, ...other];
  for (const { leave } of left) leave();
  await Promise.all(left.map(({ done }) => done));
  expect([limiter.inside, limiter.waiting]).toEqual([0, 0]);
});
