import { lengthOf } from '../code-points.ts';
import { maxFaults, type Fault } from '../errors.ts';
import { fieldType, type FieldType, type FilterFields } from '../schemas/filters.ts';
import { ruleLimits, ruleOperators, type Rule, type RuleGiven, type RuleOperator } from '../schemas/lists.ts';
import { isObject, quote } from './parse.ts';
import { all, any, not, type Comparison, type Filter, type FilterValue } from './tree.ts';
import { readValue } from './values.ts';

/** Fields that a rule cannot look at: a list's members may not hang on another list's. */
const excluded = new Set(['list_id', 'search']);

/**
 * Reads the rules of a list. AND binds tighter than OR; without any rule nothing matches.
 * @returns the filter that they mean, which means nothing when there are faults
 */
export function readRules(
  fields: FilterFields,
  given: unknown,
  pointer = '/rules',
): { filter: Filter; faults: Fault[] } {
  const rules: unknown[] = Array.isArray(given) ? given : []; // their number is for the schema to refuse
  const faults: Fault[] = [];
  const alternatives: Filter[][] = [];
  for (const [i, rule] of rules.entries()) {
    if (faults.length > maxFaults) break;
    if (!isRule(rule)) continue; // its shape is for the schema to refuse
    const condition = readRule(fields, rule, (member, message) =>
      faults.push({ path: `${pointer}/${i}/${member}`, message }),
    );
    if (alternatives.length === 0 || rule.logic_operator === 'OR') alternatives.push([]);
    alternatives.at(-1)!.push(condition);
  }
  return { filter: any(alternatives.map(all)), faults };
}

/** The filter that stored rules mean. */
export function rulesFilter(fields: FilterFields, rules: readonly Rule[]): Filter {
  const { filter, faults } = readRules(fields, rules);
  if (faults.length > 0) throw new Error(`A stored rule cannot be read: ${faults[0]!.path} ${faults[0]!.message}`);
  return filter;
}

/** Rules as they are kept and shown: every member there, the first joined by AND. */
export const completeRules = (given: readonly RuleGiven[]): Rule[] =>
  given.map(({ field, operator, value, logic_operator = 'AND' }, i) => ({
    field,
    operator,
    value,
    logic_operator: i === 0 ? 'AND' : logic_operator,
  }));

type Report = (member: string, message: string) => void;

interface Condition {
  field: string;
  type: FieldType;
  value: string;
  report: Report;
}

const nothing = any([]);

function readRule(fields: FilterFields, { field, operator, value }: RuleGiven, report: Report): Filter {
  const type = excluded.has(field) ? undefined : fieldType(fields, field);
  if (!type) {
    const names = Object.keys(fields.types).filter((name) => !excluded.has(name));
    report('field', `unknown field ${quote(field)}; allowed are ${[...names, 'custom_fields.<key>'].join(', ')}`);
    return nothing;
  }
  const allowed = operatorsFor(type);
  if (!allowed.includes(operator)) {
    report('operator', `does not fit the field ${field}; allowed are ${allowed.join(', ')}`);
    return nothing;
  }
  return conditions[operator]({ field, type, value, report });
}

const texts: readonly RuleOperator[] = ['contains', 'not_contains', 'starts_with', 'ends_with'];
const comparisons: readonly RuleOperator[] = ['greater_than', 'greater_or_equal', 'less_than', 'less_or_equal'];

/** The operators that fit a type of field. */
function operatorsFor(type: FieldType): readonly RuleOperator[] {
  const without = type === 'uuid' ? [...texts, ...comparisons] : type === 'text' || type === 'custom' ? [] : texts;
  return ruleOperators.filter((operator) => !without.includes(operator));
}

const equals = (condition: Condition): Filter => ({
  kind: 'in',
  field: condition.field,
  values: readings(condition, condition.value),
});

function isOneOf(condition: Condition): Filter {
  const parts = condition.value.split(',').map((part) => part.trim());
  if (parts.length > ruleLimits.values) {
    condition.report('value', `must have at most ${ruleLimits.values} values, has ${parts.length}`);
    return nothing;
  }
  const values = parts.flatMap((part) => readings(condition, part));
  return { kind: 'in', field: condition.field, values: [...new Set(values)] };
}

const compares =
  (operator: Comparison) =>
  (condition: Condition): Filter => {
    // A custom field holds what the customer put there: a value that reads as a number is compared with numbers.
    const [value] = readings(condition, condition.value).toSorted((a, b) => Number(isNumber(b)) - Number(isNumber(a)));
    return value === undefined || typeof value === 'boolean'
      ? nothing
      : { kind: 'compare', field: condition.field, operator, value };
  };

const contains =
  (at: 'anywhere' | 'start' | 'end') =>
  (condition: Condition): Filter => ({
    kind: 'contains',
    field: condition.field,
    text: String(readings({ ...condition, type: 'text' }, condition.value)[0] ?? ''),
    at,
  });

const isEmpty = ({ field }: Condition): Filter => ({ kind: 'empty', field });

const complement =
  (read: (condition: Condition) => Filter) =>
  (condition: Condition): Filter =>
    not(read(condition));

const conditions: Record<RuleOperator, (condition: Condition) => Filter> = {
  equals,
  not_equals: complement(equals),
  contains: contains('anywhere'),
  not_contains: complement(contains('anywhere')),
  starts_with: contains('start'),
  ends_with: contains('end'),
  greater_than: compares('gt'),
  greater_or_equal: compares('gte'),
  less_than: compares('lt'),
  less_or_equal: compares('lte'),
  in: isOneOf,
  not_in: complement(isOneOf),
  is_empty: isEmpty,
  is_not_empty: complement(isEmpty),
};

/** What a text means as a value of the field's type: of a custom field, whose values have any type, all that it can mean. */
function readings({ type, report }: Condition, text: string): FilterValue[] {
  if (text.length > ruleLimits.characters && lengthOf(text) > ruleLimits.characters) {
    report('value', `must have at most ${ruleLimits.characters} characters, and so each of several values`);
    return [];
  }
  if (type === 'custom') return customReadings(text);
  const read = readValue(
    type,
    type === 'integer' && wholeNumber.test(text) ? Number(text) : type === 'text' ? text : text.trim(),
  );
  if ('value' in read) return [read.value];
  report('value', read.fault);
  return [];
}

const wholeNumber = /^\s*[+-]?\d{1,10}\s*$/;
const anyNumber = /^\s*[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?\s*$/i;

function customReadings(text: string): FilterValue[] {
  const read = readValue('text', text);
  const number = anyNumber.test(text) && Number.isFinite(Number(text)) ? [Number(text)] : [];
  const truth = /^\s*(?:true|false)\s*$/.test(text) ? [text.trim() === 'true'] : [];
  return [...('value' in read ? [read.value] : []), ...number, ...truth];
}

const isNumber = (value: FilterValue): boolean => typeof value === 'number';

const isRule = (given: unknown): given is RuleGiven =>
  isObject(given) &&
  typeof given['field'] === 'string' &&
  ruleOperators.some((operator) => operator === given['operator']) &&
  typeof given['value'] === 'string';
