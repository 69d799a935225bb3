import type { FastifyRequest } from 'fastify';
import type { Database, Transaction } from '../../database/db.ts';
import type { ExportedRecords } from '../../files/write-records.ts';
import type { Batch, Outcome } from '../../queries/records/batches.ts';
import type { CreateRecord, DeleteRecord, FindRecords, UpdateRecord } from '../../queries/records/finders.ts';
import type { RecordPage } from '../../queries/records/finders.ts';
import type { DeferredWrites } from '../../queries/records/deferred-writes.ts';
import type { FieldTable, FormControl, DeclaredObject } from '../../schemas/wire.ts';
import type { GivenFilters, GivenOrder } from '../../schemas/filters.ts';
import type { User } from '../../schemas/accounts.ts';
import type { Company } from '../../schemas/companies.ts';
import type { verificationStatuses } from '../../schemas/verification.ts';
import { pageNumberIn, search, text, type Fields, ask, filledIn, queryOf } from '../base/requests.ts';
import { pathWith, html, type Html, type PictureName, startOf, readDay, moment } from '../base/html.ts';
import { fieldWord, countryName, verification } from '../base/words.ts';
import { listNames, type ListName } from '../../queries/crm/lists.ts';
import { canonicalId } from '../../text/ids.ts';
import { findUnstorableText } from '../../text/json.ts';
import { validationFailed } from '../../errors.ts';
import { compile } from '../../validation/validator.ts';
import { textFields, type ProspectFilters, type TextField } from '../../schemas/prospects.ts';
import { countryCodes } from '../../files/phones.ts';
import { fold } from '../../text/fold.ts';

export interface FormField {
  name: string;
  label: string;
  control: FormControl | 'area' | 'choice' | 'tick' | 'day' | 'link';
  group: string;
  hint: string;
}

export const formFieldsOf = (table: FieldTable): FormField[] =>
  Object.entries(table).flatMap(([name, { label, form }]) =>
    form ? [{ name, label, control: 'text' as const, hint: '', ...form }] : [],
  );

type Verified = Pick<Company, 'verification_status' | 'last_verified' | 'score'>;
type Named = readonly (readonly [name: string, value: Html])[];

export const verificationFacts = (object: DeclaredObject, { verification_status: status, ...row }: Verified): Named => [
  [fieldWord(object, 'verification_status'), verification(status)],
  [fieldWord(object, 'last_verified'), moment(status === 'unverified' ? null : row.last_verified, 'never')],
  [fieldWord(object, 'score'), html`${row.score}`],
];

interface RecordRequest {
  filters?: GivenFilters;
  order_by?: GivenOrder;
  paginate?: { limit?: number; page?: number; cursor?: string };
}

export interface FilterControl {
  name: string;
  label: string;
  /**
   * Kind of control. `list`, `country`, `status` and `user` are selects, `since` asks for the first day, and `hidden`
   * only keeps a value from the address.
   */
  control: 'search' | 'text' | 'country' | 'list' | 'status' | 'user' | 'since' | 'hidden';
  field: string;
  /** True if the filter matches every value that contains the given text. */
  isPart?: true;
}

export interface RecordColumn<Row> {
  name: string;
  head: string;
  cell(row: Row, users: readonly User[]): Html;
  sort?: string;
  kind?: 'number';
  isOptional?: true;
}

export interface ShownRecord {
  id: string;
  custom_fields: Record<string, string | number | boolean>;
  created_at: string;
  updated_at: string;
}

export const serviceColumns: readonly RecordColumn<ShownRecord & { score: number }>[] = [
  { name: 'score', head: 'Score', cell: ({ score }) => html`${score}`, sort: 'score', isOptional: true },
  {
    name: 'changed',
    head: 'Last changed',
    cell: (row) => moment(row.updated_at),
    sort: 'updated_at',
    isOptional: true,
  },
  { name: 'created', head: 'Created', cell: (row) => moment(row.created_at), sort: 'created_at', isOptional: true },
];

export type References = Partial<Record<'contact_id' | 'company_id' | 'opportunity_id', string | null>>;

/**
 * Description of contacts or of companies, for pages that treat both alike. Its functions are those that the API's
 * routes call. Functions of a row are methods, so that pages can use a kind without knowing its rows.
 */
