import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Sql } from './db.ts';

/**
 * How the schema of a database compares with the migrations of this program: equal, older (`behind`) or newer
 * (`ahead`).
 */
export type SchemaState = 'current' | 'behind' | 'ahead';

/** A change of the database schema: an SQL file of the folder `sql/migrations`. `sha256` is the hash of its text. */
export interface Migration {
  name: string;
  sha256: string;
  text: string;
}

/** Path of the folder with the SQL migrations of this program. */
export const ourMigrations = join(import.meta.dirname, '..', '..', 'sql', 'migrations');
/**
 * Compares the migrations that a database has applied with those of this program. The login of the service has enough
 * rights for this.
 */
export async function checkSchema(sql: Sql): Promise<SchemaState> {
  const known = new Set((await readMigrations(ourMigrations)).map(({ name }) => name));
  const applied = await appliedNames(sql);
  if (applied.some((name) => !known.has(name))) return 'ahead';
  return applied.length === known.size ? 'current' : 'behind';
}

async function appliedNames(sql: Sql): Promise<string[]> {
  const [table] = await sql<{ found: boolean }[]>`select to_regclass('schema_migrations') is not null as found`;
  if (!table?.found) return [];
  return (await sql<{ name: string }[]>`select name from schema_migrations`).map(({ name }) => name);
}

/** Returns the migrations in a folder, in the order in which they are applied. */
export async function readMigrations(folder: string): Promise<Migration[]> {
  const names = (await readdir(folder)).filter((name) => name.endsWith('.sql')).sort();
  return Promise.all(
    names.map(async (name) => {
      const text = await readFile(join(folder, name), 'utf8');
      return { name, text, sha256: createHash('sha256').update(text).digest('hex') };
    }),
  );
}
