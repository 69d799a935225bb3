import type { TObject } from '@sinclair/typebox';
import { type FieldType, namesWhere } from '../schemas/wire.ts';
import { isInstant } from '../schemas/formats.ts';
import { domainOf } from '../text/domains.ts';
import { fold, foldInSql, phoneDigits, type PhoneNumber } from '../text/fold.ts';
import { canonicalId } from '../text/ids.ts';
import { liveCompanies, constant, type Fragment, type FragmentMaker, isLive } from './sql.ts';
import { Activity, activityFilterFields } from '../schemas/activities.ts';
import { Company, companyFilterFields } from '../schemas/companies.ts';
import { Contact, contactFilterFields } from '../schemas/contacts.ts';
import type { FilterFields, GivenOrder } from '../schemas/filters.ts';
import { Opportunity, opportunityFilterFields } from '../schemas/opportunities.ts';
import { Product, productFilterFields } from '../schemas/products.ts';

/**
 * A value that a filter compares with, in canonical form: texts folded (lower case, no accents), instants in UTC with
 * milliseconds, UUIDs in lower case.
 */
export type FilterValue = string | number | boolean;

/**
 * A filter as a tree of conditions. A condition on a missing value is false, and its `not` is true. Only `empty` is
 * true for a missing value.
 */
export type Filter =
  | { kind: 'all'; of: Filter[] }
  | { kind: 'any'; of: Filter[] }
  | { kind: 'not'; of: Filter }
  | { kind: 'in'; field: string; values: FilterValue[] }
  /** Compares texts by the code points of their folded form (lower case, no accents). */
  | { kind: 'compare'; field: string; operator: Comparison; value: FilterValue }
  | { kind: 'contains'; field: string; text: string; at: 'anywhere' | 'start' | 'end' }
  | { kind: 'empty'; field: string }
  /**
   * Matches contacts that were added by hand to one of `lists`, or to any list. The caller has checked that all `lists`
   * exist.
   */
  | { kind: 'member'; lists: string[] | 'any' }
  | { kind: 'search'; field: string; words: Words };

/** The words of a search. A search without words matches nobody, so the parser writes it as `any([])`. */
export type Words = [string, ...string[]];

export type Comparison = 'gt' | 'gte' | 'lt' | 'lte';

export const all = (of: Filter[]): Filter => (of.length === 1 ? of[0]! : { kind: 'all', of });
export const any = (of: Filter[]): Filter => (of.length === 1 ? of[0]! : { kind: 'any', of });
export const not = (of: Filter): Filter => ({ kind: 'not', of });

export const singleList = (filter: Filter): string | undefined =>
  filter.kind === 'member' && filter.lists !== 'any' && filter.lists.length === 1 ? filter.lists[0] : undefined;

export function fieldsOf(filter: Filter): Set<string> {
  if (filter.kind === 'all' || filter.kind === 'any') return new Set(filter.of.flatMap((one) => [...fieldsOf(one)]));
  if (filter.kind === 'not') return fieldsOf(filter.of);
  return new Set([filter.kind === 'member' ? 'list_id' : filter.field]);
}

export const canonicalInstant = (text: string): string => new Date(text.toUpperCase()).toISOString();

const canonicals: Partial<Record<FieldType, (text: string) => string>> = {
  exact: (text) => text,
  domain: (text) => domainOf(text) ?? text.toLowerCase(),
  instant: canonicalInstant,
  uuid: (text) => text.toLowerCase(),
  of: (text) => text.toLowerCase(),
};

export const canonicalOf = (type: FieldType, value: FilterValue): FilterValue =>
  typeof value === 'string' ? (canonicals[type] ?? fold)(value) : value;

const isInt4 = (text: string): boolean => /^\s*[+-]?\d{1,10}\s*$/.test(text) && Number(text) === (Number(text) | 0);

const checks: Partial<Record<FieldType, { is: (text: string) => boolean; name: string }>> = {
  integer: { is: isInt4, name: 'a whole number from -2147483648 to 2147483647' },
  instant: {
    is: (text) => isInstant(text.trim()),
    name: 'an RFC 3339 date-time with an offset, such as 2026-03-14T09:26:53.589Z',
  },
  uuid: { is: (text) => canonicalId(text.trim()) !== undefined, name: 'a UUID' },
};

