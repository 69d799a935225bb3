import { cp, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ourMigrations } from '../../src/database/migrations.ts';
import { atEnd } from './at-end.ts';

/** Returns a folder with the migrations before this number, for a database as an earlier release has it. */
export async function migrationsBefore(number: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'migrations-'));
  atEnd(() => rm(folder, { recursive: true }));
  for (const name of await readdir(ourMigrations))
    if (name < number) await cp(join(ourMigrations, name), join(folder, name));
  return folder;
}
