import { type TextField, exactFields, wordFields } from '../schemas/prospects.ts';
import { type CatalogDocument, fieldCodes } from './document.ts';
import { allOf, anyOf, commaList, type Fragment, type FragmentMaker } from '../filters/sql.ts';
import {
  type Search,
  type Criterion,
  type NamedPerson,
  isNullable,
  type ProspectOrder,
  type ProspectPosition,
  type SortField,
  type SortKey,
  type SortValue,
} from './catalog.ts';

const tokenOf = (field: TextField, text: string | null): string => `${fieldCodes[field]}:${text ?? ''}`;

export const tokensOf = ({ folded, words }: CatalogDocument): string[] => [
  ...exactFields.map((field) => tokenOf(field, folded[field])),
  ...wordFields.flatMap((field) => words[field].map((word) => tokenOf(field, word))),
];

/** Returns the condition of a search. The statement must use the alias `p` for `prospects`. */
export function matching(
  sql: FragmentMaker,
  { criteria, netNewFor }: Pick<Search, 'criteria' | 'netNewFor'>,
): Fragment {
  const conditions = criteria.map((criterion) => print(sql, criterion));
  return allOf(sql, netNewFor === undefined ? conditions : [...conditions, netNew(sql, netNewFor)]);
}

function print(sql: FragmentMaker, criterion: Criterion): Fragment {
  switch (criterion.kind) {
    case 'equals':
      return printEquals(sql, criterion);
    case 'words':
      return hasTokens(
        sql,
        criterion.alternatives.map((words) => words.map((word) => tokenOf(criterion.member, word))),
      );
    case 'scores':
      return sql`p.score between ${criterion.gte ?? 0}::int and ${criterion.lte ?? 100}::int`;
    case 'verified':
      return sql`p.date_verified between ${criterion.gte ?? '-infinity'}::text::timestamptz and ${criterion.lte ?? 'infinity'}::text::timestamptz`;
    case 'keys':
      return oneFoundBy(
        sql,
        sql`unnest(${criterion.keys}::text[]) as wanted (key)`,
        sql`t.match_keys @> array[wanted.key]`,
        sql`true`,
      );
    case 'named':
      return printNamed(sql, criterion.people);
    default:
      return sql`p.${sql.unsafe(criterion.what)} = ${criterion.value}`;
  }
}

/**
 * Returns the condition that the prospect `p` has one of the wanted values. PostgreSQL looks up each value by index.
 * With a simpler condition, the planner would expect many matches and read all prospects.
 * @param isFound condition of the look-up on the prospect `t`, by one index
 * @param isWanted further condition on the found prospect `one`
 */
const oneFoundBy = (sql: FragmentMaker, wanted: Fragment, isFound: Fragment, isWanted: Fragment): Fragment => sql`
  p.id = any(array(
    select one.id
    from ${wanted}
    cross join lateral (select t.* from prospects t where ${isFound} offset 0) one
    where ${isWanted}
  ))`;

/**
 * Returns a condition that finds prospects by names and company. The index stores a hash, because the three texts can
 * be too long for an index entry.
 */
function printNamed(sql: FragmentMaker, people: NamedPerson[]): Fragment {
  const names = (i: 0 | 1 | 2): Fragment => sql`${people.map((person) => person[i])}::text[]`;
  const hash = (of: 't' | 'wanted'): Fragment =>
    sql.unsafe(
      `hashtextextended((${of}.last_name || chr(10) || ${of}.first_name || chr(10) || ${of}.job_company_name) collate "C", 0)`,
    );
  return oneFoundBy(
    sql,
    sql`unnest(${names(0)}, ${names(1)}, ${names(2)}) as wanted (first_name, last_name, job_company_name)`,
    sql`${hash('t')} = ${hash('wanted')}`,
    sql`(one.last_name, one.first_name, one.job_company_name) =
      (wanted.last_name, wanted.first_name, wanted.job_company_name)`,
  );
}

