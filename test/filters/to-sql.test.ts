import { describe, expect, test } from 'vitest';
import { companySource, contactSource } from '../../src/filters/columns.ts';
import { parseFilters } from '../../src/filters/parse.ts';
import { recorder } from '../../src/filters/sql.ts';
import { toSql } from '../../src/filters/to-sql.ts';
import type { GivenFilters } from '../../src/schemas/filters.ts';
import { printed } from './printed.ts';

const customerId = '0197a1b2-c3d4-7e5f-8a9b-000000000001';

const contacts = (filters: GivenFilters) =>
  printed(toSql(recorder, contactSource, customerId, parseFilters(contactSource.fields, filters)));
const companies = (filters: GivenFilters) =>
  printed(toSql(recorder, companySource, customerId, parseFilters(companySource.fields, filters)));

describe('the SQL of', () => {
  test('a filter on companies uses the companies table', () => {
    expect(companies({ company_name: 'x', created_at: { lt: '1970-01-01T00:00:00Z' } })).toEqual({
      text: `((co.folded ->> 'company_name') collate "C" = $1::text and co.id < $2::uuid)`,
      parameters: ['x', '00000000-0000-0000-0000-000000000000'],
    });
  });

  test('the SQL text contains no value from the caller', () => {
    const word = 'injected';
    const values = [word, { contains: word }, { between: [word, word] }, [word, `${word}'`]];
    const filters = values.flatMap((value) => [{ last_name: value }, { [`custom_fields.${word}`]: value }]);
    for (const one of [...filters, { search: word }]) expect(contacts(one).text).not.toContain(word);
  });
});
