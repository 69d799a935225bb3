import { compile } from '../../src/validation/validator.ts';
import { expect, test } from 'vitest';
import { parseOrder } from '../../src/filters/columns.ts';
import { contactFilterFields, ContactFilters } from '../../src/schemas/contacts.ts';
import { OrderBy } from '../../src/schemas/filters.ts';

const { faultsOf } = compile(ContactFilters);
const orderFaults = compile(OrderBy(contactFilterFields)).faultsOf;
const many = (count: number) => Array.from({ length: count }, (_, i) => `${i}`);
const longKey = `custom_fields.${'x'.repeat(65)}`;

test.each<[string, unknown, string]>([
  ['an unknown field', { nam: 'x' }, '/nam'],
  ['a field of the prototype', { constructor: 'x' }, '/constructor'],
  ['an array field', { phone_numbers: 'x' }, '/phone_numbers'],
  ['a custom field whose key is too long', { [longKey]: 'x' }, `/${longKey}`],
  ['an operator that the field type does not have', { score: { contains: '1' } }, '/score/contains'],
  ['a comparison of ids', { company_id: { gt: '0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b' } }, '/company_id/gt'],
  ['a number out of the range of the column', { score: { lt: 2 ** 31 } }, '/score/lt'],
  ['a text that is too long', { last_name: 'x'.repeat(257) }, '/last_name'],
  ['too many values', { last_name: { not_in: many(101) } }, '/last_name/not_in'],
  ['a day that does not exist', { created_at: { gt: '2026-02-30T00:00:00Z' } }, '/created_at/gt'],
  ['_or inside _or', { _or: [{ _or: [] }] }, '/_or/0/_or'],
])('an invalid filter is rejected with its JSON pointer: %s', (_, given, path) => {
  expect(faultsOf(given).map((fault) => fault.path)).toEqual([path]);
});

test.each<[string, unknown]>([
  ['a text of the maximum length', { last_name: '𝒜'.repeat(256) }],
  ['the maximum number of values', { last_name: many(100) }],
  ['a custom field whose key has a dot', { 'custom_fields.a.b': 1 }],
  ['a custom field whose key has the maximum length', { [`custom_fields.${'𝒜'.repeat(64)}`]: true }],
  ['values of several types of a custom field', { 'custom_fields.a': ['x', 1, false] }],
  ['null as an operand, and _or without elements', { last_name: { ne: null }, _or: [] }],
])('a filter is accepted with %s', (_, given) => {
  expect(faultsOf(given)).toEqual([]);
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

test.each<[string, unknown, string[]]>([
  ['no key', {}, ['']],
  ['too many keys', { score: 'ASC', id: 'ASC', gender: 'ASC', industry: 'ASC' }, ['']],
  ['a field that cannot be ordered by', [{ field: 'list_id', direction: 'ASC' }], ['/0/field']],
  ['a custom field', { 'custom_fields.a': 'ASC' }, ['/custom_fields.a']],
])('an order is rejected with %s', (_, given, paths) => {
  expect(orderFaults(given).map(({ path }) => path)).toEqual(paths);
});

test('both forms of an order mean the same, the first key is the most significant, and keys without effect are left out', () => {
  const keys = [
    { field: 'score', direction: 'DESC' },
    { field: 'company.company_name', direction: 'ASC' },
  ];
  expect(parseOrder({ score: 'DESC', 'company.company_name': 'ASC' })).toEqual(keys);
  const given = [...keys, { field: 'score', direction: 'ASC' }, { field: 'id', direction: 'ASC' }];
  expect(parseOrder(given)).toEqual([...keys, given[3]]);
  expect(parseOrder(given.toReversed())).toEqual([given[3]]);
});
