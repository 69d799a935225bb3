import { expect, test } from 'vitest';
import { batchLookups, recordReader, type SharedDatabase } from '../../src/database/db.ts';

type Found = { key: string; value: string };

const gatherTexts = (load: (keys: string[]) => Promise<Found[]>) =>
  batchLookups(
    (key: string) => key,
    load,
    (found) => found.key,
  );

/** Looks up keys by upper-casing them, and records the calls. */
function recordingLoad() {
  const calls: string[][] = [];
  const load = async (keys: string[]) => {
    calls.push(keys);
    return keys.filter((key) => key !== 'unknown').map((key) => ({ key, value: key.toUpperCase() }));
  };
  return { calls, load };
}

test('a call has at most the given number of keys', async () => {
  const { calls, load } = recordingLoad();
  const find = batchLookups(
    (key: string) => key,
    load,
    ({ key }) => key,
    2,
  );
  const found = await Promise.all(['a', 'b', 'a', 'c', 'd'].map(find));
  expect(found.map((one) => one?.value)).toEqual(['A', 'B', 'A', 'C', 'D']);
  expect(calls).toEqual([['a', 'b'], ['a', 'c'], ['d']]);
});

test('a look-up that arrives during a call waits for the next call', async () => {
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

test('records of one customer that are read at once share statements, and no customer shares one with another', async () => {
  const statements: string[] = [];
  const db = { for: () => ({ lookup: (work: (sql: never) => unknown) => work(undefined as never) }) };
  const read = recordReader(db as unknown as SharedDatabase, async (_sql, customerId, ids) => {
    statements.push(`${customerId}: ${ids.length}`);
    return ids.filter((id) => id !== 'unknown').map((id) => ({ id, of: customerId }));
  });
  const asked = [...Array.from({ length: 17 }, (_, i) => ['a', `${i}`]), ['a', 'unknown'], ['b', '0']] as const;
  const found = await Promise.all(asked.map(([customerId, id]) => read(customerId, id)));
  expect(found).toEqual(asked.map(([of, id]) => (id === 'unknown' ? undefined : { id, of })));
  expect(statements.toSorted()).toEqual(['a: 16', 'a: 2', 'b: 1']);
});
