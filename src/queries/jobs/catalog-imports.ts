import type { Prospect } from '../../schemas/prospects.ts';
import { withUnicodeDomain, formerProfileKey, profileKey } from '../../text/domains.ts';
import { canonicalId } from '../../text/ids.ts';
import { emailKey } from '../../text/fold.ts';
import type { Queryable, Transaction } from '../../database/db.ts';

export const identifierKinds = ['email', 'profnet_url', 'id'] as const;
export type IdentifierKind = (typeof identifierKinds)[number];

export interface Identifier {
  kind: IdentifierKind;
  value: string;
  /** Form of the value from which earlier releases computed its digest (keyed hash), if it differs. */
  former?: string;
}

export type Identified = Pick<Prospect, '_id' | 'work_email' | 'emails' | 'profnet_url'>;

/**
 * Converts a text to a person's identifier, in the form in which identifiers are compared. Returns undefined if the
 * text identifies nobody.
 */
export function toIdentifier(kind: IdentifierKind, text: string): Identifier | undefined {
  const value = keys[kind](text);
  if (value === undefined) return undefined;
  const former = kind === 'email' ? withUnicodeDomain(value) : kind === 'profnet_url' ? formerProfileKey(text) : value;
  return former === value ? { kind, value } : { kind, value, former };
}

const keys: Record<IdentifierKind, (text: string) => string | undefined> = {
  email: (text) => (text.includes('@') ? emailKey(text) : undefined),
  profnet_url: profileKey,
  id: canonicalId,
};

export const formsOf = ({ value, former }: Identifier): string[] => (former === undefined ? [value] : [value, former]);

/**
 * Returns the usual spellings of an identifier, in lower case. A text without any of them does not contain the
 * identifier.
 */
export const spellingsOf = (identifier: Identifier): string[] => [
  ...new Set([
    ...formsOf(identifier),
    ...(identifier.kind === 'profnet_url' ? [encodeURI(identifier.value.toWellFormed()).toLowerCase()] : []),
  ]),
];

export function identifiersOf({ _id, work_email, emails, profnet_url }: Identified): Identifier[] {
  const addresses = [work_email, ...emails].flatMap((email) => toIdentifier('email', email) ?? []);
  const profile = profnet_url === null ? undefined : toIdentifier('profnet_url', profnet_url);
  return [
    { kind: 'id', value: _id },
    ...(profile ? [profile] : []),
    ...new Map(addresses.map((address) => [address.value, address])).values(),
  ];
}

export const valuesOf = (identifiers: readonly Identifier[], kind: IdentifierKind): string[] => [
  ...new Set(identifiers.filter((own) => own.kind === kind).map(({ value }) => value)),
];

/** Progress of an import of people. The catalog contains all records that start before `line`. */
export interface ImportState {
  line: number;
  loaded: number;
  bad: number;
  suppressed: number;
  /** Start of the import. Records without `date_verified` get this time. */
  started_at: string;
}

/**
 * Starts an import of a file. Resumes an interrupted one if it writes to the same table or search index (incarnation).
 * @param source path, size and change time of the file
 * @returns the progress. `dropped_at_line`: line that an interrupted import had reached before it had to start again,
 * otherwise null
 */
export async function beginImport(
  sql: Transaction,
  source: string,
  incarnation: string,
): Promise<ImportState & { dropped_at_line: number | null }> {
  const [dropped] = await sql<{ line: number }[]>`
    delete from catalog_imports
    where source = ${source} and incarnation <> ${incarnation}
    returning line`;
  const [state] = await sql<[ImportState]>`
    insert into catalog_imports (source, incarnation)
    values (${source}, ${incarnation})
    on conflict (source) do update set updated_at = (select clock_timestamp())
    returning line, loaded, bad, suppressed, started_at`;
  return { ...state, dropped_at_line: dropped && dropped.line > 0 ? dropped.line : null };
}

/**
 * Returns the first progress of an import that cannot resume, because its input (such as standard input) cannot be read
 * twice. Saves nothing.
 */
export async function unsavedImport(sql: Queryable): Promise<ImportState> {
  const [{ started_at }] = await sql<[{ started_at: string }]>`select clock_timestamp()::timestamptz(3) as started_at`;
  return { line: 1, loaded: 0, bad: 0, suppressed: 0, started_at };
}

export async function saveImport(sql: Queryable, source: string, state: Omit<ImportState, 'started_at'>) {
  const { line, loaded, bad, suppressed } = state;
  await sql`
    update catalog_imports
    set
      line = ${line},
      loaded = ${loaded},
      bad = ${bad},
      suppressed = ${suppressed},
      updated_at = (select clock_timestamp())
    where source = ${source}`;
}

export async function endImport(sql: Queryable, source: string): Promise<void> {
  await sql`delete from catalog_imports where source = ${source}`;
}

/**
 * Deletes the saved progress of earlier versions of a file. Imports of changed files cannot resume.
 * @param source path, size and change time of the current version, whose progress is kept
 */
export async function dropStaleImports(sql: Queryable, path: string, source: string): Promise<void> {
  await sql`
    delete from catalog_imports
    where starts_with(source, ${`${path}:`}) and source <> ${source}`;
}

interface CatalogState {
  /** Id of the table or search index to which imports write. Empty: none was saved. */
  incarnation: string;
  is_searched: boolean;
  imported_at: string | null;
}

/** Name of catalogs that were imported before catalogs had names (see migration 0019). */
const unnamed = '';

export async function findCatalogState(sql: Queryable, name: string): Promise<CatalogState | undefined> {
  const [known] = await sql<CatalogState[]>`
    select incarnation, is_searched, imported_at
    from catalogs
    where name in (${name}, ${unnamed})
    order by name desc
    limit 1`;
  return known;
}

export async function saveIncarnation(
  sql: Queryable,
  name: string,
  { incarnation, is_searched }: Pick<CatalogState, 'incarnation' | 'is_searched'>,
): Promise<void> {
  await sql`
    insert into catalogs (name, incarnation, is_searched, imported_at)
    values (
      ${name}, ${incarnation}, ${is_searched},
      (select imported_at from catalogs where name = ${unnamed} and ${name}::text <> 'postgres')
    )
    on conflict (name) do update set incarnation = excluded.incarnation, is_searched = excluded.is_searched`;
}

export async function saveImportEnd(sql: Transaction, name: string, incarnation: string): Promise<void> {
  await sql`
    insert into catalogs (name, incarnation, is_searched, imported_at)
    values (${name}, ${incarnation}, true, (select clock_timestamp()))
    on conflict (name) do update set
      incarnation = excluded.incarnation,
      is_searched = true,
      imported_at = excluded.imported_at`;
  await sql`delete from catalogs where name = ${unnamed} and ${name}::text <> 'postgres'`;
}

export async function findPersonIdSecret(sql: Queryable): Promise<Buffer> {
  const [state] = await sql<[{ person_id_secret: Buffer }]>`select person_id_secret from catalog_state`;
  return state.person_id_secret;
}

export const listUnfinishedImports = (sql: Queryable) => sql<{ source: string; line: number; updated_at: string }[]>`
  select source, line, updated_at
  from catalog_imports
  order by updated_at desc`;
