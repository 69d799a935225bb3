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

/** In canonical form: text folded, instants in UTC with milliseconds, UUIDs in lower case. */
export type FilterValue = string | number | boolean;

/**
 * A tree of conditions. A condition on a missing value is false, so its `not` is true; only
 * `empty` is true for it.
 */
export type Filter =
  /** Also true if `of` is empty. */
  | { kind: 'all'; of: Filter[] }
  /** False if `of` is empty. */
  | { kind: 'any'; of: Filter[] }
  | { kind: 'not'; of: Filter }
  | { kind: 'in'; field: string; values: FilterValue[] }
  /** Folded texts are compared by code point. */
  | { kind: 'compare'; field: string; operator: Comparison; value: FilterValue }
  /** Anywhere, at its start or at its end. Case and accents are ignored. */
  | { kind: 'contains'; field: string; text: string; at: 'anywhere' | 'start' | 'end' }
  | { kind: 'empty'; field: string }
  /** A contact that was added by hand to one of `lists`, which exist, or to any list. */
  | { kind: 'member'; lists: string[] | 'any' }
  /** Every word occurs in at least one of the texts that `search` covers. */
  | { kind: 'search'; field: string; words: Words };

/** A search without words matches nobody, so it is `any([])`. */
export type Words = [string, ...string[]];

export type Comparison = 'gt' | 'gte' | 'lt' | 'lte';

export const all = (of: Filter[]): Filter => (of.length === 1 ? of[0]! : { kind: 'all', of });
export const any = (of: Filter[]): Filter => (of.length === 1 ? of[0]! : { kind: 'any', of });
export const not = (of: Filter): Filter => ({ kind: 'not', of });

/** Returns the id if the filter selects the contacts that were added by hand to exactly one list. */
export const singleList = (filter: Filter): string | undefined =>
  filter.kind === 'member' && filter.lists !== 'any' && filter.lists.length === 1 ? filter.lists[0] : undefined;

export function fieldsOf(filter: Filter): Set<string> {
  if (filter.kind === 'all' || filter.kind === 'any') return new Set(filter.of.flatMap((one) => [...fieldsOf(one)]));
  if (filter.kind === 'not') return fieldsOf(filter.of);
  return new Set([filter.kind === 'member' ? 'list_id' : filter.field]);
}

/** Returns ISO 8601 in UTC, rounded down to the millisecond. */
export const canonicalInstant = (text: string): string => new Date(text.toUpperCase()).toISOString();

const canonicals: Partial<Record<FieldType, (text: string) => string>> = {
  exact: (text) => text,
  domain: (text) => domainOf(text) ?? text.toLowerCase(),
  instant: canonicalInstant,
  uuid: (text) => text.toLowerCase(),
  of: (text) => text.toLowerCase(),
};

/** Returns a valid value of a filter in the form in which it is compared. */
export const canonicalOf = (type: FieldType, value: FilterValue): FilterValue =>
  typeof value === 'string' ? (canonicals[type] ?? fold)(value) : value;

const isInt4 = (text: string): boolean => /^\s*[+-]?\d{1,10}\s*$/.test(text) && Number(text) === (Number(text) | 0);

/** What the text of a rule must be, and whether one is. Any text is valid for the other types. */
const checks: Partial<Record<FieldType, { is: (text: string) => boolean; name: string }>> = {
  integer: { is: isInt4, name: 'a whole number from -2147483648 to 2147483647' },
  instant: {
    is: (text) => isInstant(text.trim()),
    name: 'an RFC 3339 date-time with an offset, such as 2026-03-14T09:26:53.589Z',
  },
  uuid: { is: (text) => canonicalId(text.trim()) !== undefined, name: 'a UUID' },
};

/** Reads the text of a rule as a value of its field. Returns the canonical value, or what is wrong with the text. */
export function readText(type: FieldType, text: string): { value: FilterValue } | { fault: string } {
  const check = checks[type];
  if (!check) return { value: canonicalOf(type, text) };
  if (!check.is(text)) return { fault: `must be ${check.name}` };
  return { value: type === 'integer' ? Number(text) : canonicalOf(type, text.trim()) };
}

/**
 * Returns an SQL `left join` that adds to each row before it the row of another table with a given key, or nulls if
 * there is none. Use it for each join of a set of rows to companies, lists, opportunities or products.
 *
 * A plain join would leave it to the planner how to find the row. The planner does not know how many rows a customer has.
 * If it expects few, it may compare each row with all companies: 8,000,000 comparisons for 2,000 contacts and 4,000
 * companies. With `offset 0` the subquery stays apart from the statement, so the only plan is to read the row by its key,
 * once for each row before it.
 * @param row SQL statement that selects at most one row, by the whole primary key
 * @param alias alias of the added row in the rest of the statement
 */
export const lookUp = (sql: FragmentMaker, row: Fragment, alias: string): Fragment =>
  sql`left join lateral (${row} offset 0) ${constant(sql, alias)} on true`;

/**
 * Returns a `left join` that adds the company of each row as `co`, unless it is deleted. The folded texts are columns of
 * their own, so that a statement which reads many rows of few companies takes each text out of `folded` once.
 * @param alias of the table with `company_id`: `c` for contacts, `o` for opportunities
 */
export const lookUpCompany = (sql: FragmentMaker, customerId: string, alias: 'c' | 'o'): Fragment =>
  lookUp(
    sql,
    sql`
    select
      k.id,
      k.company_name,
      k.industry,
      (k.folded ->> 'company_name') collate "C" as folded_company_name,
      (k.folded ->> 'industry') collate "C" as folded_industry
    from ${liveCompanies(sql, customerId, 'k')}
      and k.id = ${constant(sql, alias)}.company_id`,
    'co',
  );

