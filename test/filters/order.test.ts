import { describe, expect, test } from 'vitest';
import { defaultOrder, parseOrder, readOrder } from '../../src/filters/order.ts';
import { contactFilterFields, orderable } from '../../src/schemas/filters.ts';

const pathsOf = (given: unknown): string[] => readOrder(contactFilterFields, given).faults.map(({ path }) => path);

describe('an invalid order is rejected with its JSON pointer:', () => {
  test.each<[string, unknown, string[]]>([
    ['a text', 'score', ['/order_by']],
    ['null', null, ['/order_by']],
    ['no key', {}, ['/order_by']],
    ['an empty array', [], ['/order_by']],
    ['too many keys', { score: 'ASC', id: 'ASC', gender: 'ASC', industry: 'ASC' }, ['/order_by']],
    ['an unknown field', { nam: 'ASC' }, ['/order_by/nam']],
    ['a field that cannot be ordered by', [{ field: 'list_id', direction: 'ASC' }], ['/order_by/0/field']],
    ['search', { search: 'ASC' }, ['/order_by/search']],
    ['a custom field', { 'custom_fields.a': 'ASC' }, ['/order_by/custom_fields.a']],
    ['a direction in lower case', { score: 'asc' }, ['/order_by/score']],
    ['no direction', [{ field: 'score' }], ['/order_by/0/direction']],
    ['no field', [{ direction: 'ASC' }], ['/order_by/0/field']],
    ['an unknown property', [{ field: 'score', direction: 'ASC', nulls: 'first' }], ['/order_by/0/nulls']],
    ['an array element that is not an object', ['score'], ['/order_by/0']],
    [
      'several faults at once',
      [{ field: 5, direction: 5 }, 5],
      ['/order_by/1', '/order_by/0/field', '/order_by/0/direction'],
    ],
  ])('%s', (_, given, paths) => {
    expect(pathsOf(given)).toEqual(paths);
  });
});

test('both forms give the same order; the first key is the most significant', () => {
  const keys = [
    { field: 'score', direction: 'DESC' },
    { field: 'company.company_name', direction: 'ASC' },
  ];
  expect(parseOrder(contactFilterFields, keys)).toEqual(keys);
  expect(parseOrder(contactFilterFields, { score: 'DESC', 'company.company_name': 'ASC' })).toEqual(keys);
});

test('the default order is newest first', () => {
  expect(parseOrder(contactFilterFields, undefined)).toEqual(defaultOrder);
});

test('keys without effect are removed', () => {
  const given = [
    { field: 'score', direction: 'ASC' },
    { field: 'score', direction: 'DESC' },
    { field: 'id', direction: 'ASC' },
  ];
  expect(parseOrder(contactFilterFields, given)).toEqual([given[0], given[2]]);
  expect(parseOrder(contactFilterFields, given.toReversed())).toEqual([given[2]]);
});

test('every scalar field can be ordered by', () => {
  expect(orderable(contactFilterFields)).toContain('company.industry');
  expect(orderable(contactFilterFields)).toContain('birth_year');
  expect(orderable(contactFilterFields)).not.toContain('list_id');
});