function printEquals(sql: FragmentMaker, criterion: Extract<Criterion, { kind: 'equals' }>): Fragment {
  const { member, values } = criterion;
  if (member === 'verification_status') return sql`p.verification_status = any(${values}::text[])`;
  // One condition per token: the planner knows how frequent a single token is, but only guesses for an array of
  // several.
  return hasTokens(
    sql,
    values.map((value) => [tokenOf(member, value)]),
  );
}

/** Returns the condition that the prospect `p` has all tokens of at least one alternative. */
function hasTokens(sql: FragmentMaker, alternatives: string[][]): Fragment {
  const conditions = alternatives.map((tokens) => sql`p.tokens @> ${tokens}::text[]`);
  return anyOf(sql, conditions);
}

/**
 * Returns the condition that the customer has not unlocked the prospect `p`. `offset 0` makes PostgreSQL look up each
 * prospect by index, even if its statistics are old.
 */
const netNew = (sql: FragmentMaker, customerId: string): Fragment => sql`
  not exists (select 1 from unlocks u where u.customer_id = ${customerId}::uuid and u.prospect_id = p.id offset 0)`;

interface Printed {
  column: Fragment;
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

const types: Partial<Record<SortField, string>> = {
  score: 'int',
  date_verified: 'timestamptz',
  has_email: 'int',
  has_phone: 'int',
};

const columns: Partial<Record<SortField, string>> = { has_email: 'p.has_email::int', has_phone: 'p.has_phone::int' };

export function orderBy(sql: FragmentMaker, order: ProspectOrder): Fragment {
  const keys = order.map((key) => {
    const { column, descending, nullable } = printKey(sql, key);
    return sql`${column} ${sql.unsafe(descending ? 'desc' : 'asc')} ${sql.unsafe(nullable ? 'nulls last' : '')}`;
  });
  return commaList(sql, [...keys, sql`p.id`]);
}

export function isAfter(sql: FragmentMaker, order: ProspectOrder, { id, values }: ProspectPosition): Fragment {
  const keys = order.map((key) => printKey(sql, key));
  if (keys.every(({ descending, nullable }) => !descending && !nullable)) return isRowAfter(sql, keys, { id, values });
  const alternatives = [...keys.keys()].map((i) =>
    allOf(sql, [...ties(sql, keys, values, i), comesAfter(sql, keys[i]!, values[i]!)]),
  );
  const last = allOf(sql, [...ties(sql, keys, values, keys.length), sql`p.id > ${id}::uuid`]);
  return sql`${bound(sql, keys[0]!, values[0]!)} and ${anyOf(sql, [...alternatives, last])}`;
}

/**
 * Returns the condition `(a, b, id) > (x, y, z)`, which is only valid if all sort fields are ascending and never null.
 */
function isRowAfter(sql: FragmentMaker, keys: Printed[], { id, values }: ProspectPosition): Fragment {
  const columns = commaList(sql, [...keys.map(({ column }) => column), sql`p.id`]);
  const bounds = commaList(sql, [...keys.map(({ value }, i) => value(values[i]!)), sql`${id}::uuid`]);
  return sql`(${columns}) > (${bounds})`;
}

const ties = (sql: FragmentMaker, keys: Printed[], values: SortValue[], before: number): Fragment[] =>
  keys
    .slice(0, before)
    .map(({ column, value }, i) =>
      values[i] === null ? sql`${column} is null` : sql`${column} = ${value(values[i]!)}`,
    );

function comesAfter(sql: FragmentMaker, { column, value, descending, nullable }: Printed, given: SortValue): Fragment {
  if (given === null) return sql`false`;
  const beyond = sql`${column} ${sql.unsafe(descending ? '<' : '>')} ${value(given)}`;
  return nullable ? sql`(${beyond} or ${column} is null)` : beyond;
}

/**
 * Returns a condition that lets an index scan start at a value of the first sort field. PostgreSQL cannot derive it
 * from the whole condition, which contains `or`. Returns `true` if the field can be null.
 */
function bound(sql: FragmentMaker, { column, value, descending, nullable }: Printed, given: SortValue): Fragment {
  if (given === null || nullable) return sql`true`;
  return sql`${column} ${sql.unsafe(descending ? '<=' : '>=')} ${value(given)}`;
}
