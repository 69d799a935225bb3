import { execFile, type ExecFileOptions } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { chown, mkdir, readFile, readlink, realpath, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { createServer, type AddressInfo } from 'node:net';
import { basename, dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { environmentWithout } from './config.ts';
import {
  EmbeddedPostgresError,
  place,
  reachablePrograms,
  reaches,
  serverUser,
  type User,
} from './postgres-programs.ts';

/** A data folder on disk, with the programs and the user that run it. */
export interface Cluster {
  /** The data folder itself, symbolic links resolved. */
  data: string;
  /** Folder of `initdb`, `pg_ctl` and `postgres`. */
  programs: string;
  /** Whom the server runs as; undefined: whoever we are. */
  user: User | undefined;
}

/** How a new data folder is made. */
export interface ClusterOptions {
  superuser: string;
  password: string;
  /** Server settings, written to its configuration. */
  settings: Record<string, string>;
  /** Whether the new files are forced to disk. */
  sync: boolean;
}

const run = promisify(execFile);
/** Where data lives when root's own folders are closed to the server's user. */
const publicData = '/var/lib/sales-data-api';
const startAttempts = 6;
const stopTimeoutMs = 60_000;
/** Independent of the machine's locales: without it, a machine that sets none gets SQL_ASCII. */
const encoding = ['--encoding', 'UTF8', '--locale', 'C', '--locale-provider', 'builtin', '--builtin-locale', 'C.UTF-8'];

/**
 * Makes the cluster in `folder` unless it is there. PostgreSQL refuses to run as root, so for root it is run by whoever
 * owns the data, else by the system user `postgres`; what that user cannot reach is put where it can.
 */
export async function openCluster(folder: string, options: ClusterOptions): Promise<Cluster> {
  const user = await serverUser(folder);
  const programs = await reachablePrograms(user);
  const home = await reachableHome(folder, user);
  if (!(await exists(join(home, 'PG_VERSION')))) await create({ data: home, programs, user }, options);
  return { data: await realpath(home), programs, user };
}

/** Port of the server that runs on this data, or undefined. One that is just starting has a port, too. */
export async function runningPort(cluster: Cluster): Promise<number | undefined> {
  const pid = await serverOf(cluster);
  return pid === undefined ? undefined : Number((await lockFile(cluster))[3]) || undefined;
}

/** The process that serves this data, if one does. */
async function serverOf(cluster: Pick<Cluster, 'data'>): Promise<number | undefined> {
  const pid = await lockedBy(cluster);
  return pid !== undefined && (await isServerOf(cluster, pid)) ? pid : undefined;
}

/**
 * Starts the server detached from this process and its group, so that a signal meant for us does not stop it under us.
 * Does nothing when another process started it meanwhile.
 */
export async function startServer(cluster: Cluster): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    await removeStaleLock(cluster);
    const options = ['start', '-w', '-t', '60', '-D', cluster.data, '-l', join(cluster.data, 'server.log'), '-o'];
    const port = (attempt === 1 && (await lastPort(cluster))) || (await freePort());
    const error = await program(cluster, 'pg_ctl', [...options, `-p ${port}`]).catch((error: unknown) => error);
    if (!(error instanceof Error) || (await runningPort(cluster)) !== undefined) return;
    if (attempt === startAttempts)
      throw new EmbeddedPostgresError(`PostgreSQL does not start: ${await lastWords(cluster)}`, error);
    await sleep(250 * attempt); // a taken port, or the last server's children still leaving
  }
}

/**
 * Stops the server in good order. Waits for that very process: `pg_ctl` itself waits for the lock file to go, which a
 * newcomer may have written anew.
 */
export async function stopServer(cluster: Cluster): Promise<void> {
  const pid = await serverOf(cluster);
  const stop = () => program(cluster, 'pg_ctl', ['stop', '-W', '-m', 'fast', '-D', cluster.data]);
  if (pid !== undefined) await ended(cluster, pid, stop);
}

/** Drops the server where it stands; its data is as good as after a crash. */
export async function killServer(cluster: Pick<Cluster, 'data'>): Promise<void> {
  const pid = await serverOf(cluster);
  if (pid !== undefined) await ended(cluster, pid, async () => process.kill(pid, 'SIGQUIT'));
}

async function ended(cluster: Pick<Cluster, 'data'>, pid: number, stop: () => Promise<unknown>): Promise<void> {
  const error = await stop().catch((error: unknown) => error);
  const deadline = Date.now() + stopTimeoutMs;
  while (await isServerOf(cluster, pid)) {
    if (error instanceof Error || Date.now() > deadline)
      throw new EmbeddedPostgresError('PostgreSQL does not stop', error);
    await sleep(10);
  }
}

