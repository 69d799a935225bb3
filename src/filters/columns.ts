import { companyFilterFields, contactFilterFields, type FieldType, type FilterFields } from '../schemas/filters.ts';

/** The SQL expressions of one field. All texts here are constants of this program, never input from a caller. */
export interface Column {
  type: FieldType;
  /** The expression that conditions and sorting use. For text: the folded form, with collation "C". */
  value: string;
  /** The expression that tells whether the field is empty. For text: the original form. */
  raw: string;
  /** True if `value` is never null. */
  required: boolean;
  /** Set if `value` is read from the record's own column `folded`, under the field's name. */
  isFolded?: true;
  /** The value that responses show in place of null. Comparisons use it too. */
  shownAs?: string;
}

/** The tables and columns of one kind of record, with the aliases that every statement over them uses. */
export interface Source {
  fields: FilterFields;
  /** Alias of the records' own table. */
  alias: 'c' | 'co';
  /** The from clause of every statement that contains these expressions. */
  from: string;
  /** Condition that holds for every record that callers may see. Absent if they may see all of them. */
  visible?: string;
  columns: Readonly<Record<string, Column>>;
  /** Expressions of the folded texts that `search` looks into. */
  searched: readonly string[];
  /** Fields with an index (customer_id, value, id). None of them is ever null. */
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

/** Filter fields that no column holds. */
const withoutColumn = new Set(['list_id', 'search']);

/** Returns the columns of all fields whose column has the field's name. */
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
 * Column of the verification status. Jobs write it too. It needs no folded form: every status equals its own folded
 * form.
 */
const status = (alias: string) => column('text', `${alias}.verification_status collate "C"`, true);
/** Column of the last verification. A record that was never verified shows its time of creation. */
const lastVerified = (alias: string) =>
  column('instant', `coalesce(${alias}.last_verified, ${alias}.created_at)`, true);

const requiredOfContacts =
  'id first_name last_name work_email industry job_title location_locality location_country location_region score created_at updated_at';
const requiredOfCompanies = 'id type company_name size industry location_country score created_at updated_at';

/**
 * Contacts, each joined with its company. Contacts of a deleted company still refer to it until the deletion is settled
 * (src/queries/company-settlements.ts), so a contact's company is `co.id`, never `c.company_id`.
 *
 * `updated_at` is the plain column, which has an index. It is exact unless the customer has an unsettled deletion.
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
 * Returns an expression for the time of a record's last update. If the record's company is deleted, the deletion counts
 * as an update of the record, even while the record still refers to the company. The statement must join the company as
 * `co`, unless it is deleted.
 * @param alias alias of the record's table: contacts or opportunities
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
 * Contacts with an `updated_at` that is exact even while a deletion is unsettled. No index serves it. Postgres drops
 * the additional join from statements that do not use `updated_at`.
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

/** Companies that are not deleted. */
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