export function readText(type: FieldType, text: string): { value: FilterValue } | { fault: string } {
  const check = checks[type];
  if (!check) return { value: canonicalOf(type, text) };
  if (!check.is(text)) return { fault: `must be ${check.name}` };
  return { value: type === 'integer' ? Number(text) : canonicalOf(type, text.trim()) };
}

// The planner does not know how many rows a customer has: it may make 8,000,000 comparisons for 2,000 contacts and
// 4,000 companies. `offset 0` keeps the subquery apart, so the only plan is one look-up by key for each row.
/**
 * Returns a `left join` that adds at most one row of another table, found by its primary key. Use it for each join to
 * companies, lists, opportunities or products. With a plain join, PostgreSQL may compare each row with all rows of that
 * table.
 * @param row SQL statement that selects at most one row, by the whole primary key
 * @param alias alias of the added row in the rest of the statement
 */
export const lookUp = (sql: FragmentMaker, row: Fragment, alias: string): Fragment =>
  sql`left join lateral (${row} offset 0) ${constant(sql, alias)} on true`;

// Each folded text is a column, so a statement that reads many rows of few companies extracts it from `folded` once.
/**
 * Returns a `left join` that adds the company of each row as `co`. Its columns are null if the company is deleted.
 * @param alias alias of the table with `company_id`: `c` for contacts, `o` for opportunities
 */
export const lookUpCompany = (sql: FragmentMaker, customerId: string, alias: 'c' | 'o'): Fragment =>
  lookUp(
    sql,
    sql`
    select
      k.id,
      k.external_id,
      k.company_name,
      k.industry,
      (k.folded ->> 'company_name') collate "C" as folded_company_name,
      (k.folded ->> 'industry') collate "C" as folded_industry
    from ${liveCompanies(sql, customerId, 'k')}
      and k.id = ${constant(sql, alias)}.company_id`,
    'co',
  );

/**
 * Type and SQL expressions of a filter field. The expressions are constants of this program, never a caller's input.
 */
export interface Column {
  type: FieldType;
  /**
   * SQL expression that conditions compare and pages sort by. A text is folded (lower case, no accents) and has the
   * collation "C".
   */
  value: string;
  raw: string;
  required: boolean;
  isFolded?: true;
  /** Text that responses and comparisons use instead of null. */
  shownAs?: string;
  isOfCompany?: true;
  cases?: { true: string; false: string };
  /**
   * SQL for a field with several ids, such as the contacts of an opportunity. The ids are in another table: `rows`
   * selects the values of `key` from it, for the record whose id is in the column `id`.
   */
  linked?: { key: string; rows: string; id: string };
  /** Indexed column that conditions compare instead of `value`. It equals `value`, unless `value` is null. */
  key?: string;
}

export interface Source {
  fields: FilterFields;
  table: 'contacts' | 'companies' | 'products' | 'opportunities' | 'activities';
  alias: 'c' | 'co' | 'p' | 'o' | 'a';
  /** SQL condition for the records that callers may see. Undefined: all records of the customer. */
  visible?: string;
  columns: Readonly<Record<string, Column>>;
  searched: readonly string[];
  /**
   * Version of how the columns `folded` and `terms` are computed. Raise it when you change that: the worker then
   * recomputes both. 0: the records have no `terms`. See docs/contributing.md.
   */
  searchVersion: number;
}

const column = (type: FieldType, value: string, required = false): Column => ({ type, value, raw: value, required });

const foldedText = (alias: string, name: string, required: boolean): Column => ({
  type: 'text',
  isFolded: true,
  value: `(${alias}.folded ->> '${name}') collate "C"`,
  raw: `${alias}.${name}`,
  required,
});

const foldedOnRead = (alias: string, name: string): Column => ({
  ...column('text', foldInSql(`${alias}.${name}`), true),
  raw: `${alias}.${name}`,
});

const ofCompany = (name: string): Column => ({
  type: 'text',
  isOfCompany: true,
  value: `co.folded_${name}`,
  raw: `co.${name}`,
  required: false,
  shownAs: '',
});

const withoutColumn = new Set(['list_id', 'search', 'company_or_its_contacts']);