export interface RecordKind<Row extends ShownRecord = ShownRecord> {
  object: DeclaredObject;
  path: string;
  noun: string;
  title: string;
  picture: PictureName;
  advice: string;
  controls: readonly FilterControl[];
  /** Columns of the list. The first one names the record. */
  columns: readonly RecordColumn<Row>[];
  nameOf(row: Row): string;
  fields: readonly FormField[];
  facts(row: Row): Named;
  blank: object;
  /** Groups of field names. A new record needs at least one field of each group. */
  needs: readonly (readonly string[])[];
  schemas: { create: object; patch: object; filters: object };
  list: (db: Database, customerId: string, request: RecordRequest) => Promise<RecordPage<Row>>;
  /** Adds to rows of the list what the page shows of records that refer to them. */
  withCounts?(request: FastifyRequest, rows: readonly Row[]): Promise<Row[]>;
  countUpTo: (db: Database, customerId: string, filters: GivenFilters, most: number) => Promise<number>;
  find: FindRecords<Row>;
  create: CreateRecord<never>;
  /** Returns a notice of other records that may be the same as a new or changed one. */
  similar?: (request: FastifyRequest, body: object, id?: string) => Promise<Html | undefined>;
  update: UpdateRecord<never>;
  remove: DeleteRecord;
  write: (sql: Transaction, customerId: string, batch: Batch, deferred: DeferredWrites) => Promise<Outcome[]>;
  exported: (db: Database, customerId: string, request: RecordRequest) => ExportedRecords;
  /** Returns the paths to which the fields on the record's page link, by field name. */
  links(row: Row): Readonly<Record<string, string>>;
  head: readonly string[];
  /** Returns the filters for the record's activities, and the records to which a new activity refers. */
  workplace(row: Row): { filters: GivenFilters; about: References };
  related(request: FastifyRequest, row: Row): Promise<Html>;
  detaches(db: Database, customerId: string, row: Row): Promise<string>;
}

/**
 * Returns the names of the newest lists.
 * @param chosen id of a list that is always included, if it exists
 */
export const listChoices = (request: FastifyRequest, chosen = ''): Promise<ListName[]> =>
  ask(request, listNames, 100, canonicalId(chosen));

export async function readInOrder(request: FastifyRequest, { find }: RecordKind, ids: readonly string[]) {
  const rows = ids.length === 0 ? [] : await search(request, find, ids);
  const byId = new Map(rows.map((row) => [row.id, row]));
  return ids.flatMap((id) => byId.get(id) ?? []);
}

/** State of a list of records. The page's address contains all of it, so users can share a view. */
export interface View {
  values: Readonly<Record<string, string>>;
  /** Field to sort by, with `-` in front for descending order. Empty: newest first. */
  sort: string;
  /** Names of the chosen columns. Empty: the default columns. */
  columns: readonly string[];
  page: number;
  /** Cursor of the page, if its address has one. Without it, the page is found by its number. */
  cursor: string;
}

type Controls = Pick<RecordKind<never>, 'controls' | 'columns' | 'schemas'>;

export const sortsOf = ({ columns }: Pick<Controls, 'columns'>): string[] =>
  columns.flatMap(({ sort }) => (sort === undefined ? [] : [sort, `-${sort}`]));

/**
 * Reads a view from the parameters of an address. Ignores unknown parameters.
 * @throws DomainError `validation_failed` if a value is not valid as a filter
 */
export function viewOf({ controls, columns, schemas }: Controls, fields: Fields): View {
  const values = filledIn(fields, ...controls.map(({ name }) => name));
  const invalid = compile(schemas.filters).faultsOf(filtersOf(controls, { values }));
  const faults = [...findUnstorableText(values), ...invalid.map((one) => ({ ...one, path: `/filters${one.path}` }))];
  if (faults.length > 0) throw validationFailed(faults);
  const sort = sortsOf({ columns }).find((one) => one === text(fields, 'sort')) ?? '';
  const named = [fields['columns'] ?? []].flat().flatMap((names) => names.split('.'));
  // Only the list knows which fields are declared. Other pages pass their columns on.
  const isKnown = (name: string): boolean => /^custom~.{1,300}$/.test(name) || columns.some((one) => one.name === name);
  const shown = [...new Set(named.filter(isKnown))];
  return { values, sort, columns: shown, page: pageNumberIn(fields), cursor: text(fields, 'cursor') };
}

