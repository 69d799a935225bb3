import { createHash } from 'node:crypto';
import { expect, test } from 'vitest';
import { toDocument, usualSpelling } from '../../../src/catalog/document.ts';
import { namesOf, peopleIndex } from '../../../src/catalog/elasticsearch/indexes.ts';
import { toSource } from '../../../src/catalog/elasticsearch/search.ts';
import { parseConfig } from '../../../src/process/config.ts';
import { person } from '../people.ts';

test('the layout version increases when the index format changes', () => {
  const config = parseConfig({});
  const example = person({ _id: '01234567-89ab-4def-8123-456789abcdef', last_name: 'de Lovelace' });
  const kept = [peopleIndex(config).mappings, toSource(toDocument(example), [])];
  const digest = createHash('sha256').update(JSON.stringify(kept)).digest('hex').slice(0, 12);
  // Keys for matching and provenance are optional: documents without them stay readable.
  // If only the digest differs, increase `layout` in src/catalog/elasticsearch/indexes.ts.
  expect(`${namesOf(config).people} ${digest}`).toBe('sales-data-prospects-v1 68560048281a');
});

// Catalogs store many texts only in their folded form. If the usual spelling changed, these stored texts would change.
test.each([
  ['', ''],
  ["o'neil & sons (uk)", "O'Neil & Sons (Uk)"],
  ['o’neil', 'O’neil'],
  ['3m 2nd', '3m 2nd'],
  ['σισυφοσ', 'Σισυφοσ'],
  ['ֆոլդ დავით 東京 x東', 'ֆոլդ დავით 東京 X東'],
])('the usual spelling of %j is %j', (folded, usual) => {
  expect(usualSpelling(folded)).toBe(usual);
});
