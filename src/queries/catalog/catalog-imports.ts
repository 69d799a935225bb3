import type { Sql, Transaction } from '../../database/db.ts';

/**
 * The progress of an import of a file of people into the catalog. All records before `position` are stored in the
 * catalog.
 */
export interface ImportState {
  /** Offset in the uncompressed file, in bytes. */
  position: number;
  /**
   * Line number in the file at `position`, for messages. The first line is 1. Too small if the last record before
   * `position` has line breaks in its text.
   */
  line: number;
  loaded: number;
  bad: number;
  /** Time at which the import started. Records without `date_verified` get this time as their verification date. */
  started_at: string;
}

/**
 * Starts or resumes the import of a file into a database table or search index. An interrupted import resumes only if
 * the id of the table or index (`incarnation`) has not changed; otherwise it starts again.
 * @param source path, size and change time of the file
 * @returns the progress. If an interrupted import starts again, `dropped_at_line` is the line that it had reached;
 *   otherwise null.
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
    returning position, line, loaded, bad, started_at`;
  return { ...state, dropped_at_line: dropped && dropped.line > 0 ? dropped.line : null };
}

/**
 * Returns the initial progress of an import that cannot resume, because its input (such as standard input) cannot be
 * read twice. Saves nothing.
 */
export async function unsavedImport(sql: Sql | Transaction): Promise<ImportState> {
  const [{ started_at }] = await sql<[{ started_at: string }]>`select clock_timestamp()::timestamptz(3) as started_at`;
  return { position: 0, line: 1, loaded: 0, bad: 0, started_at };
}

/** Saves how far an import has come, so that it can resume after an interruption. */
export async function saveImport(
  sql: Sql | Transaction,
  source: string,
  state: Omit<ImportState, 'started_at'>,
): Promise<void> {
  const { position, line, loaded, bad } = state;
  await sql`
    update catalog_imports
    set position = ${position}, line = ${line}, loaded = ${loaded}, bad = ${bad}, updated_at = (select clock_timestamp())
    where source = ${source}`;
}

/** Deletes the saved progress of an import that is done or must start over. */
export async function endImport(sql: Sql | Transaction, source: string): Promise<void> {
  await sql`delete from catalog_imports where source = ${source}`;
}

/**
 * Deletes the saved progress of imports of earlier versions of a file. These imports cannot resume, because the file
 * has changed.
 * @param source path, size and change time of the current version of the file; the progress of this version is kept
 */
export async function dropStaleImports(sql: Sql | Transaction, path: string, source: string): Promise<void> {
  await sql`
    delete from catalog_imports
    where starts_with(source, ${`${path}:`}) and source <> ${source}`;
}

/**
 * The saved state of a prospect catalog: which table or search index stores the people, and when the last import
 * finished.
 */
export interface CatalogState {
  /**
   * Id of the table or search index that imports write to. A table or index that was created again has a new id. The
   * value `''` means that no id was saved.
   */
  incarnation: string;
  /** True if searches use the table or search index with the id `incarnation`. */
  is_searched: boolean;
  /** Time at which the last import finished. */
  imported_at: string | null;
}

/**
 * The name under which the state of old catalogs is stored. These catalogs were imported into a search cluster before
 * catalogs had names (see migration 0019).
 */
const unnamed = '';

/** Returns the saved state of a catalog. Returns undefined if nothing was ever written to this catalog. */
export async function findCatalogState(sql: Sql | Transaction, name: string): Promise<CatalogState | undefined> {
  const [known] = await sql<CatalogState[]>`
    select incarnation, is_searched, imported_at
    from catalogs
    where name in (${name}, ${unnamed})
    order by name desc
    limit 1`;
  return known;
}

/** Saves the id of the table or search index that imports into a catalog write to, and whether searches read it. */
export async function saveIncarnation(
  sql: Sql | Transaction,
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

/**
 * Saves that an import into a catalog has finished. `incarnation` is the id of the table or search index that the
 * import wrote; searches use it from now on.
 */
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

/** Returns the secret of this installation from which ids of imported people are computed. */
export async function findPersonIdSecret(sql: Sql | Transaction): Promise<Buffer> {
  const [state] = await sql<[{ person_id_secret: Buffer }]>`select person_id_secret from catalog_state`;
  return state.person_id_secret;
}

/** Returns all unfinished imports, the latest first. */
export const listUnfinishedImports = (
  sql: Sql | Transaction,
): Promise<{ source: string; line: number; updated_at: string }[]> => sql`
  select source, line, updated_at
  from catalog_imports
  order by updated_at desc`;