export function filtersOf(controls: readonly FilterControl[], { values }: Pick<View, 'values'>): GivenFilters {
  const given = controls.flatMap(({ name, field, isPart, control }): [string, unknown][] => {
    const value = values[name];
    if (value === undefined) return [];
    if (control === 'since') return [[field, { gte: startOf(readDay(value) ?? value) }]];
    return [[field, isPart ? { contains: value } : value]];
  });
  return Object.fromEntries(given) as GivenFilters;
}

export function requestOf({ controls }: Controls, view: View, limit: number): RecordRequest {
  const { sort, page, cursor } = view;
  const order = sort.startsWith('-') ? { [sort.slice(1)]: 'DESC' } : { [sort]: 'ASC' };
  return {
    filters: filtersOf(controls, view),
    ...(sort === '' ? {} : { order_by: order }),
    paginate: { limit, ...(cursor === '' ? { page } : { cursor }) },
  };
}

type Selection = Pick<View, 'values' | 'sort' | 'columns'>;

export function parametersOf({ values, sort, columns }: Selection, more: Record<string, string> = {}) {
  const chosen = columns.length === 0 ? {} : { columns: columns.join('.') };
  return new URLSearchParams({ ...values, ...(sort === '' ? {} : { sort }), ...chosen, ...more });
}

export const addressOf = (path: string, view: Selection, more: Record<string, string> = {}): string =>
  pathWith(path, Object.fromEntries(parametersOf(view, more)));

export const section = '/app/prospects';

export const searched: readonly TextField[] = [
  ...(['job_title', 'job_company_name', 'job_company_industry'] as const),
  ...(['location_country', 'location_region', 'location_locality'] as const),
];

const choices = ['status', 'score', 'has_email', 'has_phone', 'all'] as const;

export type ProspectView = Readonly<Record<string, string>>;

/**
 * Reads a search for prospects from the parameters of an address.
 * @throws DomainError `validation_failed` if a value contains characters that cannot be stored
 */
export function prospectViewOf(fields: Fields): ProspectView {
  const view = filledIn(fields, ...textFields, ...choices);
  const faults = findUnstorableText(view);
  if (faults.length > 0) throw validationFailed(faults);
  return view;
}

export const prospectViewOfRequest = (request: FastifyRequest): ProspectView => prospectViewOf(queryOf(request));

/** Returns the filters of a view. In a text field, semicolons separate values of which one must match. */
export async function prospectFiltersOf(view: ProspectView): Promise<ProspectFilters> {
  const texts: [TextField, string[]][] = [];
  for (const name of textFields) {
    const given = (view[name] ?? '').split(';').flatMap((value) => value.trim() || []);
    if (given.length > 0) texts.push([name, name === 'location_country' ? await withEnglishNames(given) : given]);
  }
  const { status, score } = view;
  return {
    ...Object.fromEntries(texts),
    ...(status ? { verification_status: [status as (typeof verificationStatuses)[number]] } : {}),
    // A text that is not a number stays one, so that the validation refuses it.
    ...(score ? { score: { gte: /^\d{1,3}$/.test(score) ? Number(score) : (score as never) } } : {}),
    ...(view['has_email'] ? { has_email: true } : {}),
    ...(view['has_phone'] ? { has_phone: true } : {}),
  };
}

/** Adds the English name of each country, which the catalog uses: `Deutschland` → `Deutschland`, `Germany`. */
async function withEnglishNames(countries: readonly string[]): Promise<string[]> {
  if (countries.length > 100) return [...countries]; // refused by the schema
  const codeOf = await countryCodes();
  const named = countries.flatMap((given) => [given, countryName(codeOf(given)) || []].flat());
  return [...new Map(named.map((name) => [fold(name), name])).values()];
}

/** Maximum length of all company names in an address (characters). Servers can reject longer addresses. */
const maxNames = 2_000;

/**
 * Returns the address of a search for people who work for these companies. Leaves out the last companies if the names
 * are too long.
 */
export function peopleOfCompanies(names: readonly string[]): string {
  // A semicolon separates names, so of a name with one, its longest part is searched for.
  const parts = names.map((name) => {
    const [longest] = name.split(';').toSorted((a, b) => b.length - a.length);
    return longest!.trim();
  });
  let length = 0;
  const some = parts.filter((name) => (length += name.length) <= maxNames).slice(0, 100);
  return pathWith(section, { job_company_name: some.join('; ') });
}
