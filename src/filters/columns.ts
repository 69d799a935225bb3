import { companyFilterFields, contactFilterFields, type FieldType, type FilterFields } from '../schemas/filters.ts';

/** Where the database keeps a field. The texts are SQL written here, never a caller's. */
export interface Column {
  type: FieldType;
  /** What is compared and sorted by: text folded, and as bytes. */
  value: string;
  /** What is looked at to see whether the field is empty: text as it was given. */
  raw: string;
  /** `value` is never null. */
  required: boolean;
  /** `value` is read from the record's own `folded`, under the field's name. */
  isFolded?: true;
  /** What a missing value is shown as, and therefore compares as. */
  shownAs?: string;
}

/** Where the database keeps the records of one kind, and how the statements that read them call their tables. */
export interface Source {
  fields: FilterFields;
  /** The alias of the records' own table. */
  alias: 'c' | 'co';
  /** What stands in the from clause of every statement that these fragments are put into. */
  from: string;
  /** The condition that every record meets that callers may see; left out where all do. */
  visible?: string;
  columns: Readonly<Record<string, Column>>;
  /** The folded texts that `search` looks into. */
  searched: readonly string[];
  /** The fields, none of them ever null, that have an index (customer_id, value, id). */
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
  value: `(co.folded ->> '${name}') collate "C"`,
  raw: `co.${name}`,
  required: false,
  shownAs: '',
});

/** Fields that no column holds. */
const withoutColumn = new Set(['list_id', 'search']);

/** The columns that have their field's name, as most do. */
function namesakes(fields: FilterFields, alias: string, required: readonly string[]): Record<string, Column> {
  const names = Object.keys(fields.types).filter((name) => !name.includes('.') && !withoutColumn.has(name));
  const one = (name: string): Column => {
    const type = fields.types[name]!;
    const isRequired = required.includes(name);
    return type === 'text' ? foldedText(alias, name, isRequired) : column(type, `${alias}.${name}`, isRequired);
  };
  return Object.fromEntries(names.map((name) => [name, one(name)]));
}

/** Jobs write the status too; it is always as it folds to. */
const status = (alias: string) => column('text', `${alias}.verification_status collate "C"`, true);
/** A record never verified shows the time it was made. */
const lastVerified = (alias: string) =>
  column('instant', `coalesce(${alias}.last_verified, ${alias}.created_at)`, true);

const requiredOfContacts =
  'id first_name last_name work_email industry job_title location_locality location_country location_region score created_at updated_at';
const requiredOfCompanies = 'id type company_name size industry location_country score created_at updated_at';

/**
 * Contacts, and the company of each. A deleted company is no company, although contacts refer to it until they are settled
 * (src/queries/company-settlements.ts): so a contact's company is `co.id`, never `c.company_id`.
 *
 * `updated_at` is the bare column, which has an index. It is exact unless the customer has a deletion to settle.
 */
export const contactSource: Source = {
  fields: contactFilterFields,
  alias: 'c',
  from: 'contacts c left join companies co on co.customer_id = c.customer_id and co.id = c.company_id and co.deleted_at is null',
  columns: {
    ...namesakes(contactFilterFields, 'c', requiredOfContacts.split(' ')),
    company_id: column('uuid', 'co.id'),
    verification_status: status('c'),
    last_verified: lastVerified('c'),
    'company.company_name': ofCompany('company_name'),
    'company.industry': ofCompany('industry'),
  },
  searched: [`c.folded ->> 'search'`, `co.folded ->> 'company_name'`],
  indexed: ['updated_at', 'score', 'last_name', 'work_email'],
};

/**
 * When a record of `alias` was last updated: a deletion of its company counts, also while the record still refers to that.
 * The company is joined as `co`, unless it is deleted.
 */
export const updatedAtOf = (alias: 'c' | 'o'): string => `
  case
    when ${alias}.company_id is null or co.id is not null then ${alias}.updated_at
    else greatest(${alias}.updated_at, (
      select gone.deleted_at
      from companies gone
      where gone.customer_id = ${alias}.customer_id
        and gone.id = ${alias}.company_id
    ))
  end`;

/**
 * The same contacts with an exact `updated_at` at any time, which no index serves. The server leaves the join away where
 * that is not looked at.
 */
export const exactContactSource: Source = {
  ...contactSource,
  from: `${contactSource.from} left join companies gone on gone.customer_id = c.customer_id and gone.id = c.company_id and gone.deleted_at is not null`,
  columns: {
    ...contactSource.columns,
    updated_at: column('instant', 'greatest(c.updated_at, gone.deleted_at)', true),
  },
  indexed: contactSource.indexed.filter((field) => field !== 'updated_at'),
};

/** Companies. */
export const companySource: Source = {
  fields: companyFilterFields,
  alias: 'co',
  from: 'companies co',
  visible: 'co.deleted_at is null',
  columns: {
    ...namesakes(companyFilterFields, 'co', requiredOfCompanies.split(' ')),
    verification_status: status('co'),
    last_verified: lastVerified('co'),
  },
  searched: [`co.folded ->> 'company_name'`],
  indexed: ['updated_at', 'score', 'company_name'],
};
