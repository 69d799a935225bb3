import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { externalName } from '../../src/text/fold.ts';

/** Real companies: the name as registers have it, and the name by which people know the company. */
const companies = readFileSync(join(import.meta.dirname, 'company-names.tsv'), 'utf8')
  .trimEnd()
  .split('\n')
  .filter((line) => !line.startsWith('#'))
  .map((line) => line.split('\t') as [registered: string, known: string]);

describe('the external name of a company', () => {
  test('a hundred companies of ten countries lose their legal form and punctuation, and nothing else', () => {
    expect(companies).toHaveLength(100);
    // Folding splits the marks of katakana, so these names are compared in the same form.
    const expected = companies.map(([registered, known]) => [
      registered,
      /^[ -~]*$/.test(known) ? known : externalName(known),
    ]);
    expect(companies.map(([registered]) => [registered, externalName(registered)])).toEqual(expected);
  });

  test('forms in front, in brackets and one after the other are recognised', () => {
    expect(externalName('ООО «Ромашка»')).toBe(externalName('Ромашка'));
    expect(externalName('PT Astra International Tbk')).toBe('astra international');
    expect(externalName('Cemex, S.A.B. de C.V.')).toBe('cemex');
    expect(externalName('Femsa S. de R.L. de C.V.')).toBe('femsa');
    expect(externalName('삼성전자 주식회사')).toBe(externalName('삼성전자'));
    expect(externalName('华为技术有限公司')).toBe(externalName('华为技术'));
  });

  test('a name that is nothing but a legal form stays, and one without letters is empty', () => {
    expect([externalName('Limited'), externalName('Co. Ltd.'), externalName('—'), externalName('')]).toEqual([
      'limited',
      'co',
      '',
      '',
    ]);
  });
});
