import { setImmediate as turn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { BufferBudget } from '../../src/limits/buffer-budget.ts';

const never = new AbortController().signal;

test('a holder gets at most half of the bytes, two get at most a third each', () => {
  const budget = new BufferBudget(1_200);
  const fill = (holder: string) => {
    let taken = 0;
    while (budget.tryReserve(holder, 10)) taken += 10;
    return taken;
  };
  expect(fill('a')).toBe(600);
  expect(fill('b')).toBe(300);
  expect(budget.tryReserve('c', 300)).toBeDefined();
  expect(budget.tryReserve('d', 1)).toBeUndefined();
});

test('bytes that were released are free again, once', () => {
  const budget = new BufferBudget(100);
  const release = budget.tryReserve('a', 50)!;
  expect(budget.tryReserve('a', 1)).toBeUndefined();
  release();
  release();
  expect(budget.taken).toBe(0);
  expect(budget.tryReserve('a', 50)).toBeDefined();
});

test('what is larger than half of the budget counts as half', () => {
  const budget = new BufferBudget(100);
  expect(budget.tryReserve('a', 1_000)).toBeDefined();
  expect(budget.taken).toBe(50);
});

test('those who wait get room in order of arrival, and one that gives up gets none', async () => {
  const budget = new BufferBudget(100);
  const held = budget.tryReserve('a', 50)!;
  const admitted: string[] = [];
  const wait = (name: string, signal = never) =>
    budget.reserve('a', 20, signal).then((release) => {
      admitted.push(name);
      return release;
    });
  const leaving = new AbortController();
  const [first, second, third] = [wait('first'), wait('second', leaving.signal), wait('third')];
  leaving.abort();
  await second;
  expect(admitted).toEqual(['second']);
  expect(budget.taken).toBe(50);
  held();
  await turn();
  expect(admitted).toEqual(['second', 'first', 'third']);
  for (const release of [await first, await second, await third]) release();
  expect(budget.taken).toBe(0);
});
