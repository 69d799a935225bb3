import { spawnSync } from 'node:child_process';
import { join } from 'node:path';

const places = [process.env['POSTGRES_PROGRAMS'], '/usr/lib/postgresql/18/bin', ''];

/** Returns whether a folder holds the programs for backups of a PostgreSQL 18 server; '' stands for the PATH. */
const hasPrograms = (folder: string): boolean =>
  ['pg_basebackup', 'pg_dump', 'psql'].every((program) => {
    const { stdout } = spawnSync(join(folder, program), ['--version'], { encoding: 'utf8' });
    return Number(/\(PostgreSQL\) (\d+)/.exec(stdout ?? '')?.[1]) >= 18;
  });

/** Folder of PostgreSQL's programs for backups; '' if they are in the PATH, undefined if they are missing. */
export const backupPrograms = places.filter((place) => place !== undefined).find(hasPrograms);
/** Suffix for the name of a test group that needs these programs; empty if they are installed. */
export const needBackupPrograms =
  backupPrograms === undefined ? '(needs PostgreSQL 18 programs: install postgresql-client-18)' : '';