/** A filter field's type and SQL expressions. These are constants of this program, never a caller's input. */
export interface Column {
  type: FieldType;
  /** The value that conditions compare and pages sort by. A text is folded, with the collation "C". */
  value: string;
  raw: string;
  required: boolean;
  /** `value` reads a key of `folded` in the record's own table. */
  isFolded?: true;
  /** Replaces null in responses and comparisons. */
  shownAs?: string;
  /** `value` reads the company of the contact or opportunity (alias `co`). */
  isOfCompany?: true;
  /** Of a boolean: the conditions on the records with each value. */
  cases?: { true: string; false: string };
  /**
   * Ids in another table: of the records whose `key` its `rows` have with this `id`. `rows`: what stands between `select` and
   * the customer's id.
   */
  linked?: { key: string; rows: string; id: string };
  /** A column with an index, equal to `value` unless that is null. */
  key?: string;
}

export interface Source {
  fields: FilterFields;
  table: 'contacts' | 'companies' | 'products' | 'opportunities' | 'activities';
  alias: 'c' | 'co' | 'p' | 'o' | 'a';
  /** Condition for the records that callers may see. Undefined: all of the customer. */
  visible?: string;
  columns: Readonly<Record<string, Column>>;
  searched: readonly string[];
  /**
   * Version of `folded` and `terms`, from 1; 0: there are no terms. Raise it if one of them is computed in another way or from other fields:
   * the worker then computes both again. docs/contributing.md says what else to do.
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

/** Folded when it is compared: see `foldInSql`. */
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

/** Returns the filter fields whose column has the same name. */
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

/** Compared as stored: always in lower case, without accents. */
const status = (alias: string) => column('text', `${alias}.verification_status collate "C"`, true);
/** For a record that was never verified, the value is its time of creation. */
const lastVerified = (alias: string) =>
  column('instant', `coalesce(${alias}.last_verified, ${alias}.created_at)`, true);

/** The id of the contact's company is `co.id`: `c.company_id` can name a deleted company. */
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

/** Without folded texts: a customer has few of them. */
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

/** Without folded texts, as products. */
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

/** A condition on tasks. Of other activities, it has no value. */
const ofTask = (condition: string): Column => ({
  ...column('boolean', `nullif(a.type = 'task', false)`),
  cases: { true: `(a.type = 'task' and ${condition})`, false: `(a.type = 'task' and not (${condition}))` },
});

/** Without search terms: a text of 10,000 characters would have as many. */
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

/** Its records can have a company, which may be deleted. */
export const hasCompany = ({ alias }: Source): boolean => alias === 'c' || alias === 'o';

/**
 * Returns the SQL `from` clause for statements that read records of a source.
 * @param withCompany false if the statement uses no field of the company
 * @param rows the records to read, with the alias of the source. By default, the table.
 */
export function fromOf(
  sql: FragmentMaker,
  { table, alias }: Source,
  customerId: string,
  { withCompany = true, rows = constant(sql, `${table} ${alias}`) } = {},
): Fragment {
  return (alias === 'c' || alias === 'o') && withCompany ? sql`${rows} ${lookUpCompany(sql, customerId, alias)}` : rows;
}

/** The value of the column `folded`: folded texts by field name. */
export type Folded = Record<string, string>;

/** By names in the API. Undefined counts as absent. */
export type RecordFields = Readonly<Record<string, unknown>>;

/**
 * Returns the value of the column `folded`. A text that is null is left out; a required text that is absent is `""`.
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

/** Returns the fields in which `search` finds words. Of a contact, it reads them as one text. */
export const searchedOf = ({ fields }: Source): string[] => namesWhere(fields.table, ({ isSearched }) => isSearched);

interface FoldedText {
  name: string;
  required: boolean;
}
const textsBySource = new WeakMap<Source, FoldedText[]>();

function textsOf(source: Source): FoldedText[] {
  const known = textsBySource.get(source);
  if (known) return known;
  const texts = Object.entries(source.columns).flatMap(([name, { isFolded, required }]) =>
    isFolded ? [{ name, required }] : [],
  );
  textsBySource.set(source, texts);
  return texts;
}

const isText = (value: unknown): value is string => typeof value === 'string';

function put(folded: Folded, name: string, value: unknown): void {
  if (isText(value)) folded[name] = fold(value);
}

interface OrderKey {
  field: string;
  direction: 'ASC' | 'DESC';
}

/** Most important first. Ties are sorted by id, descending. */
export type Order = readonly OrderKey[];

export const defaultOrder: Order = [{ field: 'created_at', direction: 'DESC' }];

/**
 * Returns the keys of a request's `order_by`.
 * @param given an order that is valid by its schema
 */
export const parseOrder = (given: GivenOrder | undefined): Order =>
  given === undefined ? defaultOrder : withoutIdle(keysOf(given) as OrderKey[]);

const keysOf = (given: GivenOrder) =>
  Array.isArray(given) ? given : Object.entries(given).map(([field, direction]) => ({ field, direction }));

/** Removes keys without effect: a repeated field, and all keys after the id, because ids are unique. */
function withoutIdle(keys: OrderKey[]): OrderKey[] {
  const kept = new Map<string, OrderKey>();
  for (const { field, direction } of keys) {
    if (!kept.has('id') && !kept.has(field)) kept.set(field, { field, direction });
  }
  return [...kept.values()];
}
