import { setImmediate as turn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { LookupSlots, maxInFlight } from '../../src/limits/lookup-slots.ts';

/** Look-ups that stay in flight until the test ends them, in the order in which they started. */
function held() {
  const begun: { name: string; end: (error?: Error) => void }[] = [];
  const lookUp = (name: string) => () =>
    new Promise<string>((resolve, reject) => {
      begun.push({ name, end: (error) => (error ? reject(error) : resolve(name)) });
    });
  return { begun, lookUp };
}

const names = (count: number, start = 0) => Array.from({ length: count }, (_, i) => `${start + i}`);

test('an address above its limit has a bounded number of look-ups in flight; the others follow in order', async () => {
  const { begun, lookUp } = held();
  const places = new LookupSlots();
  const run = (name: string) => places.run('192.0.2.1', async () => true, lookUp(name));
  const all = Promise.all(names(30).map(run));
  for (let ended = 0; ended < 30; ended += 1) {
    await turn();
    expect(begun.map(({ name }) => name)).toEqual(names(Math.min(30, ended + maxInFlight)));
    begun[ended]!.end();
  }
  expect(await all).toEqual(names(30));
});

test('an address within its limit has any number of look-ups in flight, also while another address is above its limit', async () => {
  const { begun, lookUp } = held();
  const places = new LookupSlots();
  const blocked = names(20).map((name) => places.run('192.0.2.1', async () => true, lookUp(name)));
  const free = names(50, 100).map((name) => places.run('192.0.2.2', async () => false, lookUp(name)));
  await turn();
  expect(begun).toHaveLength(maxInFlight + 50);
  for (let i = 0; i < begun.length; i += 1) {
    begun[i]!.end();
    await turn();
  }
  expect(await Promise.all([...blocked, ...free])).toHaveLength(70);
});

test('an address that exceeds its limit with too many look-ups in flight gets a slot only after enough of them end', async () => {
  const { begun, lookUp } = held();
  const places = new LookupSlots();
  let isPast = false;
  const run = (name: string) => places.run('192.0.2.1', async () => isPast, lookUp(name));
  const all = names(12).map(run);
  await turn();
  isPast = true;
  all.push(run('late'));
  for (let ended = 0; ended < 12; ended += 1) {
    await turn();
    expect(begun.length).toBe(12 - ended < maxInFlight ? 13 : 12);
    begun[ended]!.end();
  }
  await turn();
  begun[12]!.end();
  await Promise.all(all);
});

test('a failed look-up hands its slot to the next', async () => {
  const { begun, lookUp } = held();
  const places = new LookupSlots();
  const all = Promise.allSettled(names(20).map((name) => places.run('192.0.2.1', async () => true, lookUp(name))));
  for (let i = 0; i < 20; i += 1) {
    await turn();
    begun[i]!.end(new Error('the database is gone'));
  }
  expect((await all).map(({ status }) => status)).toEqual(names(20).map(() => 'rejected'));
});
