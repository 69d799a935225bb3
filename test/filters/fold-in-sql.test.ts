import { expect, test } from 'vitest';
import { fold, foldInSql } from '../../src/text/fold.ts';
import { startApp } from '../setup/app.ts';

const app = await startApp();

/** Texts with letters that this server's Unicode does not have yet are left out. */
const foldedBy = (texts: string[]) =>
  app.owner.unsafe<{ given: string; folded: string }[]>(
    `select given, ${foldInSql('given')} as folded from unnest($1::text[]) as t (given) where unicode_assigned(given)`,
    [texts],
  );

const expectSame = (rows: { given: string; folded: string }[]) =>
  expect(rows.filter(({ given, folded }) => folded !== fold(given))).toEqual([]);

test('PostgreSQL folds each character as this program does', async () => {
  const texts = Array.from({ length: 0x10ffff }, (_, i) => i + 1)
    .filter((code) => code < 0xd800 || code > 0xdfff)
    .map((code) => `a${String.fromCodePoint(code)} B`);
  for (let i = 0; i < texts.length; i += 100_000) expectSame(await foldedBy(texts.slice(i, i + 100_000)));
});

test('PostgreSQL folds texts with several marks, spaces and capitals as this program does', async () => {
  const given = ['', '  ', ' Ada \t\n Lovelace\u00a0', 'STRASSE Straße ΣΑΣ σας', 'e\u0301\u0323E', 'Æsir ŒUVRE Þor ĲØ'];
  const rows = await foldedBy([...given, '\u3000x\ufeff', 'İI ıi', '\u0301']);
  expect(rows).toHaveLength(given.length + 3);
  expectSame(rows);
});
