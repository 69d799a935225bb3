import { companyFilterFields, contactFilterFields, type FieldType, type FilterFields } from '../schemas/filters.ts';
import { lookUpCompany } from './look-up.ts';
import { constant, type Fragment, type FragmentMaker } from './sql.ts';

/**
 * The type of one filter field, and its SQL expressions. The expressions are constants of this program, never input
 * from a caller.
 */
export interface Column {
  type: FieldType;
  /**
   * SQL expression for the field's value as conditions compare it and pages sort by it. A text is in lower case, without
   * accents, and has the collation "C".
   */
  value: string;
  /** SQL expression for the stored value. Conditions use it to test whether the field is empty. */
  raw: string;
  /** True if the SQL expression `value` is never null. */
  required: boolean;
  /** True if `value` reads a key of the JSON column `folded` in the record's own table. */
  isFolded?: true;
  /** The value that replaces null in responses and comparisons. */
  shownAs?: string;
  /** True if `value` reads the contact's company (alias `co`). */
  isOfCompany?: true;
  /** SQL expression of a column with an index. It has the same value as `value`, unless `value` is null. */
  key?: string;
}

/** The tables and columns of one kind of record (contacts or companies) for SQL statements, with their aliases. */
export interface Source {
  fields: FilterFields;
  /** The table that holds the records, and its SQL alias. */
  table: 'contacts' | 'companies';
  alias: 'c' | 'co';
  /** SQL condition for the records that callers may see. Undefined if callers may see all records of the customer. */
  visible?: string;
  columns: Readonly<Record<string, Column>>;
  /** SQL expressions of the folded texts (lower case, no accents) in which the filter `search` looks for words. */
  searched: readonly string[];
  /**
   * Version of the columns `folded` and `terms`, from 1. Raise it if one of them is computed in another way or from
   * other fields. The worker then computes both again for all records. docs/contributing.md says what else to do.
   */
  searchVersion: number;
  /** Names of the fields with a database index on (customer_id, value, id). The value of such a field is never null. */
  indexed: readonly string[];
}

const column = (type: FieldType, value: string, required = false): Column => ({ type, value, raw: value, required });

const foldedText = (alias: string, name: string, required: boolean): Column => ({
  type: 'text',
  isFolded: true,
  value: `(${alias}.folded ->> '${name}') collate "C"`,
  raw: `${alias}.${name}`,
  required,
});

const ofCompany = (name: string): Column => ({
  type: 'text',
  isOfCompany: true,
  value: `(co.folded ->> '${name}') collate "C"`,
  raw: `co.${name}`,
  required: false,
  shownAs: '',
});

/** Names of the filter fields that have no database column of their own. */
const withoutColumn = new Set(['list_id', 'search']);

/**
 * Returns the SQL columns of the filter fields whose database column has the same name as the field.
 * @param alias SQL alias of the table
 * @param required names of the fields whose value is never null
 */
function namesakes(fields: FilterFields, alias: string, required: readonly string[]): Record<string, Column> {
  const names = Object.keys(fields.types).filter((name) => !name.includes('.') && !withoutColumn.has(name));
  const one = (name: string): Column => {
    const type = fields.types[name]!;
    const isRequired = required.includes(name);
    return type === 'text' ? foldedText(alias, name, isRequired) : column(type, `${alias}.${name}`, isRequired);
  };
  return Object.fromEntries(names.map((name) => [name, one(name)]));
}

/**
 * Returns the column definition of `verification_status`. The stored value is compared without conversion, because it
 * is always in lower case and has no accents.
 */
const status = (alias: string) => column('text', `${alias}.verification_status collate "C"`, true);
/**
 * Returns the column for the time of the last verification. For a record that was never verified, its value is the time
 * of creation.
 */
const lastVerified = (alias: string) =>
  column('instant', `coalesce(${alias}.last_verified, ${alias}.created_at)`, true);

const requiredOfContacts =
  'id first_name last_name work_email industry job_title location_locality location_country location_region score created_at updated_at';
const requiredOfCompanies = 'id type company_name size industry location_country score created_at updated_at';

/**
 * The tables and columns for filtering contacts. Use `co.id` as the id of the contact's company: `c.company_id` names a deleted company until a background job has cleared it.
 */
export const contactSource: Source = {
  fields: contactFilterFields,
  table: 'contacts',
  alias: 'c',
  columns: {
    ...namesakes(contactFilterFields, 'c', requiredOfContacts.split(' ')),
    company_id: { ...column('uuid', 'co.id'), isOfCompany: true, key: 'c.company_id' },
    verification_status: status('c'),
    last_verified: lastVerified('c'),
    'company.company_name': ofCompany('company_name'),
    'company.industry': ofCompany('industry'),
  },
  searched: [`c.folded ->> 'search'`, `co.folded ->> 'company_name'`],
  searchVersion: 1,
  indexed: ['updated_at', 'score', 'last_name', 'work_email'],
};

/** The tables and columns for filtering the companies that are not deleted. */
export const companySource: Source = {
  fields: companyFilterFields,
  table: 'companies',
  alias: 'co',
  visible: 'co.deleted_at is null',
  columns: {
    ...namesakes(companyFilterFields, 'co', requiredOfCompanies.split(' ')),
    verification_status: status('co'),
    last_verified: lastVerified('co'),
  },
  searched: [`co.folded ->> 'company_name'`],
  searchVersion: 1,
  indexed: ['updated_at', 'score', 'company_name'],
};

/**
 * Returns the SQL `from` clause for statements that read records of a source.
 * @param withCompany false if the statement uses no field of the contact's company
 * @param rows the records to read, with the alias of the source. By default, the table.
 */
export function fromOf(
  sql: FragmentMaker,
  { table, alias }: Source,
  customerId: string,
  { withCompany = true, rows = constant(sql, `${table} ${alias}`) } = {},
): Fragment {
  return alias === 'c' && withCompany ? sql`${rows} ${lookUpCompany(sql, customerId, alias)}` : rows;
}
