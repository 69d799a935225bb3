import type { Sql, Transaction } from '../db.ts';

/** How far an import has come: everything before is in the catalog for certain. */
export interface ImportState {
  /** Bytes of the unpacked file. */
  position: number;
  /** The line at that position, from 1. */
  line: number;
  loaded: number;
  bad: number;
  /** When it began; stands for a missing `date_verified`. */
  started_at: string;
}

/**
 * Returns the interrupted import of this source into this incarnation of a catalog, or a new one.
 * @returns also the line that an interrupted import into another incarnation had reached; it is dropped
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

/** The state of an import that is not kept: one of a source that cannot be read again. */
export async function unkeptImport(sql: Sql | Transaction): Promise<ImportState> {
  const [{ started_at }] = await sql<[{ started_at: string }]>`select clock_timestamp()::timestamptz(3) as started_at`;
  return { position: 0, line: 1, loaded: 0, bad: 0, started_at };
}

/** Notes how far an import has come. */
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

/** Forgets an import: it is done, or shall start over. */
export async function endImport(sql: Sql | Transaction, source: string): Promise<void> {
  await sql`delete from catalog_imports where source = ${source}`;
}

/** Forgets the interrupted imports of a file as it was before it changed: nobody can continue them. */
export async function dropStaleImports(sql: Sql | Transaction, path: string, source: string): Promise<void> {
  await sql`
    delete from catalog_imports
    where starts_with(source, ${`${path}:`}) and source <> ${source}`;
}

/** A catalog as imports have left it. */
export interface KnownCatalog {
  /** Of the table or index that imports write to; `''` when it was not kept. */
  incarnation: string;
  /** Whether searches see that incarnation. */
  is_searched: boolean;
  /** End of the last finished import. */
  imported_at: string | null;
}

/** Stands for the catalog of a cluster that was imported before names were kept: see migration 0019. */
const unnamed = '';

/** Returns what is known of a catalog; undefined when nothing was ever written to it. */
export async function knownCatalog(sql: Sql | Transaction, name: string): Promise<KnownCatalog | undefined> {
  const [known] = await sql<KnownCatalog[]>`
    select incarnation, is_searched, imported_at
    from catalogs
    where name in (${name}, ${unnamed})
    order by name desc
    limit 1`;
  return known;
}

/** Notes which incarnation of a catalog imports write to, and whether searches see it. */
export async function noteIncarnation(
  sql: Sql | Transaction,
  name: string,
  { incarnation, is_searched }: Pick<KnownCatalog, 'incarnation' | 'is_searched'>,
): Promise<void> {
  await sql`
    insert into catalogs (name, incarnation, is_searched, imported_at)
    values (
      ${name}, ${incarnation}, ${is_searched},
      (select imported_at from catalogs where name = ${unnamed} and ${name}::text <> 'postgres')
    )
    on conflict (name) do update set incarnation = excluded.incarnation, is_searched = excluded.is_searched`;
}

/** Notes that an import into this incarnation ended now. */
export async function noteImported(sql: Transaction, name: string, incarnation: string): Promise<void> {
  await sql`
    insert into catalogs (name, incarnation, is_searched, imported_at)
    values (${name}, ${incarnation}, true, (select clock_timestamp()))
    on conflict (name) do update set
      incarnation = excluded.incarnation,
      is_searched = true,
      imported_at = excluded.imported_at`;
  await sql`delete from catalogs where name = ${unnamed} and ${name}::text <> 'postgres'`;
}

/** The imports that have begun and not ended. */
export const unfinishedImports = (
  sql: Sql | Transaction,
): Promise<{ source: string; line: number; updated_at: string }[]> => sql`
  select source, line, updated_at
  from catalog_imports
  order by updated_at desc`;
