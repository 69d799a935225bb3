import { expect, test } from 'vitest';
import { contactSource } from '../../src/filters/columns.ts';
import { parseFilters } from '../../src/filters/parse.ts';
import { record, recorder } from '../../src/filters/sql.ts';
import { toSql } from '../../src/filters/to-sql.ts';

test('the text of a statement contains no value from the caller', () => {
  const word = 'injected';
  const values = [word, { contains: word }, { between: [word, word] }, [word, `${word}'`]];
  const filters = values.flatMap((value) => [{ last_name: value }, { [`custom_fields.${word}`]: value }]);
  for (const one of [...filters, { search: word }]) {
    const parsed = parseFilters(contactSource.fields, one);
    expect(record(toSql(recorder, contactSource, crypto.randomUUID(), parsed)).text).not.toContain(word);
  }
});
