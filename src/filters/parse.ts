import { maxFaults, validationFailed, type Fault } from '../errors.ts';
import {
  fieldType,
  filterLimits,
  operatorsOf,
  type FieldType,
  type FilterFields,
  type Operator,
} from '../schemas/filters.ts';
import { words } from '../text/fold.ts';
import { escapePointer } from '../text/json-pointer.ts';
import { all, any, not, type Comparison, type Filter, type FilterValue } from './tree.ts';
import { readValue } from './values.ts';

/**
 * Parses the request field `filters`.
 * @param pointer JSON pointer to the field, for error messages
 * @throws DomainError `validation_failed` that lists every fault
 */
export function parseFilters(fields: FilterFields, given: unknown, pointer = '/filters'): Filter {
  const { filter, faults } = readFilters(fields, given, pointer);
  if (faults.length > 0) throw validationFailed(faults);
  return filter;
}

/** Like `parseFilters`, but returns the faults. Do not use the filter if there are any. */
export function readFilters(
  fields: FilterFields,
  given: unknown,
  pointer = '/filters',
): { filter: Filter; faults: Fault[] } {
  if (given === undefined) return { filter: all([]), faults: [] };
  const reading: Reading = { fields, faults: [], conditions: 0 };
  const filter = readKeys(reading, given, pointer, true);
  if (reading.conditions > filterLimits.conditions)
    fault(reading, pointer, `must have at most ${filterLimits.conditions} conditions`);
  return { filter, faults: reading.faults };
}

/** State of parsing: allowed fields, faults and number of conditions so far. */
interface Reading {
  fields: FilterFields;
  faults: Fault[];
  conditions: number;
}

const nothing = any([]);

/** True if an error response lists no more faults, so parsing can stop. */
const isFull = ({ faults }: Reading): boolean => faults.length > maxFaults;

/** Stops early if there are more faults than an error response lists. */
function readEach<T>(reading: Reading, given: Iterable<T>, read: (one: T) => Filter): Filter[] {
  const conditions: Filter[] = [];
  for (const one of given) {
    if (isFull(reading)) break;
    conditions.push(read(one));
  }
  return conditions;
}

/** Adds a fault, and returns a placeholder. A filter with faults is never used. */
function fault(reading: Reading, path: string, message: string): Filter {
  reading.faults.push({ path, message });
  return nothing;
}

/**
 * Joins conditions by field name with AND.
 * @param outermost true for `filters` itself, false for an element of `_or`
 */
function readKeys(reading: Reading, given: unknown, pointer: string, outermost: boolean): Filter {
  if (!isObject(given)) return fault(reading, pointer, 'must be an object whose keys are field names');
  return all(
    readEach(reading, Object.keys(given), (name) => {
      const path = `${pointer}/${escapePointer(name)}`;
      if (name === '_or' && outermost) return readAlternatives(reading, given[name], path);
      const type = fieldType(reading.fields, name);
      if (type) return readCondition(reading, { name, type }, given[name], path);
      return unknownKey(reading, name, path, outermost);
    }),
  );
}

function readAlternatives(reading: Reading, given: unknown, pointer: string): Filter {
  if (!Array.isArray(given)) return fault(reading, pointer, 'must be an array of objects whose keys are field names');
  if (given.length > filterLimits.conditions)
    fault(reading, pointer, `must have at most ${filterLimits.conditions} elements, has ${given.length}`);
  return any(readEach(reading, given.entries(), ([i, one]) => readKeys(reading, one, `${pointer}/${i}`, false)));
}

function unknownKey(reading: Reading, name: string, path: string, outermost: boolean): Filter {
  reading.conditions += 1;
  if (name === '_or') return fault(reading, path, '_or cannot be nested in _or');
  const names = [...Object.keys(reading.fields.types), ...(reading.fields.customFields ? ['custom_fields.<key>'] : [])];
  return fault(
    reading,
    path,
    `unknown filter ${quote(name)}; allowed are ${[...names, ...(outermost ? ['_or'] : [])].join(', ')}`,
  );
}

interface Field {
  name: string;
  type: FieldType;
}

/** @param given a scalar, an array, null or an object of operators */
function readCondition(reading: Reading, field: Field, given: unknown, path: string): Filter {
  if (field.type === 'search') return readSearch(reading, field, given, path);
  if (isObject(given)) return readOperators(reading, field, given, path);
  return readOperator(reading, field, Array.isArray(given) ? 'in' : 'eq', given, path);
}

function readSearch(reading: Reading, field: Field, given: unknown, path: string): Filter {
  reading.conditions += 1;
  return readOne(reading, field, given, path, (text) => {
    const [first, ...others] = new Set(words(String(text)));
    // A text without letters and digits has no words.
    return first === undefined ? nothing : { kind: 'search', field: field.name, words: [first, ...others] };
  });
}

