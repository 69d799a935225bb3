import { join, type Fragment, type FragmentMaker } from '../../filters/sql.ts';
import type { Search } from '../catalog.ts';
import type { Criterion } from '../criteria.ts';
import {
  isNullable,
  type ProspectOrder,
  type ProspectPosition,
  type SortField,
  type SortKey,
  type SortValue,
} from '../order.ts';
import { tokenOf } from './search-tokens.ts';

/**
 * Returns the SQL condition for the prospects that match a search. In the query, `p` must be the alias of the table
 * `prospects`.
 */
export function matching(
  sql: FragmentMaker,
  { criteria, netNewFor }: Pick<Search, 'criteria' | 'netNewFor'>,
): Fragment {
  const conditions = criteria.map((criterion) => print(sql, criterion));
  return join(sql, netNewFor === undefined ? conditions : [...conditions, netNew(sql, netNewFor)], 'and', 'true');
}

function print(sql: FragmentMaker, criterion: Criterion): Fragment {
  switch (criterion.kind) {
    case 'equals':
      return printEquals(sql, criterion);
    case 'words':
      return sql`(${join(
        sql,
        criterion.alternatives.map(
          (words) => sql`p.tokens @> ${words.map((word) => tokenOf(criterion.member, word))}::text[]`,
        ),
        'or',
        'false',
      )})`;
    case 'scores':
      return sql`p.score between ${criterion.gte ?? 0}::int and ${criterion.lte ?? 100}::int`;
    case 'verified':
      return sql`p.date_verified between ${criterion.gte ?? '-infinity'}::text::timestamptz and ${criterion.lte ?? 'infinity'}::text::timestamptz`;
    default:
      return sql`p.${sql.unsafe(criterion.what)} = ${criterion.value}`;
  }
}

function printEquals(sql: FragmentMaker, criterion: Extract<Criterion, { kind: 'equals' }>): Fragment {
  const { member, values } = criterion;
  if (member === 'verification_status') return sql`p.verification_status = any(${values}::text[])`;
  const tokens = values.map((value) => tokenOf(member, value));
  // One condition per token: the planner knows how frequent a single token is, but only guesses for an array of
  // several.
  return sql`(${join(
    sql,
    tokens.map((token) => sql`p.tokens @> ${[token]}::text[]`),
    'or',
    'false',
  )})`;
}

// `offset 0` makes Postgres look up each prospect in the index of unlocks. Without it, old statistics can lead Postgres
// to scan all unlocks of the customer for each prospect.
/**
 * Returns the SQL condition for prospects that this customer has not unlocked (paid to see). In the query, `p` must be
 * the alias of the table `prospects`.
 */
const netNew = (sql: FragmentMaker, customerId: string): Fragment => sql`
  not exists (select 1 from unlocks u where u.customer_id = ${customerId}::uuid and u.prospect_id = p.id offset 0)`;

/** One field of a sort order, translated into SQL. */
interface Printed {
  /** The SQL expression to sort by. */
  column: Fragment;
  /** Converts a value to SQL, so that the statement can compare the value with `column`. */
  value: (value: SortValue) => Fragment;
  descending: boolean;
  nullable: boolean;
}

function printKey(sql: FragmentMaker, { field, direction }: SortKey): Printed {
  const descending = direction === 'DESC';
  const column = sql.unsafe(columns[field] ?? `p.${field}`);
  const type = sql.unsafe(types[field] ?? 'text');
  const value = (value: SortValue): Fragment => sql`${String(value)}::text::${type}`;
  // The negated score ascends, as the id does. Then a position is a single row comparison, which bounds an index scan.
  if (field === 'score' && descending)
    return {
      column: sql`(-p.score)`,
      value: (value) => sql`(-(${String(value)}::text::int))`,
      descending: false,
      nullable: false,
    };
  return { column, value, descending, nullable: isNullable(field) };
}

