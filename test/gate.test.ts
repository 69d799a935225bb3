import { describe, expect, test } from 'vitest';
import { Gate } from '../src/gate.ts';

/** A work that stays inside until it is told to leave. */
function held(): { work: () => Promise<void>; leave: () => void } {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { work: () => promise, leave: resolve };
}

const busy = { code: 'unavailable', retryAfter: 1 };

describe('a gate', () => {
  test('lets so many in and no more', async () => {
    const gate = new Gate({ limit: 2, maxWaiting: 10, maxWaitMs: 10_000 });
    let inside = 0;
    let most = 0;
    const work = async () => {
      most = Math.max(most, (inside += 1));
      await new Promise(setImmediate);
      inside -= 1;
    };
    await Promise.all(Array.from({ length: 12 }, () => gate.run(work)));
    expect(most).toBe(2);
    expect([gate.inside, gate.waiting]).toEqual([0, 0]);
  });

  test('admits in the order of arrival', async () => {
    const gate = new Gate({ limit: 1, maxWaiting: 10, maxWaitMs: 10_000 });
    const order: number[] = [];
    await Promise.all([1, 2, 3, 4].map((number) => gate.run(async () => void order.push(number))));
    expect(order).toEqual([1, 2, 3, 4]);
  });

  test('refuses at once when too many wait', async () => {
    const gate = new Gate({ limit: 1, maxWaiting: 1, maxWaitMs: 10_000 });
    const first = held();
    const works = [gate.run(first.work), gate.run(async () => 'second')];
    await expect(gate.run(async () => 'third')).rejects.toMatchObject(busy);
    first.leave();
    expect(await Promise.all(works)).toEqual([undefined, 'second']);
  });

  test('refuses whoever has waited too long, and keeps the place for the others', async () => {
    const gate = new Gate({ limit: 1, maxWaiting: 10, maxWaitMs: 20 });
    const first = held();
    const running = gate.run(first.work);
    await expect(gate.run(async () => 'late')).rejects.toMatchObject(busy);
    expect([gate.inside, gate.waiting]).toEqual([1, 0]);
    const next = gate.run(async () => 'in time');
    first.leave();
    expect(await next).toBe('in time');
    await running;
    expect(gate.inside).toBe(0);
  });

  test('gives the place back when the work fails, also at once', async () => {
    const gate = new Gate({ limit: 1, maxWaiting: 0, maxWaitMs: 1 });
    const fault = new Error('fault');
    await expect(gate.run(() => Promise.reject(fault))).rejects.toBe(fault);
    const throwing = () => {
      throw fault;
    };
    await expect(gate.run(throwing)).rejects.toBe(fault);
    expect(await gate.run(async () => 'free')).toBe('free');
  });

  test('leaves no timer behind', async () => {
    const gate = new Gate({ limit: 1, maxWaiting: 10, maxWaitMs: 3_600_000 });
    const timers = () => process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length;
    const before = timers();
    await Promise.all([1, 2, 3].map(() => gate.run(() => new Promise(setImmediate))));
    expect(timers()).toBe(before);
  });

  test('once closed admits nobody new, and tells when the last one has left', async () => {
    const gate = new Gate({ limit: 1, maxWaiting: 10, maxWaitMs: 10_000 });
    const first = held();
    const works = [gate.run(first.work), gate.run(async () => 'was waiting')];
    const closed = gate.close();
    await expect(gate.run(async () => 'new')).rejects.toMatchObject(busy);
    expect(await Promise.race([closed, Promise.resolve('open')])).toBe('open');
    first.leave();
    expect(await Promise.all(works)).toEqual([undefined, 'was waiting']);
    await closed;
    await expect(gate.close()).resolves.toBeUndefined();
  });
});
