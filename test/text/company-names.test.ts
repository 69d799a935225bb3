import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { externalName } from '../../src/text/fold.ts';

/** Real companies: the name as registers have it, and the name by which people know the company. */
const companies = readFileSync(join(import.meta.dirname, 'company-names.tsv'), 'utf8')
  .trimEnd()
  .split('\n')
  .filter((line) => !line.startsWith('#'))
  .map((line) => line.split('\t') as [registered: string, known: string]);

test('the external name of companies of many countries lacks their legal form and punctuation, and nothing else', () => {
  // Folding splits the marks of katakana, so these names are compared in the same form.
  const expected = companies.map(([registered, known]) => [
    registered,
    /^[ -~]*$/.test(known) ? known : externalName(known),
  ]);
  expect(companies.map(([registered]) => [registered, externalName(registered)])).toEqual(expected);
  expect(externalName('—')).toBe('');
});