function namesakes({ types }: FilterFields, alias: string, { properties }: TObject): Record<string, Column> {
  const names = Object.keys(types).filter((name) => !name.includes('.') && !withoutColumn.has(name));
  const one = (name: string): Column => {
    const isRequired = name in properties && ![properties[name]!['type']].flat().includes('null');
    return types[name] === 'text'
      ? foldedText(alias, name, isRequired)
      : column(types[name]!, `${alias}.${name}`, isRequired);
  };
  return Object.fromEntries(names.map((name) => [name, one(name)]));
}

const status = (alias: string) => column('text', `${alias}.verification_status collate "C"`, true);
const lastVerified = (alias: string) =>
  column('instant', `coalesce(${alias}.last_verified, ${alias}.created_at)`, true);

/**
 * Source for filters on contacts. The id of the company is read from `co.id`, because `c.company_id` can name a deleted
 * company.
 */
export const contactSource: Source = {
  fields: contactFilterFields,
  table: 'contacts',
  alias: 'c',
  columns: {
    ...namesakes(contactFilterFields, 'c', Contact),
    // Digits in which `search` looks for numbers.
    phones: column('exact', `(c.folded ->> 'phones') collate "C"`),
    company_id: { ...column('uuid', 'co.id'), isOfCompany: true, key: 'c.company_id' },
    verification_status: status('c'),
    last_verified: lastVerified('c'),
    'company.company_name': ofCompany('company_name'),
    'company.industry': ofCompany('industry'),
  },
  searched: [`c.folded ->> 'search'`, 'co.folded_company_name'],
  searchVersion: 2,
};

export const companySource: Source = {
  fields: companyFilterFields,
  table: 'companies',
  alias: 'co',
  visible: isLive('co'),
  columns: {
    ...namesakes(companyFilterFields, 'co', Company),
    verification_status: status('co'),
    last_verified: lastVerified('co'),
  },
  searched: [`co.folded ->> 'company_name'`],
  searchVersion: 1,
};

export const productSource: Source = {
  fields: productFilterFields,
  table: 'products',
  alias: 'p',
  visible: isLive('p'),
  columns: {
    ...namesakes(productFilterFields, 'p', Product),
    name: foldedOnRead('p', 'name'),
    unit: foldedOnRead('p', 'unit'),
    currency: foldedOnRead('p', 'currency'),
    active: { ...column('boolean', 'p.active', true), cases: { true: 'p.active', false: 'not p.active' } },
  },
  searched: [],
  searchVersion: 0,
};

export const opportunitySource: Source = {
  fields: opportunityFilterFields,
  table: 'opportunities',
  alias: 'o',
  columns: {
    ...namesakes(opportunityFilterFields, 'o', Opportunity),
    name: foldedOnRead('o', 'name'),
    description: foldedOnRead('o', 'description'),
    priority: foldedOnRead('o', 'priority'),
    company_id: { ...column('uuid', 'co.id'), isOfCompany: true, key: 'o.company_id' },
    contact_id: {
      ...column('uuid', ''),
      linked: { key: 'o.id', rows: 'm.opportunity_id from opportunity_contacts m where m', id: 'm.contact_id' },
    },
    pipeline_id: {
      ...column('uuid', ''),
      linked: { key: 'o.stage_id', rows: 's.id from stages s where s', id: 's.pipeline_id' },
    },
  },
  searched: [],
  searchVersion: 0,
};

const ofTask = (condition: string): Column => ({
  ...column('boolean', `nullif(a.type = 'task', false)`),
  cases: { true: `(a.type = 'task' and ${condition})`, false: `(a.type = 'task' and not (${condition}))` },
});

/**
 * Source for filters on activities. Activities have no search terms, because a text of 10,000 characters would have as
 * many.
 */
export const activitySource: Source = {
  fields: activityFilterFields,
  table: 'activities',
  alias: 'a',
  visible: 'a.hidden_at is null',
  columns: {
    ...namesakes(activityFilterFields, 'a', Activity),
    type: column('text', 'a.type collate "C"', true),
    is_done: ofTask('a.done_at is not null'),
    is_overdue: ofTask('a.done_at is null and coalesce(a.due_at < now(), false)'),
  },
  searched: [`a.folded ->> 'title'`, `a.folded ->> 'body'`],
  searchVersion: 0,
};

