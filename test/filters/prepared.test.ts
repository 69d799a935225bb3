import { expect, test } from 'vitest';
import type { Sql } from '../../src/database/db.ts';
import type * as statements from '../../src/filters/sql.ts';

// A copy of its own, because other tests of this process have run statements.
const copy = '../../src/filters/sql.ts?copy';
const { recorder, run } = (await import(copy)) as typeof statements;

test('statements are prepared from their second run on, but only the first 100 of them', () => {
  const unsafe = (text: string, _parameters: unknown, { prepare }: { prepare: boolean }) => (prepare ? [text] : []);
  const sql = { unsafe } as unknown as Sql;
  const runAll = () => texts.flatMap((text) => run(sql, recorder.unsafe(text)) as unknown as string[]);
  const texts = [`select ${'1 + '.repeat(3_000)} 1`, ...Array.from({ length: 120 }, (_, i) => `select ${i}`)];
  expect(runAll()).toEqual([]);
  expect(runAll()).toEqual(texts.slice(1, 101));
  expect(runAll()).toEqual(texts.slice(1, 101));
});
