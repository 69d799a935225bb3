import { compile } from '../../src/validation/validator.ts';
import { describe, expect, test } from 'vitest';
import { ContactFilters } from '../../src/schemas/contacts.ts';

const { faultsOf } = compile(ContactFilters);
const pathsOf = (given: unknown): string[] => faultsOf(given).map(({ path }) => path);

const id = '0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b';

describe('an invalid filter is rejected with its JSON pointer:', () => {
  test.each<[string, unknown, string]>([
    ['an array', [], ''],
    ['null', null, ''],
    ['an unknown field', { nam: 'x' }, '/nam'],
    ['a field of the prototype', { constructor: 'x' }, '/constructor'],
    ['a field with a slash and a tilde', { 'a/b~c': 'x' }, '/a~1b~0c'],
    ['an array field', { phone_numbers: 'x' }, '/phone_numbers'],
    ['a custom field without a key', { 'custom_fields.': 'x' }, '/custom_fields.'],
    [
      'a custom field whose key is too long',
      { [`custom_fields.${'x'.repeat(65)}`]: 'x' },
      `/custom_fields.${'x'.repeat(65)}`,
    ],
    ['an unknown operator', { score: { more: 1 } }, '/score/more'],
    ['an operator of the prototype', { score: { toString: 1 } }, '/score/toString'],
    ['an operator that the field type does not have', { score: { contains: '1' } }, '/score/contains'],
    ['a comparison of ids', { company_id: { gt: id } }, '/company_id/gt'],
    ['no operator', { score: {} }, '/score'],
    ['a text for a number', { score: '5' }, '/score'],
    ['a fraction for a whole number', { score: 1.5 }, '/score'],
    ['a number out of the range of the column', { score: { lt: 2 ** 31 } }, '/score/lt'],
    ['a number for a text', { last_name: 5 }, '/last_name'],
    ['a boolean for a text', { last_name: { eq: true } }, '/last_name/eq'],
    ['null in an array', { last_name: ['x', null] }, '/last_name/1'],
    ['an array in an array', { last_name: [['x']] }, '/last_name/0'],
    ['a text that is too long', { last_name: 'x'.repeat(257) }, '/last_name'],
    ['too many values', { last_name: { not_in: Array.from({ length: 101 }, () => 'x') } }, '/last_name/not_in'],
    ['a text that is not a UUID', { list_id: ['x'] }, '/list_id/0'],
    ['a UUID with a prefix', { list_id: `urn:uuid:${id}` }, '/list_id'],
    ['a bare date', { created_at: '2026-01-01' }, '/created_at'],
    ['a day that does not exist', { created_at: { gt: '2026-02-30T00:00:00Z' } }, '/created_at/gt'],
    ['a year that Postgres cannot store', { updated_at: '0000-12-31T23:59:59Z' }, '/updated_at'],
    ['a single bound', { score: { between: [1] } }, '/score/between'],
    ['a bound of another type', { score: { between: [1, '2'] } }, '/score/between/1'],
    ['bounds of two types', { 'custom_fields.a': { between: [1, 'x'] } }, '/custom_fields.a/between/0'],
    ['a comparison with a boolean', { 'custom_fields.a': { gt: true } }, '/custom_fields.a/gt'],
    ['a number too large for JSON', { 'custom_fields.a': Number.POSITIVE_INFINITY }, '/custom_fields.a'],
    ['contains with a number', { 'custom_fields.a': { contains: 1 } }, '/custom_fields.a/contains'],
    ['is_null with a text', { score: { is_null: 'true' } }, '/score/is_null'],
    ['a search for an array', { search: ['x'] }, '/search'],
    ['a search with an operator', { search: { contains: 'x' } }, '/search'],
    ['_or that is not an array', { _or: {} }, '/_or'],
    ['_or with an element that is not an object', { _or: [{}, 'x'] }, '/_or/1'],
    ['_or inside _or', { _or: [{ _or: [] }] }, '/_or/0/_or'],
  ])('%s', (_, given, path) => {
    expect(pathsOf(given)).toEqual([path]);
  });
});

describe('a filter is accepted:', () => {
  test.each<[string, unknown]>([
    ['an empty filter', {}],
    ['a text of the maximum length', { last_name: '𝒜'.repeat(256) }],
    ['the maximum number of values', { last_name: Array.from({ length: 100 }, (_, i) => `${i}`) }],
    ['any UUID', { assigned_to: id.toUpperCase() }],
    ['a custom field whose key has a dot', { 'custom_fields.a.b': 1 }],
    ['a custom field whose key has the maximum length', { [`custom_fields.${'𝒜'.repeat(64)}`]: true }],
    ['values of several types of a custom field', { 'custom_fields.a': ['x', 1, false] }],
    ['null as an operand', { last_name: { ne: null } }],
    ['_or without elements', { _or: [] }],
  ])('%s', (_, given) => {
    expect(faultsOf(given)).toEqual([]);
  });
});

test('every fault is reported, not only the first', () => {
  const given = { nam: 1, score: { gt: 'x', lt: 'y' }, last_name: [1, 'x', 2], _or: [{ list_id: 'x' }, 5] };
  const paths = ['/nam', '/score/gt', '/score/lt', '/last_name/0', '/last_name/2', '/_or/0/list_id', '/_or/1'];
  expect(pathsOf(given).toSorted()).toEqual(paths.toSorted());
});

test('an error message names the invalid part and the allowed values', () => {
  const [field, operator] = faultsOf({ nam: 1, score: { more: 1 } }).map(({ message }) => message);
  expect(field).toMatch(
    /^is not known here; allowed: first_name, middle_name, last_name, .*, _or, custom_fields\.<key>$/,
  );
  expect(operator).toBe('is not known here; allowed: eq, ne, in, not_in, is_null, gt, gte, lt, lte, between');
});

test('more than 25 conditions are rejected, at any depth', () => {
  const operators = { gt: 1, lt: 9 };
  const given = (n: number) => ({ score: operators, _or: Array.from({ length: n }, () => ({ last_name: 'x' })) });
  expect(faultsOf(given(23))).toEqual([]);
  expect(faultsOf(given(24))).toEqual([{ path: '', message: 'must have at most 25 conditions' }]);
});
