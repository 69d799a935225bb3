import { expect, test } from 'vitest';
import { Pace } from '../../src/network/pace.ts';

/** Returns what each measurement says about the last three intervals. */
function growth(...measured: number[]): number[] {
  const pace = new Pace(3);
  return measured.map((bytes) => pace.add(bytes));
}

test('the growth is that of the last intervals, known when there are as many', () => {
  expect(growth(5, 6, 8, 9, 9, 9, 9, 20)).toEqual([Infinity, Infinity, Infinity, 4, 3, 1, 0, 11]);
});

test('an early measurement that was too high is corrected by later ones', () => {
  expect(growth(900, 10, 20, 30, 40)).toEqual([Infinity, Infinity, Infinity, 20, 30]);
});

test('measurements before a reset do not count', () => {
  const pace = new Pace(1);
  pace.add(1);
  pace.reset();
  expect([pace.add(5), pace.add(6)]).toEqual([Infinity, 1]);
});
