import { expect, test } from 'vitest';
import { batchLookups } from '../../src/database/db.ts';

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