function readOperators(reading: Reading, field: Field, given: Record<string, unknown>, path: string): Filter {
  const allowed: readonly string[] = operatorsOf[field.type];
  const names = Object.keys(given);
  if (names.length === 0) return fault(reading, path, `must name an operator: ${allowed.join(', ')}`);
  return all(
    readEach(reading, names, (operator) => {
      const at = `${path}/${escapePointer(operator)}`;
      if (allowed.includes(operator)) return readOperator(reading, field, operator as Operator, given[operator], at);
      reading.conditions += 1;
      return fault(
        reading,
        at,
        `unknown operator ${quote(operator)} for ${field.name}; allowed are ${allowed.join(', ')}`,
      );
    }),
  );
}

function readOperator(reading: Reading, field: Field, operator: Operator, given: unknown, path: string): Filter {
  reading.conditions += 1;
  return operators[operator](reading, field, given, path);
}

type ReadOperator = (reading: Reading, field: Field, given: unknown, path: string) => Filter;

const compares =
  (operator: Comparison): ReadOperator =>
  (reading, field, given, path) =>
    readOne(reading, field, given, path, (value) => compare(reading, field, operator, value, path));

const contains =
  (at: 'anywhere' | 'start' | 'end'): ReadOperator =>
  (reading, field, given, path) => {
    if (typeof given !== 'string') return fault(reading, path, 'must be a string');
    return readOne(reading, field, given, path, (text) => ({
      kind: 'contains',
      field: field.name,
      text: String(text),
      at,
    }));
  };

const equals: ReadOperator = (reading, field, given, path) => {
  if (given === null) return { kind: 'empty', field: field.name };
  return readOne(reading, field, given, path, (value) => ({ kind: 'in', field: field.name, values: [value] }));
};

const isOneOf: ReadOperator = (reading, field, given, path) => {
  if (!Array.isArray(given)) return fault(reading, path, 'must be an array');
  if (given.length > filterLimits.values)
    fault(reading, path, `must have at most ${filterLimits.values} values, has ${given.length}`);
  const values: FilterValue[] = [];
  for (const [i, one] of given.entries()) {
    if (isFull(reading)) break;
    readOne(reading, field, one, `${path}/${i}`, (value) => {
      values.push(value);
      return nothing;
    });
  }
  return { kind: 'in', field: field.name, values: [...new Set(values)] };
};

const isBetween: ReadOperator = (reading, field, given, path) => {
  if (!Array.isArray(given) || given.length !== 2)
    return fault(reading, path, 'must be an array of two values: [low, high]');
  const bounds = (['gte', 'lte'] as const).map((operator, i) =>
    compares(operator)(reading, field, given[i], `${path}/${i}`),
  );
  if (field.type === 'custom' && typeof given[0] !== typeof given[1])
    return fault(reading, path, 'must have two values of the same type');
  return all(bounds);
};

const isNull: ReadOperator = (reading, field, given, path) => {
  if (typeof given !== 'boolean') return fault(reading, path, 'must be true or false');
  const empty: Filter = { kind: 'empty', field: field.name };
  return given ? empty : not(empty);
};

const complement =
  (read: ReadOperator): ReadOperator =>
  (...given) =>
    not(read(...given));

const operators: Record<Operator, ReadOperator> = {
  eq: equals,
  ne: complement(equals),
  in: isOneOf,
  not_in: complement(isOneOf),
  is_null: isNull,
  contains: contains('anywhere'),
  not_contains: complement(contains('anywhere')),
  starts_with: contains('start'),
  ends_with: contains('end'),
  gt: compares('gt'),
  gte: compares('gte'),
  lt: compares('lt'),
  lte: compares('lte'),
  between: isBetween,
};

function compare(reading: Reading, field: Field, operator: Comparison, value: FilterValue, path: string): Filter {
  if (typeof value === 'boolean') return fault(reading, path, 'must be a string or a number');
  return { kind: 'compare', field: field.name, operator, value };
}

function readOne(
  reading: Reading,
  field: Field,
  given: unknown,
  path: string,
  make: (value: FilterValue) => Filter,
): Filter {
  const read = readValue(field.type, given);
  return 'value' in read ? make(read.value) : fault(reading, path, read.fault);
}

export const isObject = (given: unknown): given is Record<string, unknown> =>
  typeof given === 'object' && given !== null && !Array.isArray(given);

/** Quotes a name, cut to 32 characters to keep the message short. */
export const quote = (name: string): string => JSON.stringify(name.length > 32 ? `${name.slice(0, 32)}…` : name);