/** Key: a sort field that is not a text. Value: the SQL type to which its values are converted for comparisons. */
const types: Partial<Record<SortField, string>> = {
  score: 'int',
  date_verified: 'timestamptz',
  has_email: 'int',
  has_phone: 'int',
};

/** For each Boolean sort field, the SQL expression to sort by: 0 for false, 1 for true. */
const columns: Partial<Record<SortField, string>> = { has_email: 'p.has_email::int', has_phone: 'p.has_phone::int' };

/** Returns the SQL for `order by`: the fields of the sort order, then the id of the prospect. */
export function orderBy(sql: FragmentMaker, order: ProspectOrder): Fragment {
  const keys = order.map((key) => {
    const { column, descending, nullable } = printKey(sql, key);
    return sql`${column} ${sql.unsafe(descending ? 'desc' : 'asc')} ${sql.unsafe(nullable ? 'nulls last' : '')}`;
  });
  return join(sql, [...keys, sql`p.id`], ',', '');
}

/**
 * Returns the SQL condition for prospects that come after a position in the sort order. In the query, `p` must be the
 * alias of the table `prospects`.
 */
export function isAfter(sql: FragmentMaker, order: ProspectOrder, { id, values }: ProspectPosition): Fragment {
  const keys = order.map((key) => printKey(sql, key));
  if (keys.every(({ descending, nullable }) => !descending && !nullable)) return isRowAfter(sql, keys, { id, values });
  const alternatives = [...keys.keys()].map(
    (i) => sql`(${join(sql, [...ties(sql, keys, values, i), comesAfter(sql, keys[i]!, values[i]!)], 'and', 'true')})`,
  );
  const last = sql`(${join(sql, [...ties(sql, keys, values, keys.length), sql`p.id > ${id}::uuid`], 'and', 'true')})`;
  return sql`${bound(sql, keys[0]!, values[0]!)} and (${join(sql, [...alternatives, last], 'or', 'false')})`;
}

/**
 * Returns the SQL condition for prospects after a position, as one comparison of rows: `(a, b, id) > (x, y, z)`. Use it
 * only if all sort fields are ascending and never null.
 */
function isRowAfter(sql: FragmentMaker, keys: Printed[], { id, values }: ProspectPosition): Fragment {
  const columns = join(sql, [...keys.map(({ column }) => column), sql`p.id`], ',', '');
  const bounds = join(sql, [...keys.map(({ value }, i) => value(values[i]!)), sql`${id}::uuid`], ',', '');
  return sql`(${columns}) > (${bounds})`;
}

/**
 * Returns SQL conditions for prospects that equal a position in the first `before` sort fields, one condition for each
 * of these fields. `values` contains the sort values of the position.
 */
const ties = (sql: FragmentMaker, keys: Printed[], values: SortValue[], before: number): Fragment[] =>
  keys
    .slice(0, before)
    .map(({ column, value }, i) =>
      values[i] === null ? sql`${column} is null` : sql`${column} = ${value(values[i]!)}`,
    );

/**
 * Returns the SQL condition for prospects whose value in one sort field comes after the given value in the sort order.
 * Null comes last.
 */
function comesAfter(sql: FragmentMaker, { column, value, descending, nullable }: Printed, given: SortValue): Fragment {
  if (given === null) return sql`false`;
  const beyond = sql`${column} ${sql.unsafe(descending ? '<' : '>')} ${value(given)}`;
  return nullable ? sql`(${beyond} or ${column} is null)` : beyond;
}

// Postgres does not derive this condition from the whole condition, because that contains `or`.
/**
 * Returns the SQL condition for prospects that do not come before the given value in their first sort field. With this
 * condition, an index scan can start at the value. If the field can be null, the condition is `true`.
 */
function bound(sql: FragmentMaker, { column, value, descending, nullable }: Printed, given: SortValue): Fragment {
  if (given === null || nullable) return sql`true`;
  return sql`${column} ${sql.unsafe(descending ? '<=' : '>=')} ${value(given)}`;
}
