import { expect, test } from 'vitest';
import { contactSource } from '../../src/filters/columns.ts';
import { rulesFilter } from '../../src/filters/rules.ts';
import { all, any, fieldsOf, not, type Filter } from '../../src/filters/tree.ts';

const empty = (field: string): Filter => ({ kind: 'empty', field });

test('the fields of a filter are those at any depth, each once', () => {
  const filter = any([all([empty('industry'), not(empty('gender'))]), not(any([empty('industry'), empty('score')]))]);
  expect(fieldsOf(filter)).toEqual(new Set(['industry', 'gender', 'score']));
  expect(fieldsOf(all([]))).toEqual(new Set());
});

test('memberships count as the field list_id', () => {
  expect(fieldsOf({ kind: 'member', lists: 'any', unsettled: [] })).toEqual(new Set(['list_id']));
});

test('the fields of rules are named as the rules name them', () => {
  const rules = [
    { field: 'company.industry', operator: 'not_in' as const, value: 'IT, Food', logic_operator: 'AND' as const },
    { field: 'custom_fields.a', operator: 'is_empty' as const, value: '', logic_operator: 'OR' as const },
  ];
  expect(fieldsOf(rulesFilter(contactSource.fields, rules))).toEqual(new Set(['company.industry', 'custom_fields.a']));
});
