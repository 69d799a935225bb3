import { setImmediate as turn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { type Limit, UnauthenticatedLimit } from '../../src/access/rate-limits.ts';

/** Returns a limit whose quota `past` has used up. */
async function limitOf(past: string): Promise<UnauthenticatedLimit> {
  const count = async () => ({ limit: { quota: 2 }, used: 2, msLeft: 60_000 });
  const limit = new UnauthenticatedLimit({ quota: 2, count } as unknown as Limit);
  await limit.count(past);
  return limit;
}

/** Look-ups that run until the test ends them, in the order in which they started. */
function held() {
  const begun: { name: string; end: (error?: Error) => void }[] = [];
  const lookUp = (name: string) => () =>
    new Promise<string>((resolve, reject) => {
      begun.push({ name, end: (error) => (error ? reject(error) : resolve(name)) });
    });
  return { begun, lookUp };
}

const names = (count: number, start = 0) => Array.from({ length: count }, (_, i) => `${start + i}`);
const [guessing, honest] = ['192.0.2.1', '192.0.2.2'];

test('an address within its limit has any number of look-ups at once, also while another address is above its limit', async () => {
  const { begun, lookUp } = held();
  const limit = await limitOf(guessing);
  const blocked = names(20).map((name) => limit.lookUp(guessing, lookUp(name)));
  const free = names(50, 100).map((name) => limit.lookUp(honest, lookUp(name)));
  await turn();
  expect(begun).toHaveLength(8 + 50);
  for (let i = 0; i < begun.length; i += 1) {
    begun[i]!.end();
    await turn();
  }
  expect(await Promise.all([...blocked, ...free])).toHaveLength(70);
});

test('a failed look-up hands its slot to the next', async () => {
  const { begun, lookUp } = held();
  const limit = await limitOf(guessing);
  const all = Promise.allSettled(names(20).map((name) => limit.lookUp(guessing, lookUp(name))));
  for (let i = 0; i < 20; i += 1) {
    await turn();
    begun[i]!.end(new Error('the database is gone'));
  }
  expect((await all).map(({ status }) => status)).toEqual(names(20).map(() => 'rejected'));
});
