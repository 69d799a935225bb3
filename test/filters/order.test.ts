import { describe, expect, test } from 'vitest';
import { parseOrder } from '../../src/filters/columns.ts';
import { contactFilterFields } from '../../src/schemas/contacts.ts';
import { OrderBy } from '../../src/schemas/filters.ts';
import { compile } from '../../src/validation/validator.ts';

const { faultsOf } = compile(OrderBy(contactFilterFields));
const pathsOf = (given: unknown): string[] => faultsOf(given).map(({ path }) => path);

describe('an invalid order is rejected with its JSON pointer:', () => {
  test.each<[string, unknown, string[]]>([
    ['a text', 'score', ['']],
    ['null', null, ['']],
    ['no key', {}, ['']],
    ['an empty array', [], ['']],
    ['too many keys', { score: 'ASC', id: 'ASC', gender: 'ASC', industry: 'ASC' }, ['']],
    ['an unknown field', { nam: 'ASC' }, ['/nam']],
    ['a field that cannot be ordered by', [{ field: 'list_id', direction: 'ASC' }], ['/0/field']],
    ['search', { search: 'ASC' }, ['/search']],
    ['a custom field', { 'custom_fields.a': 'ASC' }, ['/custom_fields.a']],
    ['a direction in lower case', { score: 'asc' }, ['/score']],
    ['no direction', [{ field: 'score' }], ['/0/direction']],
    ['no field', [{ direction: 'ASC' }], ['/0/field']],
    ['an unknown property', [{ field: 'score', direction: 'ASC', nulls: 'first' }], ['/0/nulls']],
    ['an array element that is not an object', ['score'], ['/0']],
    ['several faults at once', [{ field: 5, direction: 5 }, 5], ['/0/field', '/0/direction', '/1']],
  ])('%s', (_, given, paths) => {
    expect(pathsOf(given)).toEqual(paths);
  });
});

test('both forms give the same order; the first key is the most significant', () => {
  const keys = [
    { field: 'score', direction: 'DESC' },
    { field: 'company.company_name', direction: 'ASC' },
  ];
  expect(parseOrder(keys)).toEqual(keys);
  expect(parseOrder({ score: 'DESC', 'company.company_name': 'ASC' })).toEqual(keys);
});

test('keys without effect are removed', () => {
  const given = [
    { field: 'score', direction: 'ASC' },
    { field: 'score', direction: 'DESC' },
    { field: 'id', direction: 'ASC' },
  ];
  expect(parseOrder(given)).toEqual([given[0], given[2]]);
  expect(parseOrder(given.toReversed())).toEqual([given[2]]);
});