/** Initialises beside the final place and moves it there whole: an interrupted attempt leaves no half-made cluster. */
async function create(cluster: Cluster, options: ClusterOptions): Promise<void> {
  const staging = `${cluster.data}.new-${randomUUID()}`;
  const [data, passwordFile] = [join(staging, 'data'), join(staging, 'password')];
  await mkdir(staging, { recursive: true, mode: 0o700 });
  try {
    await writeFile(passwordFile, options.password, { mode: 0o600 });
    await give(cluster.user, staging, passwordFile);
    const settings = Object.entries(options.settings).map(([name, value]) => `--set=${name}=${value}`);
    const login = ['--username', options.superuser, '--pwfile', passwordFile, '--auth', 'scram-sha-256'];
    if (!options.sync) settings.push('--no-sync');
    await program(cluster, 'initdb', ['-D', data, ...login, ...encoding, ...settings]);
    await place(data, cluster.data);
  } finally {
    await rm(staging, { recursive: true, force: true });
  }
}

/** The data folder, or for root a public one that it becomes a link to, when its parents are closed to the user. */
async function reachableHome(folder: string, user: User | undefined): Promise<string> {
  await mkdir(dirname(folder), { recursive: true });
  const parent = await realpath(dirname(folder));
  const home = await realpath(folder)
    .catch(() => readlink(folder))
    .catch(() => join(parent, basename(folder)));
  if (!user || (await reaches(user, dirname(home)))) return home;
  const elsewhere = join(publicData, randomUUID());
  await mkdir(publicData, { recursive: true, mode: 0o755 });
  await symlink(elsewhere, folder).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error;
  });
  return readlink(folder);
}

async function give(user: User | undefined, ...paths: string[]): Promise<void> {
  if (user) await Promise.all(paths.map((path) => chown(path, user.uid, user.gid)));
}

/** Runs one of PostgreSQL's programs as the server's user, under none of our locale and `PG…` settings. */
function program(cluster: Cluster, name: string, args: string[]): Promise<unknown> {
  const options: ExecFileOptions = {
    ...cluster.user,
    cwd: '/',
    env: { ...environmentWithout(/^(PG|LC_|LANG)/), LC_ALL: 'C', TZ: 'UTC' },
  };
  return run(join(cluster.programs, name), args, options);
}

/** Whether this process is the server of this data: the server's working folder is its data folder. */
async function isServerOf(cluster: Pick<Cluster, 'data'>, pid: number): Promise<boolean> {
  const cwd = await readlink(`/proc/${pid}/cwd`).catch((error: NodeJS.ErrnoException) => error.code);
  if (cwd !== 'ENOENT') return cwd === cluster.data || cwd === 'EACCES';
  if (await exists('/proc/self')) return false;
  return run('ps', ['-o', 'comm=', '-p', String(pid)]).then(
    ({ stdout }) => stdout.includes('postgres'),
    () => false,
  );
}

/** A killed server leaves its lock file, and PostgreSQL refuses to start when that number is another process's by now. */
async function removeStaleLock(cluster: Cluster): Promise<void> {
  const pid = await lockedBy(cluster);
  if (pid !== undefined && isAlive(pid) && !(await isServerOf(cluster, pid)))
    await rm(lockPath(cluster), { force: true });
}

const lockPath = (cluster: Pick<Cluster, 'data'>): string => join(cluster.data, 'postmaster.pid');

/** The lines of the lock file: process, data folder, start, port, … */
const lockFile = async (cluster: Pick<Cluster, 'data'>): Promise<string[]> =>
  (await readFile(lockPath(cluster), 'utf8').catch(() => '')).split('\n');

async function lockedBy(cluster: Pick<Cluster, 'data'>): Promise<number | undefined> {
  const pid = Number((await lockFile(cluster))[0]);
  return pid > 0 ? pid : undefined;
}

/** Whether a process of this number exists, be it ours or not. */
export function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

/** Port of the last run: whoever still knows the server by it finds it again. */
async function lastPort(cluster: Cluster): Promise<number> {
  const options = await readFile(join(cluster.data, 'postmaster.opts'), 'utf8').catch(() => '');
  return Number(/"-p" "(\d+)"/.exec(options)?.[1] ?? 0);
}

async function lastWords(cluster: Cluster): Promise<string> {
  const log = await readFile(join(cluster.data, 'server.log'), 'utf8').catch(() => '');
  return log.trim().split('\n').slice(-5).join('\n') || 'it left no log';
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.on('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address() as AddressInfo;
      server.close(() => resolve(port));
    });
  });
}

const exists = (path: string): Promise<boolean> =>
  stat(path).then(
    () => true,
    () => false,
  );
