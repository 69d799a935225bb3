import type { TObject } from '@sinclair/typebox';
import { Activity, activityFilterFields } from '../schemas/activities.ts';
import { Company, companyFilterFields } from '../schemas/companies.ts';
import { Contact, contactFilterFields } from '../schemas/contacts.ts';
import type { FieldType } from '../schemas/base/field-table.ts';
import type { FilterFields } from '../schemas/filters.ts';
import { Opportunity, opportunityFilterFields } from '../schemas/opportunities.ts';
import { Product, productFilterFields } from '../schemas/products.ts';
import { isLive } from './live.ts';
import { lookUpCompany } from './look-up.ts';
import { foldInSql } from '../text/fold.ts';
import { constant, type Fragment, type FragmentMaker } from './sql.ts';

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