export const hasCompany = ({ alias }: Source): boolean => alias === 'c' || alias === 'o';

/**
 * Returns the SQL `from` clause for statements that read records of a source.
 * @param withCompany false if the statement uses no field of the company
 * @param rows the records to read, with the alias of the source. Default: the table
 */
export function fromOf(
  sql: FragmentMaker,
  { table, alias }: Source,
  customerId: string,
  { withCompany = true, rows = constant(sql, `${table} ${alias}`) } = {},
): Fragment {
  return (alias === 'c' || alias === 'o') && withCompany ? sql`${rows} ${lookUpCompany(sql, customerId, alias)}` : rows;
}

export function ownedBy(sql: FragmentMaker, { alias, visible }: Source, customerId: string): Fragment {
  const ofCustomer = sql`${constant(sql, alias)}.customer_id = ${customerId}::uuid`;
  return visible ? sql`${ofCustomer} and ${constant(sql, visible)}` : ofCustomer;
}

export type Folded = Record<string, string>;

export type RecordFields = Readonly<Record<string, unknown>>;

/**
 * Returns the column `folded`: the record's texts in lower case and without accents. A null text is left out, and a
 * required text that is absent becomes `""`.
 * @param record all fields, not only the changed ones
 */
export function foldRecord(source: Source, record: RecordFields): Folded {
  // Plain loops for speed: jobs fold thousands of records per second.
  const folded: Folded = {};
  for (const { name, required } of textsOf(source)) put(folded, name, record[name] ?? (required ? '' : null));
  for (const [key, value] of Object.entries((record['custom_fields'] as RecordFields | undefined) ?? {}))
    put(folded, `custom_fields.${key}`, value);
  if (source.alias !== 'c') return folded;
  const phones = phoneDigits(
    (record['phone_numbers'] ?? []) as PhoneNumber[],
    (record['mobile_phone'] ?? null) as string | null,
  );
  if (phones !== '') folded['phones'] = phones;
  // The filter `search` looks for words in this text.
  folded['search'] = fold(
    searchedOf(source)
      .flatMap((name) => record[name] ?? [])
      .filter(isText)
      .join(' '),
  );
  return folded;
}

export const foldedColumns = (source: Source): string[] => [
  ...textsOf(source).map(({ name }) => name),
  'custom_fields',
  ...(source.alias === 'c' ? ['phone_numbers', ...searchedOf(source)] : []),
];

/** Returns a function that computes a value once for each source. */
export function ofSource<T>(compute: (source: Source) => T): (source: Source) => T {
  const known = new WeakMap<Source, T>();
  return (source) => {
    const value = known.get(source) ?? compute(source);
    known.set(source, value);
    return value;
  };
}

export const searchedOf = ofSource(({ fields }): readonly string[] =>
  namesWhere(fields.table, ({ isSearched }) => isSearched),
);

const textsOf = ofSource(({ columns }) =>
  Object.entries(columns).flatMap(([name, { isFolded, required }]) => (isFolded ? [{ name, required }] : [])),
);

const isText = (value: unknown): value is string => typeof value === 'string';

function put(folded: Folded, name: string, value: unknown): void {
  if (isText(value)) folded[name] = fold(value);
}

interface OrderKey {
  field: string;
  direction: 'ASC' | 'DESC';
}

/** Sort keys, the most important first. Ties are sorted by id, descending. */
export type Order = readonly OrderKey[];

export const defaultOrder: Order = [{ field: 'created_at', direction: 'DESC' }];

export const parseOrder = (given: GivenOrder | undefined): Order =>
  given === undefined ? defaultOrder : withoutRedundant(keysOf(given) as OrderKey[]);

const keysOf = (given: GivenOrder) =>
  Array.isArray(given) ? given : Object.entries(given).map(([field, direction]) => ({ field, direction }));

function withoutRedundant(keys: OrderKey[]): OrderKey[] {
  const kept = new Map<string, OrderKey>();
  for (const { field, direction } of keys) {
    if (!kept.has('id') && !kept.has(field)) kept.set(field, { field, direction });
  }
  return [...kept.values()];
}
