import { expect, test } from 'vitest';
import { batchLookups, recordReader, type SharedDatabase } from '../../src/database/db.ts';

test('a look-up that arrives during a call waits for the next call, which can know what is new', async () => {
  const calls: PromiseWithResolvers<string>[] = [];
  const find = batchLookups(
    (key: string) => key,
    async (keys) => {
      const value = await calls[calls.push(Promise.withResolvers<string>()) - 1]!.promise;
      return keys.map((key) => ({ key, value }));
    },
    ({ key }) => key,
  );
  const early = find('a');
  await new Promise(setImmediate);
  const late = find('a');
  await new Promise(setImmediate);
  for (const [i, value] of ['before', 'after'].entries()) calls[i]!.resolve(value);
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
