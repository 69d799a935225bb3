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
import { all, any, not, type Comparison, type Filter, type FilterValue, type Words } from './tree.ts';
import { readValue } from './values.ts';

/**
 * Parses the request field `filters`.
 * @param pointer JSON pointer to the field, for error messages
 * @throws DomainError `validation_failed` that lists every fault
 */
export function parseFilters(fields: FilterFields, input: unknown, pointer = '/filters'): Filter {
  const { filter, faults } = readFilters(fields, input, pointer);
  if (faults.length > 0) throw validationFailed(faults);
  return filter;
}

/** Like `parseFilters`, but returns the faults. Do not use the filter if there are any. */
export function readFilters(
  fields: FilterFields,
  input: unknown,
  pointer = '/filters',
): { filter: Filter; faults: Fault[] } {
  if (input === undefined) return { filter: all([]), faults: [] };
  const parsing: Parsing = { fields, faults: [], conditions: 0 };
  const filter = readKeys(parsing, input, pointer, true);
  if (parsing.conditions > filterLimits.conditions)
    fault(parsing, pointer, `must have at most ${filterLimits.conditions} conditions`);
  return { filter, faults: parsing.faults };
}

interface Parsing {
  fields: FilterFields;
  faults: Fault[];
  conditions: number;
}

const nothing = any([]);

const isFull = ({ faults }: Parsing): boolean => faults.length > maxFaults;

/** Stops early if there are more faults than an error response lists. */
function readEach<T>(parsing: Parsing, input: Iterable<T>, read: (one: T) => Filter): Filter[] {
  const conditions: Filter[] = [];
  for (const one of input) {
    if (isFull(parsing)) break;
    conditions.push(read(one));
  }
  return conditions;
}

/** Adds a fault, and returns a placeholder. A filter with faults is never used. */
function fault(parsing: Parsing, path: string, message: string): Filter {
  parsing.faults.push({ path, message });
  return nothing;
}

/**
 * Joins conditions by field name with AND.
 * @param outermost true for `filters` itself, false for an element of `_or`
 */
function readKeys(parsing: Parsing, input: unknown, pointer: string, outermost: boolean): Filter {
  if (!isObject(input)) return fault(parsing, pointer, 'must be an object whose keys are field names');
  return all(
    readEach(parsing, Object.keys(input), (name) => {
      const path = `${pointer}/${escapePointer(name)}`;
      if (name === '_or' && outermost) return readAlternatives(parsing, input[name], path);
      const type = fieldType(parsing.fields, name);
      if (type) return readCondition(parsing, { name, type }, input[name], path);
      return unknownKey(parsing, name, path, outermost);
    }),
  );
}

function readAlternatives(parsing: Parsing, input: unknown, pointer: string): Filter {
  if (!Array.isArray(input)) return fault(parsing, pointer, 'must be an array of objects whose keys are field names');
  if (input.length > filterLimits.conditions)
    fault(parsing, pointer, `must have at most ${filterLimits.conditions} elements, has ${input.length}`);
  return any(readEach(parsing, input.entries(), ([i, one]) => readKeys(parsing, one, `${pointer}/${i}`, false)));
}

function unknownKey(parsing: Parsing, name: string, path: string, outermost: boolean): Filter {
  parsing.conditions += 1;
  if (name === '_or') return fault(parsing, path, '_or cannot be nested in _or');
  const names = [...Object.keys(parsing.fields.types), ...(parsing.fields.customFields ? ['custom_fields.<key>'] : [])];
  return fault(
    parsing,
    path,
    `unknown filter ${quote(name)}; allowed are ${[...names, ...(outermost ? ['_or'] : [])].join(', ')}`,
  );
}

interface Field {
  name: string;
  type: FieldType;
}

/** @param input a scalar, an array, null or an object of operators */
function readCondition(parsing: Parsing, field: Field, input: unknown, path: string): Filter {
  if (field.type === 'search') return readSearch(parsing, field, input, path);
  if (isObject(input)) return readOperators(parsing, field, input, path);
  return readOperator(parsing, field, Array.isArray(input) ? 'in' : 'eq', input, path);
}

function readSearch(parsing: Parsing, field: Field, input: unknown, path: string): Filter {
  parsing.conditions += 1;
  return readOne(parsing, field, input, path, (text) => {
    const [first, ...others] = new Set(words(String(text)));
    // A text without letters and digits has no words.
    if (first === undefined) return nothing;
    return any(spellingsOf([first, ...others]).map((given) => ({ kind: 'search', field: field.name, words: given })));
  });
}

/** Words of one search that are searched in both spellings. */
const maxSpelled = 3;

