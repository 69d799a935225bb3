import { companyFilterFields, contactFilterFields, type FieldType, type FilterFields } from '../schemas/filters.ts';
import { isLive } from './live.ts';
import { lookUpCompany } from './look-up.ts';
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
  /** `value` reads the contact's company (alias `co`). */
  isOfCompany?: true;
  /** A column with an index, equal to `value` unless that is null. */
  key?: string;
}

export interface Source {
  fields: FilterFields;
  table: 'contacts' | 'companies';
  alias: 'c' | 'co';
  /** Condition for the records that callers may see. Undefined: all of the customer. */
  visible?: string;
  columns: Readonly<Record<string, Column>>;
  searched: readonly string[];
  /**
   * Version of `folded` and `terms`, from 1. Raise it if one of them is computed in another way or from other fields:
   * the worker then computes both again. docs/contributing.md says what else to do.
   */
  searchVersion: number;
  /** Fields with an index on (customer_id, value, id). Their value is never null. */
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
  value: `co.folded_${name}`,
  raw: `co.${name}`,
  required: false,
  shownAs: '',
});

const withoutColumn = new Set(['list_id', 'search']);

/**
 * Returns the filter fields whose column has the same name.
 * @param required the fields whose value is never null
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

/** Compared as stored: always in lower case, without accents. */
const status = (alias: string) => column('text', `${alias}.verification_status collate "C"`, true);
/** For a record that was never verified, the value is its time of creation. */
const lastVerified = (alias: string) =>
  column('instant', `coalesce(${alias}.last_verified, ${alias}.created_at)`, true);

const requiredOfContacts =
  'id first_name last_name work_email industry job_title location_locality location_country location_region score created_at updated_at';
const requiredOfCompanies = 'id type company_name size industry location_country score created_at updated_at';

/** The id of the contact's company is `co.id`: `c.company_id` can name a deleted company. */
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
  searched: [`c.folded ->> 'search'`, 'co.folded_company_name'],
  searchVersion: 1,
  indexed: ['updated_at', 'score', 'last_name', 'work_email'],
};

export const companySource: Source = {
  fields: companyFilterFields,
  table: 'companies',
  alias: 'co',
  visible: isLive('co'),
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
