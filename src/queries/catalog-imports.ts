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

/** The interrupted import of this source, or a new one. */
export async function beginImport(sql: Sql | Transaction, source: string): Promise<ImportState> {
  const [state] = await sql<[ImportState]>`
    insert into catalog_imports (source)
    values (${source})
    on conflict (source) do update set updated_at = clock_timestamp()
    returning position, line, loaded, bad, started_at`;
  return state;
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
    set position = ${position}, line = ${line}, loaded = ${loaded}, bad = ${bad}, updated_at = clock_timestamp()
    where source = ${source}`;
}

/** Forgets an import: it is done, or shall start over. */
export async function endImport(sql: Sql | Transaction, source: string): Promise<void> {
  await sql`delete from catalog_imports where source = ${source}`;
}

/** Notes that an import ended now. */
export async function noteImported(sql: Sql | Transaction): Promise<void> {
  await sql`update catalog_state set imported_at = clock_timestamp()`;
}

/** When the last import ended, and those that did not. */
export async function importOverview(
  sql: Sql | Transaction,
): Promise<{ imported_at: string | null; unfinished: { source: string; line: number; updated_at: string }[] }> {
  const [state] = await sql<[{ imported_at: string | null }]>`select imported_at from catalog_state`;
  const unfinished = await sql<{ source: string; line: number; updated_at: string }[]>`
    select source, line, updated_at
    from catalog_imports
    order by updated_at desc`;
  return { imported_at: state.imported_at, unfinished: [...unfinished] };
}
