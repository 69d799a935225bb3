import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type postgres from 'postgres';
import packageJson from '../../package.json' with { type: 'json' };
import type { Sql } from './db.ts';

type SchemaState = 'current' | 'behind' | 'ahead';

interface SchemaCheck {
  state: SchemaState;
  isSupported: boolean;
}

export interface Migration {
  name: string;
  sha256: string;
  text: string;
  oldestRelease: string;
}

export interface AppliedMigration {
  name: string;
  sha256: string;
  oldestRelease: string | null;
}

export const ourMigrations = join(import.meta.dirname, '..', '..', 'sql', 'migrations');

let ourNames: string[] | undefined;

export async function checkSchema(sql: Sql): Promise<SchemaCheck> {
  ourNames ??= await namesIn(ourMigrations);
  const known = new Set(ourNames);
  const [table] = await sql<{ found: boolean }[]>`select to_regclass('schema_migrations') is not null as found`;
  const applied = table?.found ? await readApplied(sql) : [];
  const newer = applied.filter(({ name }) => !known.has(name));
  if (applied.length - newer.length < known.size) return { state: 'behind', isSupported: false };
  if (newer.length === 0) return { state: 'current', isSupported: true };
  return { state: 'ahead', isSupported: newer.every(isSupported) };
}

export const isSupported = ({ oldestRelease }: AppliedMigration): boolean =>
  oldestRelease !== null && compareReleases(oldestRelease, packageJson.version) <= 0;

const compareReleases = new Intl.Collator('en', { numeric: true }).compare;

export const readApplied = (sql: Sql | postgres.Sql): Promise<AppliedMigration[]> =>
  // As JSON, because the table of a database from before release 1.0.0 may lack the column.
  sql<AppliedMigration[]>`
    select name, sha256, to_jsonb(m) ->> 'oldest_release' as "oldestRelease"
    from schema_migrations m`;

export async function readMigrations(folder: string): Promise<Migration[]> {
  return Promise.all(
    (await namesIn(folder)).map(async (name) => {
      const text = await readFile(join(folder, name), 'utf8');
      const sha256 = createHash('sha256').update(text).digest('hex');
      return { name, text, sha256, oldestRelease: oldestReleaseIn(name, text) };
    }),
  );
}

const namesIn = async (folder: string): Promise<string[]> =>
  (await readdir(folder)).filter((name) => name.endsWith('.sql')).sort();

function oldestReleaseIn(name: string, text: string): string {
  const release = /^-- oldest release: (\d+\.\d+\.\d+)$/m.exec(text)?.[1];
  if (release === undefined)
    throw new Error(
      `${name} does not state which releases can run on its schema: add the line "-- oldest release: ${packageJson.version}", with the oldest of them`,
    );
  return release;
}
