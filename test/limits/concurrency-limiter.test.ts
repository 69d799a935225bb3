import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { ConcurrencyLimiter, type ConcurrencyLimits } from '../../src/access/concurrency-limiter.ts';
import { CallerHungUp, type Requester } from '../../src/access/credentials.ts';

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

test('a limiter lets an operation of long work wait as long as its requester says', async () => {
  const limiter = new ConcurrencyLimiter({ name: 'test', limit: 1, maxWaiting: 10, maxWaitMs: 1 });
  const first = held();
  const running = limiter.runAlone(first.work);
  const waiting = limiter.run({ customerId: 'a', waitMs: 60_000 }, async () => 'in time');
  await expect(limiter.run({ customerId: 'b' }, async () => 'late')).rejects.toMatchObject(busy);
  await expect(limiter.run({ customerId: 'c', waitMs: 2 }, async () => 'late')).rejects.toMatchObject(busy);
  first.leave();
  expect(await waiting).toBe('in time');
  await running;
});

test('a limiter leaves no timer behind', async () => {
  const limiter = new ConcurrencyLimiter({ name: 'test', limit: 1, maxWaiting: 10, maxWaitMs: 3_600_000 });
  const timers = () => process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length;
  const before = timers();
  await Promise.all([1, 2, 3].map(() => limiter.runAlone(() => new Promise(setImmediate))));
  expect(timers()).toBeLessThanOrEqual(before);
});

test('a limiter once closed admits no new operation, and resolves when the last one has ended', async () => {
  const limiter = new ConcurrencyLimiter({ name: 'test', limit: 1, maxWaiting: 10, maxWaitMs: 10_000 });
  const first = held();
  const works = [limiter.runAlone(first.work), limiter.runAlone(async () => 'was waiting')];
  const closed = limiter.close();
  await expect(limiter.runAlone(async () => 'new')).rejects.toMatchObject(busy);
  expect(await Promise.race([closed, Promise.resolve('open')])).toBe('open');
  first.leave();
  expect(await Promise.all(works)).toEqual([undefined, 'was waiting']);
  await closed;
  await expect(limiter.close()).resolves.toBeUndefined();
});

const turn = (): Promise<void> => new Promise(setImmediate);

/** Requests this many slots for a customer at once. Returns the slots it holds. */
const ask = (limiter: ConcurrencyLimiter, customerId: string, count: number) =>
  Array.from({ length: count }, () => {
    const { work, leave } = held();
    const done = limiter.run({ customerId }, work).then(
      () => 'done',
      (error: { code: string }) => error.code,
    );
    return { leave, done };
  });

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

test('customers wait in all limiters together no longer than `retryTimeoutMs`', async () => {
  const limiters = [1, 2].map(
    () => new ConcurrencyLimiter({ name: 'test', limit: 1, maxWaiting: 10, maxWaitMs: 60_000 }),
  );
  const holders = limiters.map((limiter) => ask(limiter, 'other', 1)[0]!);
  const requester: Requester = { customerId: 'one', retryTimeoutMs: 60_000 };
  const first = limiters[0]!.run(requester, async () => 'in time');
  setTimeout(holders[0]!.leave, 20);
  expect(await first).toBe('in time');
  expect(requester.retryTimeoutMs).toBeLessThan(60_000);
  requester.retryTimeoutMs = 20;
  await expect(limiters[1]!.run(requester, async () => 'late')).rejects.toMatchObject(busy);
  // A timer of Node can fire up to a millisecond early.
  expect(requester.retryTimeoutMs).toBeLessThan(1);
  holders[1]!.leave();
});

test('a limiter without a limit holds each holder to its own, whatever others do', async () => {
  const lookUps = new ConcurrencyLimiter({ name: 'test', limit: Infinity, perHolder: 8 });
  const ends: (() => void)[] = [];
  const one = () => new Promise<void>((resolve) => void ends.push(resolve));
  const all = ['a', 'b'].flatMap((customerId) => Array.from({ length: 30 }, () => lookUps.run({ customerId }, one)));
  expect([lookUps.inside, lookUps.waiting]).toEqual([16, 44]);
  for (let ended = 0; ended < 60; ended += 1) {
    await turn();
    expect(ends.length - ended).toBeLessThanOrEqual(16);
    ends[ended]!();
  }
  await Promise.all(all);
  expect([lookUps.inside, lookUps.waiting]).toEqual([0, 0]);
});

