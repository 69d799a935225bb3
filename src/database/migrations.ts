import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import packageJson from '../../package.json' with { type: 'json' };
import type { Sql } from './db.ts';

/**
 * The schema of a database compared with the migrations of this program: `current` means equal, `behind` means that the
 * database is older, and `ahead` means that the database is newer.
 */
export type SchemaState = 'current' | 'behind' | 'ahead';

/**
 * The result of `checkSchema`: how the database schema compares with this program, and whether this release of the
 * program can use the database.
 */
export interface SchemaCheck {
  state: SchemaState;
  isSupported: boolean;
}

/** A migration, which is an SQL file in the folder `sql/migrations`. `sha256` is the hash of its text. */
export interface Migration {
  name: string;
  sha256: string;
  text: string;
  /**
   * The oldest release of this program that can use the database after this migration, such as `1.4.0`. Null for the
   * first migrations, which do not contain this information.
   */
  oldestRelease: string | null;
}

/** A migration that was applied to a database, as stored in the table `schema_migrations`. */
export interface AppliedMigration {
  name: string;
  oldestRelease: string | null;
}

/** Path of the folder with the migrations of this program. */
export const ourMigrations = join(import.meta.dirname, '..', '..', 'sql', 'migrations');

/** The name of the last migration that may omit the oldest supported release. All later migrations must contain it. */
const lastWithoutRelease = '0021_large_lists.sql';

let ourNames: string[] | undefined;

/**
 * Checks whether the schema of the database matches the migrations of this program. Needs only the database permissions
 * of the service.
 */
export async function checkSchema(sql: Sql): Promise<SchemaCheck> {
  ourNames ??= await namesIn(ourMigrations);
  const known = new Set(ourNames);
  const applied = await readApplied(sql);
  const newer = applied.filter(({ name }) => !known.has(name));
  if (applied.length - newer.length < known.size) return { state: 'behind', isSupported: false };
  if (newer.length === 0) return { state: 'current', isSupported: true };
  return { state: 'ahead', isSupported: newer.every(isSupported) };
}

/**
 * Returns true if this release of the program can use a database to which a newer release has applied the given
 * migration.
 */
export const isSupported = ({ oldestRelease }: AppliedMigration): boolean =>
  oldestRelease !== null && compareReleases(oldestRelease, packageJson.version) <= 0;

/** Compares two release numbers such as `1.9.0` and `1.10.0`. The result is negative if the first release is older. */
const compareReleases = new Intl.Collator('en', { numeric: true }).compare;

/** Reads the migrations that were applied to a database. Returns an empty array if the database was never migrated. */
async function readApplied(sql: Sql): Promise<AppliedMigration[]> {
  const [table] = await sql<{ found: boolean }[]>`select to_regclass('schema_migrations') is not null as found`;
  if (!table?.found) return [];
  // As JSON, because a database that an older release migrated does not have the column oldest_release.
  return sql<AppliedMigration[]>`
    select name, to_jsonb(m) ->> 'oldest_release' as "oldestRelease"
    from schema_migrations m`;
}

/**
 * Reads the migrations from the SQL files in a folder, sorted in the order in which they must be applied.
 * @throws Error if a migration does not contain the oldest release that can use the database after it.
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
