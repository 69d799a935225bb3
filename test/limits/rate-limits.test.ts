import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { Limit, maxKeys } from '../../src/access/rate-limits.ts';

// Only the clock is fake: a window lasts a minute.
beforeEach(() => void vi.useFakeTimers({ toFake: ['Date', 'performance', 'setTimeout', 'clearTimeout'] }));
afterEach(() => void vi.useRealTimers());

const wait = (seconds: number) => vi.advanceTimersByTime(seconds * 1000);
const usedBy = async (limit: Limit, key = 'one') => (await limit.read(key)).used;

test('a counted request is not reverted in the next window, which counts other requests', async () => {
  const limit = new Limit('login', 100, undefined);
  const use = await limit.count('one');
  wait(60);
  await limit.giveBack('one', use);
  expect(await usedBy(limit)).toBe(0);
  await limit.count('one');
  await limit.giveBack('one', use);
  expect(await usedBy(limit)).toBe(1);
});

test('the memory of one process holds a bounded number of windows; a further one replaces the oldest', async () => {
  const limit = new Limit('unauthenticated', 100, undefined);
  await limit.count('first');
  await limit.count('second');
  for (let i = 2; i < maxKeys; i += 1) await limit.count(`${i}`);
  expect([await usedBy(limit, 'first'), await usedBy(limit, 'second')]).toEqual([1, 1]);
  await limit.count('one more');
  expect([await usedBy(limit, 'first'), await usedBy(limit, 'second')]).toEqual([0, 1]);
});
