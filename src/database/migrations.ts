import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import packageJson from '../../package.json' with { type: 'json' };
import type { Sql } from './db.ts';

/** A database compared with this program's migrations. */
export type SchemaState = 'current' | 'behind' | 'ahead';

/** Also says whether this release can use the database. */
export interface SchemaCheck {
  state: SchemaState;
  isSupported: boolean;
}

/** A file in `sql/migrations`. `sha256` is the hash of its text. */
export interface Migration {
  name: string;
  sha256: string;
  text: string;
  /**
   * The oldest release that can use the database after this migration, such as `1.4.0`. Null for the first migrations,
   * which do not say it.
   */
  oldestRelease: string | null;
}

/** A row of `schema_migrations`. */
export interface AppliedMigration {
  name: string;
  oldestRelease: string | null;
}

export const ourMigrations = join(import.meta.dirname, '..', '..', 'sql', 'migrations');

/** The last migration that may omit the oldest release. */
const lastWithoutRelease = '0021_large_lists.sql';

let ourNames: string[] | undefined;

/** Needs only the service's permissions. */
export async function checkSchema(sql: Sql): Promise<SchemaCheck> {
  ourNames ??= await namesIn(ourMigrations);
  const known = new Set(ourNames);
  const applied = await readApplied(sql);
  const newer = applied.filter(({ name }) => !known.has(name));
  if (applied.length - newer.length < known.size) return { state: 'behind', isSupported: false };
  if (newer.length === 0) return { state: 'current', isSupported: true };
  return { state: 'ahead', isSupported: newer.every(isSupported) };
}

/** True if this release can use a database to which a newer one has applied the migration. */
export const isSupported = ({ oldestRelease }: AppliedMigration): boolean =>
  oldestRelease !== null && compareReleases(oldestRelease, packageJson.version) <= 0;

/** Compares e.g. `1.9.0` and `1.10.0`. Negative if the first is older. */
const compareReleases = new Intl.Collator('en', { numeric: true }).compare;

/** Returns an empty array if the database was never migrated. */
async function readApplied(sql: Sql): Promise<AppliedMigration[]> {
  const [table] = await sql<{ found: boolean }[]>`select to_regclass('schema_migrations') is not null as found`;
  if (!table?.found) return [];
  // As JSON, because a database that an older release migrated does not have the column oldest_release.
  return sql<AppliedMigration[]>`
    select name, to_jsonb(m) ->> 'oldest_release' as "oldestRelease"
    from schema_migrations m`;
}

/**
 * In the order in which they must be applied.
 * @throws Error if a migration lacks the oldest release
 */
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

function oldestReleaseIn(name: string, text: string): string | null {
  const release = /^-- oldest release: (\d+\.\d+\.\d+)$/m.exec(text)?.[1];
  if (release === undefined && name > lastWithoutRelease)
    throw new Error(
      `${name} does not state which releases can run on its schema: add the line "-- oldest release: ${packageJson.version}", with the oldest of them`,
    );
  return release ?? null;
}