/**
 * Returns the words as they are, and with `a` for `ae`, `o` for `oe` and `u` for `ue`: who has no umlauts on the keyboard
 * types `mueller`, and Müller is stored as `muller`. Words of up to three letters would find too much.
 */
function spellingsOf(given: Words): Words[] {
  const spelled = given.filter((word) => word.length > 3 && /[aou]e/.test(word)).slice(0, maxSpelled);
  const plain = (word: string): string => word.replaceAll(/([aou])e/g, '$1');
  return spelled.reduce<Words[]>(
    (all, word) => all.flatMap((one) => [one, one.map((other) => (other === word ? plain(word) : other)) as Words]),
    [given],
  );
}

function readOperators(parsing: Parsing, field: Field, input: Record<string, unknown>, path: string): Filter {
  const allowed: readonly string[] = operatorsOf[field.type];
  const names = Object.keys(input);
  if (names.length === 0) return fault(parsing, path, `must name an operator: ${allowed.join(', ')}`);
  return all(
    readEach(parsing, names, (operator) => {
      const at = `${path}/${escapePointer(operator)}`;
      if (allowed.includes(operator)) return readOperator(parsing, field, operator as Operator, input[operator], at);
      parsing.conditions += 1;
      return fault(
        parsing,
        at,
        `unknown operator ${quote(operator)} for ${field.name}; allowed are ${allowed.join(', ')}`,
      );
    }),
  );
}

function readOperator(parsing: Parsing, field: Field, operator: Operator, input: unknown, path: string): Filter {
  parsing.conditions += 1;
  return operators[operator](parsing, field, input, path);
}

type ReadOperator = (parsing: Parsing, field: Field, input: unknown, path: string) => Filter;

const compares =
  (operator: Comparison): ReadOperator =>
  (parsing, field, input, path) =>
    readOne(parsing, field, input, path, (value) => compare(parsing, field, operator, value, path));

const contains =
  (at: 'anywhere' | 'start' | 'end'): ReadOperator =>
  (parsing, field, input, path) => {
    if (typeof input !== 'string') return fault(parsing, path, 'must be a string');
    return readOne(parsing, field, input, path, (text) => ({
      kind: 'contains',
      field: field.name,
      text: String(text),
      at,
    }));
  };

const equals: ReadOperator = (parsing, field, input, path) => {
  if (input === null) return { kind: 'empty', field: field.name };
  return readOne(parsing, field, input, path, (value) => ({ kind: 'in', field: field.name, values: [value] }));
};

const isOneOf: ReadOperator = (parsing, field, input, path) => {
  if (!Array.isArray(input)) return fault(parsing, path, 'must be an array');
  if (input.length > filterLimits.values)
    fault(parsing, path, `must have at most ${filterLimits.values} values, has ${input.length}`);
  const values: FilterValue[] = [];
  for (const [i, one] of input.entries()) {
    if (isFull(parsing)) break;
    readOne(parsing, field, one, `${path}/${i}`, (value) => {
      values.push(value);
      return nothing;
    });
  }
  return { kind: 'in', field: field.name, values: [...new Set(values)] };
};

const isBetween: ReadOperator = (parsing, field, input, path) => {
  if (!Array.isArray(input) || input.length !== 2)
    return fault(parsing, path, 'must be an array of two values: [low, high]');
  const bounds = (['gte', 'lte'] as const).map((operator, i) =>
    compares(operator)(parsing, field, input[i], `${path}/${i}`),
  );
  if (field.type === 'custom' && typeof input[0] !== typeof input[1])
    return fault(parsing, path, 'must have two values of the same type');
  return all(bounds);
};

const isNull: ReadOperator = (parsing, field, input, path) => {
  if (typeof input !== 'boolean') return fault(parsing, path, 'must be true or false');
  const empty: Filter = { kind: 'empty', field: field.name };
  return input ? empty : not(empty);
};

const complement =
  (read: ReadOperator): ReadOperator =>
  (...input) =>
    not(read(...input));

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

function compare(parsing: Parsing, field: Field, operator: Comparison, value: FilterValue, path: string): Filter {
  if (typeof value === 'boolean') return fault(parsing, path, 'must be a string or a number');
  return { kind: 'compare', field: field.name, operator, value };
}

function readOne(
  parsing: Parsing,
  field: Field,
  input: unknown,
  path: string,
  make: (value: FilterValue) => Filter,
): Filter {
  const read = readValue(field.type, input);
  return 'value' in read ? make(read.value) : fault(parsing, path, read.fault);
}

export const isObject = (input: unknown): input is Record<string, unknown> =>
  typeof input === 'object' && input !== null && !Array.isArray(input);

/** Quotes a name, cut to 32 characters to keep the message short. */
export const quote = (name: string): string => JSON.stringify(name.length > 32 ? `${name.slice(0, 32)}…` : name);
