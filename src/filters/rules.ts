import { maxFaults, type Fault } from '../errors.ts';
import { contactFilterFields } from '../schemas/contacts.ts';
import type { FieldType } from '../schemas/wire.ts';
import { fieldType, type FilterFields } from '../schemas/filters.ts';
import { ruleLimits, ruleOperators, unruled, type Rule, type RuleGiven, type RuleOperator } from '../schemas/lists.ts';
import { lengthOf } from '../text/fold.ts';
import { all, any, not, type Comparison, type Filter, type FilterValue, canonicalOf, readText } from './columns.ts';

/**
 * Converts a list's rules to a filter. AND is evaluated before OR. Without rules, no contact matches.
 * @returns filter and faults; do not use the filter if there are faults
 */
export function readRules(
  fields: FilterFields,
  input: unknown,
  pointer = '/rules',
): { filter: Filter; faults: Fault[] } {
  const rules: unknown[] = Array.isArray(input) ? input : []; // the schema checks their number
  const faults: Fault[] = [];
  const alternatives: Filter[][] = [];
  for (const [i, rule] of rules.entries()) {
    if (faults.length > maxFaults) break;
    if (!isRule(rule)) continue; // the schema checks the shape of a rule
    const condition = readRule(fields, rule, (member, message) =>
      faults.push({ path: `${pointer}/${i}/${member}`, message }),
    );
    if (alternatives.length === 0 || rule.logic_operator === 'OR') alternatives.push([]);
    alternatives.at(-1)!.push(condition);
  }
  return { filter: any(alternatives.map(all)), faults };
}

export function rulesFilter(fields: FilterFields, rules: readonly Rule[]): Filter {
  const { filter, faults } = readRules(fields, rules);
  if (faults.length > 0) throw new Error(`A stored rule cannot be read: ${faults[0]!.path} ${faults[0]!.message}`);
  return filter;
}

export const completeRules = (input: readonly RuleGiven[]): Rule[] =>
  input.map(({ field, operator, value, logic_operator = 'AND' }, i) => ({
    field,
    operator,
    value: fieldType(contactFilterFields, field) === 'uuid' ? value.toLowerCase() : value,
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
  const type = unruled.includes(field) ? undefined : fieldType(fields, field);
  if (!type) return nothing; // the schema checks its name
  const allowed = operatorsFor(type);
  if (!allowed.includes(operator)) {
    report('operator', `does not fit the field ${field}; allowed are ${allowed.join(', ')}`);
    return nothing;
  }
  return conditions[operator]({ field, type, value, report });
}

const texts = ruleOperators.filter((operator) => /contains$|_with$/.test(operator));
const comparisons = ruleOperators.filter((operator) => /^(greater|less)_/.test(operator));

function operatorsFor(type: FieldType): readonly RuleOperator[] {
  const without: readonly RuleOperator[] =
    type === 'uuid'
      ? [...texts, ...comparisons]
      : type === 'text' || type === 'exact' || type === 'custom'
        ? []
        : texts;
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
    // Custom fields have no fixed type: a value that looks like a number is compared with numbers.
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
    text: String(
      readings({ ...condition, type: condition.type === 'exact' ? 'exact' : 'text' }, condition.value)[0] ?? '',
    ),
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

/**
 * Converts the text of a rule to values of its field's type. For a custom field, returns one value for each type that
 * fits: text, number, boolean. If the text is not valid, reports a fault and returns an empty array.
 */
function readings({ type, report }: Condition, text: string): FilterValue[] {
  if (text.length > ruleLimits.characters && lengthOf(text) > ruleLimits.characters) {
    report('value', `must have at most ${ruleLimits.characters} characters, and so each of several values`);
    return [];
  }
  if (type === 'custom') return customReadings(text);
  const read = readText(type, text);
  if ('value' in read) return [read.value];
  report('value', read.fault);
  return [];
}

const anyNumber = /^\s*[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?\s*$/i;

function customReadings(text: string): FilterValue[] {
  const number = anyNumber.test(text) && Number.isFinite(Number(text)) ? [Number(text)] : [];
  const truth = /^\s*(?:true|false)\s*$/.test(text) ? [text.trim() === 'true'] : [];
  return [canonicalOf('text', text), ...number, ...truth];
}

const isNumber = (value: FilterValue): boolean => typeof value === 'number';

const isObject = (input: unknown): input is Record<string, unknown> => typeof input === 'object' && input !== null;

const isRule = (input: unknown): input is RuleGiven =>
  isObject(input) &&
  typeof input['field'] === 'string' &&
  ruleOperators.some((operator) => operator === input['operator']) &&
  typeof input['value'] === 'string';
