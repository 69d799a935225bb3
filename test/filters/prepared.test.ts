import { expect, test, vi } from 'vitest';
import type { Sql } from '../../src/database/db.ts';

test('statements are prepared from their second run on, but only the first 100 of them', async () => {
  // Other tests of this process have run statements.
  vi.resetModules();
  const { recorder, run } = await import('../../src/filters/sql.ts');
  const prepared: string[] = [];
  const sql = {
    unsafe: async (text: string, _parameters: unknown[], { prepare }: { prepare: boolean }) => {
      if (prepare) prepared.push(text);
      return [];
    },
  } as unknown as Sql;
  const runAll = async () => {
    prepared.length = 0;
    for (const text of texts) await run(sql, recorder.unsafe(text));
    return prepared;
  };
  const texts = [`select ${'1 + '.repeat(3_000)} 1`, ...Array.from({ length: 120 }, (_, i) => `select ${i}`)];
  expect(await runAll()).toEqual([]);
  expect(await runAll()).toEqual(texts.slice(1, 101));
  expect(await runAll()).toEqual(texts.slice(1, 101));
});
