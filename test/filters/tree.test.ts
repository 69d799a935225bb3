import { expect, test } from 'vitest';
import { contactSource, all, any, fieldsOf, not, type Filter } from '../../src/filters/columns.ts';
import { rulesFilter } from '../../src/filters/rules.ts';

const empty = (field: string): Filter => ({ kind: 'empty', field });

test('fieldsOf returns the fields at every depth, each once', () => {
  const filter = any([all([empty('industry'), not(empty('gender'))]), not(any([empty('industry'), empty('score')]))]);
  expect(fieldsOf(filter)).toEqual(new Set(['industry', 'gender', 'score']));
  expect(fieldsOf(all([]))).toEqual(new Set());
});

test('fieldsOf returns list_id for memberships', () => {
  expect(fieldsOf({ kind: 'member', lists: 'any' })).toEqual(new Set(['list_id']));
});

test('fieldsOf returns the names that the rules use', () => {
  const rules = [
    { field: 'company.industry', operator: 'not_in' as const, value: 'IT, Food', logic_operator: 'AND' as const },
    { field: 'custom_fields.a', operator: 'is_empty' as const, value: '', logic_operator: 'OR' as const },
  ];
  expect(fieldsOf(rulesFilter(contactSource.fields, rules))).toEqual(new Set(['company.industry', 'custom_fields.a']));
});
