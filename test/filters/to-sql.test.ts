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
  test.each<[string, GivenFilters, string, unknown[]]>([
    ['no filter', {}, 'true', []],
    ['a text', { last_name: 'Łódź' }, `(c.folded ->> 'last_name') collate "C" = $1::text`, ['lodz']],
    [
      'any of several texts',
      { last_name: ['A', 'B', 'a'] },
      `(c.folded ->> 'last_name') collate "C" = any($1::text[])`,
      [['a', 'b']],
    ],
    ['an empty array', { last_name: [] }, 'false', []],
    ['an empty text', { job_title: null }, `coalesce(c.job_title, '') = ''`, []],
    ['an empty number', { birth_year: null }, 'c.birth_year is null', []],
    [
      'a complement',
      { last_name: { ne: 'a' } },
      `((c.folded ->> 'last_name') collate "C" = $1::text) is not true`,
      ['a'],
    ],
    [
      'a contained text with special characters of like',
      { job_title: { contains: '50%_\\' } },
      `(c.folded ->> 'job_title') collate "C" like $1`,
      [String.raw`%50\%\_\\%`],
    ],
    [
      'a text at the start',
      { job_title: { starts_with: 'x' } },
      `(c.folded ->> 'job_title') collate "C" like $1`,
      ['x%'],
    ],
    ['a text at the end', { job_title: { ends_with: 'x' } }, `(c.folded ->> 'job_title') collate "C" like $1`, ['%x']],
    [
      'a range',
      { score: { between: [1, 5], ne: 3 } },
      '((c.score >= $1::integer and c.score <= $2::integer) and (c.score = $3::integer) is not true)',
      ['1', '5', '3'],
    ],
    [
      'alternatives',
      { gender: 'f', _or: [{ score: 1 }, { score: 2, gender: null }] },
      `((c.folded ->> 'gender') collate "C" = $1::text and (c.score = $2::integer or (c.score = $3::integer and coalesce(c.gender, '') = '')))`,
      ['f', '1', '2'],
    ],
    [
      'a time of creation, as a range of ids',
      { created_at: { gt: '2026-03-14T10:26:53.5891+01:00' } },
      'c.id >= $1::uuid',
      ['019cebab-8996-0000-0000-000000000000'],
    ],
    [
      'an instant of creation, as the ids of one millisecond',
      { created_at: '1970-01-01T00:00:00.001Z' },
      '((c.id >= $1::uuid and c.id < $2::uuid))',
      ['00000000-0001-0000-0000-000000000000', '00000000-0002-0000-0000-000000000000'],
    ],
    [
      'a time of verification, with the shown default',
      { last_verified: { lt: '2026-01-01T00:00:00Z' } },
      'coalesce(c.last_verified, c.created_at) < $1::timestamptz',
      ['2026-01-01T00:00:00.000Z'],
    ],
    [
      'a company by name, in the form of its index',
      { 'company.company_name': 'ACME' },
      `co.folded_company_name = $1::text`,
      ['acme'],
    ],
    ['no company name', { 'company.company_name': '' }, `coalesce(co.folded_company_name, '') = $1::text`, ['']],
    [
      'a search',
      { search: "O'Neil" },
      `((c.folded ->> 'search' like $1 or co.folded_company_name like $2) and (c.folded ->> 'search' like $3 or co.folded_company_name like $4))`,
      ['%o%', '%o%', '%neil%', '%neil%'],
    ],
    [
      'a custom text',
      { "custom_fields.it's": { starts_with: 'Ä' } },
      `(c.folded ->> $1::text) collate "C" like $2`,
      ["custom_fields.it's", 'a%'],
    ],
    [
      'a custom number',
      { 'custom_fields.n': { gte: 1.5 } },
      `case when jsonb_typeof(c.custom_fields -> $1::text) = 'number' then (c.custom_fields ->> $2::text)::numeric >= $3::numeric else false end`,
      ['n', 'n', '1.5'],
    ],
    [
      'custom values of every type',
      { 'custom_fields.n': ['x', 1, true] },
      `((c.folded ->> $1::text) collate "C" = $2::text or ` +
        `case when jsonb_typeof(c.custom_fields -> $3::text) = 'number' then (c.custom_fields ->> $4::text)::numeric = $5::numeric else false end or ` +
        'c.custom_fields -> $6::text = $7::text::jsonb)',
      ['custom_fields.n', 'x', 'n', 'n', '1', 'n', 'true'],
    ],
  ])('%s', (_, filters, text, parameters) => {
    expect(contacts(filters)).toEqual({ text, parameters });
  });

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
