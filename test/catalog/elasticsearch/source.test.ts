import { createHash } from 'node:crypto';
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { toDocument, usualSpelling } from '../../../src/catalog/document.ts';
import { namesOf, peopleIndex } from '../../../src/catalog/elasticsearch/indexes.ts';
import { fromSource, toSource, type PersonSource } from '../../../src/catalog/elasticsearch/search.ts';
import { parseConfig } from '../../../src/process/config.ts';
import type { Prospect } from '../../../src/schemas/prospects.ts';
import { anyPerson, person } from '../people.ts';

/** Converts a prospect to its source and back. */
const keptAndRead = (prospect: Prospect): Prospect => {
  const source = JSON.stringify(toSource(toDocument(prospect), []));
  return fromSource(prospect._id, JSON.parse(source) as PersonSource);
};

test('a person that was converted to a source and back is exactly the same', () => {
  fc.assert(
    fc.property(anyPerson, (prospect) => {
      expect(keptAndRead(prospect)).toEqual(prospect);
    }),
    { numRuns: 2_000 },
  );
});

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
