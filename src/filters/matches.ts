import { customKey } from '../schemas/filters.ts';
import { compareTexts } from '../text/code-points.ts';
import type { Column, Source } from './columns.ts';
import type { Folded } from './fields.ts';
import type { Comparison, Filter, FilterValue } from './tree.ts';

export type Matches = (record: FilteredRecord) => boolean;

/** A row with the columns that `filteredColumns` lists. */
export interface FilteredRecord {
  folded: Folded;
  custom_fields: Record<string, unknown>;
  /** By field name. A text field of the contact's company also has the key `folded <name>`, with its folded text. */
  [column: string]: unknown;
}

type FieldTest = Extract<Filter, { field: string }>;

interface Reader {
  value: (record: FilteredRecord) => FilterValue | null;
  isEmpty: Matches;
}

export const filteredColumns = (source: Source): string =>
  [
    `${source.alias}.folded`,
    `${source.alias}.custom_fields`,
    ...Object.entries(source.columns).flatMap(([name, column]) => [
      `${column.raw} as "${name}"`,
      ...(isFoldedElsewhere(column) ? [`${column.value} as "${foldedName(name)}"`] : []),
    ]),
  ].join(', ');

const isFoldedElsewhere = ({ isFolded, value, raw }: Column): boolean => !isFolded && value !== raw;
const foldedName = (name: string): string => `folded ${name}`;

/**
 * Compiles a filter into a function that accepts exactly the records that it would select in SQL.
 * @throws Error for a condition on list membership or `search`
 */
export function compileFilter(source: Source, filter: Filter): Matches {
  switch (filter.kind) {
    case 'all': {
      const tests = filter.of.map((one) => compileFilter(source, one));
      return (record) => tests.every((test) => test(record));
    }
    case 'any': {
      const tests = filter.of.map((one) => compileFilter(source, one));
      return (record) => tests.some((test) => test(record));
    }
    case 'not': {
      const test = compileFilter(source, filter.of);
      return (record) => !test(record);
    }
    case 'member':
    case 'copied':
    case 'settling':
      throw new Error('Memberships cannot be read from a record');
    default:
      return compileTest(readerOf(source, filter), filter);
  }
}

function compileTest({ value, isEmpty }: Reader, test: FieldTest): Matches {
  switch (test.kind) {
    case 'in': {
      const values = new Set<FilterValue | null>(test.values);
      return (record) => values.has(value(record));
    }
    case 'compare':
      return compileComparison(value, test);
    case 'contains': {
      const { text, at } = test;
      const holds = parts[at];
      return (record) => {
        const whole = value(record);
        return typeof whole === 'string' && holds(whole, text);
      };
    }
    case 'empty':
      return isEmpty;
    default:
      throw new Error(`The field ${test.field} cannot be read from a record`);
  }
}

const parts = {
  anywhere: (whole: string, part: string) => whole.includes(part),
  start: (whole: string, part: string) => whole.startsWith(part),
  end: (whole: string, part: string) => whole.endsWith(part),
};

const comparisons: Record<Comparison, (order: number) => boolean> = {
  gt: (order) => order > 0,
  gte: (order) => order >= 0,
  lt: (order) => order < 0,
  lte: (order) => order <= 0,
};

function compileComparison(value: Reader['value'], test: Extract<Filter, { kind: 'compare' }>): Matches {
  const holds = comparisons[test.operator];
  const other = test.value;
  // Instants are compared as text. This works because all are in UTC with milliseconds and a year of four digits.
  if (typeof other === 'string')
    return (record) => {
      const one = value(record);
      return typeof one === 'string' && holds(compareTexts(one, other));
    };
  return (record) => {
    const one = value(record);
    // The difference can overflow to infinity, but never to NaN.
    return typeof one === 'number' && holds(one - Number(other));
  };
}

function readerOf({ columns }: Source, { field }: FieldTest): Reader {
  const key = customKey(field);
  if (key !== undefined) return customReader(field, key);
  const column = columns[field];
  if (!column) throw new Error(`There is no column for the field ${field}`);
  const value = columnValue(field, column);
  if (column.type !== 'text') return { value, isEmpty: (record) => value(record) === null };
  return { value, isEmpty: (record) => (record[field] ?? '') === '' };
}

function columnValue(name: string, column: Column): Reader['value'] {
  if (column.isFolded) return ({ folded }) => folded[name] ?? null;
  const given = isFoldedElsewhere(column) ? foldedName(name) : name;
  const missing = column.shownAs ?? null;
  return (record) => (record[given] as FilterValue | null) ?? missing;
}

/** A value keeps its JSON type, so that a condition compares only values of the same type. */
function customReader(field: string, key: string): Reader {
  // A key can be `constructor` or another name that every object inherits.
  const kept = ({ custom_fields }: FilteredRecord): unknown =>
    Object.hasOwn(custom_fields, key) ? custom_fields[key] : null;
  return {
    value: (record) => {
      const value = kept(record);
      if (typeof value === 'string') return record.folded[field] ?? null;
      return typeof value === 'number' || typeof value === 'boolean' ? value : null;
    },
    isEmpty: (record) => (kept(record) ?? '') === '',
  };
}
