import { expect, test } from 'vitest';
import { gather } from '../src/gather.ts';

type Found = { key: string; value: string };

const gatherTexts = (load: (keys: string[]) => Promise<Found[]>) =>
  gather(
    (key: string) => key,
    load,
    (found) => found.key,
  );

/** Looks keys up by upper-casing them, and remembers what it was asked. */
function recordingLoad() {
  const calls: string[][] = [];
  const load = async (keys: string[]) => {
    calls.push(keys);
    return keys.filter((key) => key !== 'unknown').map((key) => ({ key, value: key.toUpperCase() }));
  };
  return { calls, load };
}

test('look-ups of one turn of the event loop are one call, each key once', async () => {
  const { calls, load } = recordingLoad();
  const find = gatherTexts(load);
  const later = new Promise((resolve) => process.nextTick(resolve)).then(() => find('c'));
  const found = await Promise.all([find('b'), find('a'), find('b'), later]);
  expect(found.map((one) => one?.value)).toEqual(['B', 'A', 'B', 'C']);
  expect(calls).toEqual([['b', 'a', 'c']]);
});

test('a key that nothing is known of gets nothing', async () => {
  expect(await gatherTexts(recordingLoad().load)('unknown')).toBeUndefined();
});

test('a look-up that comes while a call is under way is not answered by it', async () => {
  const calls: { keys: string[]; finish: (value: string) => void }[] = [];
  const find = gatherTexts(
    (keys) =>
      new Promise((resolve) => {
        calls.push({ keys, finish: (value) => resolve(keys.map((key) => ({ key, value }))) });
      }),
  );
  const nextTurn = () => new Promise((resolve) => setImmediate(resolve));
  const early = find('a');
  await nextTurn();
  const late = find('a');
  await nextTurn();
  expect(calls.map((call) => call.keys)).toEqual([['a'], ['a']]);
  calls[0]!.finish('before');
  calls[1]!.finish('after');
  expect((await Promise.all([early, late])).map((one) => one?.value)).toEqual(['before', 'after']);
});

test('a call that fails fails for everyone in it, and for nobody after it', async () => {
  let failing = true;
  const find = gatherTexts(async (keys) => {
    if (failing) throw new Error('no answer');
    return keys.map((key) => ({ key, value: 'found' }));
  });
  const settled = await Promise.allSettled([find('a'), find('b')]);
  expect(settled.map((one) => one.status)).toEqual(['rejected', 'rejected']);
  failing = false;
  expect(await find('a')).toEqual({ key: 'a', value: 'found' });
});