/** A simple model of a limiter: which operations run and which wait, by customer, in order. */
class Model {
  readonly inside: Work[] = [];
  readonly waiting: Work[] = [];
  /** Customers in the order in which they are served next. */
  readonly turns: string[] = [];
  readonly #limits: Required<Pick<ConcurrencyLimits, 'limit' | 'maxWaiting'>>;

  constructor(limits: Required<Pick<ConcurrencyLimits, 'limit' | 'maxWaiting'>>) {
    this.#limits = limits;
  }

  #admits(places: Work[], count: number, { customer }: Work): boolean {
    const free = count - places.length;
    const held = places.filter((one) => one.customer === customer).length;
    return free > 0 && (held === 0 || held + 1 <= free - 1);
  }

  arrive(work: Work): void {
    const isFirst = !this.waiting.some(({ customer }) => customer === work.customer);
    if (isFirst && this.#admits(this.inside, this.#limits.limit, work)) return void this.inside.push(work);
    if (!this.#admits(this.waiting, this.#limits.maxWaiting, work)) return;
    if (isFirst) this.turns.push(work.customer);
    this.waiting.push(work);
  }

  leave(work: Work): void {
    this.inside.splice(this.inside.indexOf(work), 1);
    for (let next = this.#next(); next; next = this.#next()) {
      this.giveUp(next);
      if (this.waiting.some(({ customer }) => customer === next.customer)) {
        this.turns.splice(this.turns.indexOf(next.customer), 1);
        this.turns.push(next.customer);
      }
      this.inside.push(next);
    }
  }

  giveUp(work: Work): void {
    this.waiting.splice(this.waiting.indexOf(work), 1);
    if (!this.waiting.some(({ customer }) => customer === work.customer))
      this.turns.splice(this.turns.indexOf(work.customer), 1);
  }

  #next(): Work | undefined {
    const first = this.turns.map((name) => this.waiting.find(({ customer }) => customer === name)!);
    return first.find((work) => this.#admits(this.inside, this.#limits.limit, work));
  }
}

interface Work {
  id: number;
  customer: string;
  isInside: boolean;
  leave: () => void;
  giveUp: () => void;
}

test('a limiter behaves like its model for random sequences of operations', async () => {
  const step = fc.record({
    what: fc.constantFrom('arrive', 'arrive', 'arrive', 'leave', 'leave', 'give up'),
    customer: fc.constantFrom('a', 'b', 'c', 'd'),
    which: fc.nat(),
  });
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 1, max: 9 }),
      fc.integer({ min: 0, max: 9 }),
      fc.array(step, { maxLength: 60 }),
      async (limit, maxWaiting, steps) => {
        const limits = { name: 'test', limit, maxWaiting, maxWaitMs: 60_000 };
        const [limiter, model] = [new ConcurrencyLimiter(limits), new Model(limits)];
        const all: Work[] = [];
        const arrive = (customer: string): Work => {
          const { work, leave } = held();
          const controller = new AbortController();
          const one = {
            id: all.length,
            customer,
            isInside: false,
            leave,
            giveUp: () => controller.abort(new CallerHungUp()),
          };
          const inside = async () => {
            one.isInside = true;
            await work();
            one.isInside = false;
          };
          limiter.run({ customerId: customer, signal: controller.signal }, inside).catch(() => undefined);
          all.push(one);
          return one;
        };
        const end = (one: Work, what: string) => {
          const how = what === 'leave' ? 'leave' : 'giveUp';
          one[how]();
          model[how](one);
        };
        for (const { what, customer, which } of steps) {
          if (what === 'arrive') model.arrive(arrive(customer));
          const from = what === 'leave' ? model.inside : what === 'give up' ? model.waiting : [];
          const one = from[which % from.length];
          if (one) end(one, what);
          await turn();
          const ids = (works: Work[]) => works.map(({ id }) => id).toSorted((a, b) => a - b);
          expect(ids(all.filter(({ isInside }) => isInside))).toEqual(ids(model.inside));
          expect([limiter.inside, limiter.waiting]).toEqual([model.inside.length, model.waiting.length]);
        }
        const closed = limiter.close();
        while (model.inside.length > 0) {
          const [one] = model.inside;
          one!.leave();
          model.leave(one!);
          await turn();
        }
        await closed;
        expect([limiter.inside, limiter.waiting]).toEqual([0, 0]);
      },
    ),
    { numRuns: 200 },
  );
});
