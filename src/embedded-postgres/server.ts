import { randomBytes } from 'node:crypto';
import { chmod, link, mkdtemp, readdir, readFile, realpath, rm, unlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import postgres from 'postgres';
import { sessionSettings } from '../database/session-settings.ts';
import { isAlive, killServer, openCluster, runningPort, startServer, stopServer, type Cluster } from './cluster.ts';
import { createFolder } from './folders.ts';
import { EmbeddedPostgresError } from './programs.ts';

/** A running embedded PostgreSQL server, with the URLs of its databases. */
export interface EmbeddedPostgres {
  /** URL of the database with the login of its owner, for migrations. */
  ownerUrl: string;
  /** URL of the database with the login of the service. */
  serviceUrl: string;
  /** URL of the database `postgres`, with the login of the superuser. */
  superuserUrl: string;
  /** Ends this process's use of the server. The last process that calls `close` also stops the server. */
  close(): Promise<void>;
}

export interface EmbeddedOptions {
  /**
   * For tests. If true, the data is stored without fsync in the temporary folder of the system, and deleted by `close`.
   */
  throwaway?: boolean;
  /** Additional settings of the PostgreSQL server, by name. They are used only if `throwaway` is true. */
  settings?: Record<string, string>;
}

/** Random passwords of the three database logins. They are created together with the data folder. */
export interface Passwords {
  superuser: string;
  owner: string;
  service: string;
}

const database = 'sales_data_api';
/**
 * Names of the database logins: the superuser, the owner of the database, and the service, which has only few
 * permissions.
 */
export const logins: Record<keyof Passwords, string> = {
  superuser: 'postgres',
  owner: 'sales_owner',
  service: 'sales_service',
};
/**
 * Key of the PostgreSQL advisory lock that prevents the embedded server from being stopped while a process uses it.
 * Each process that uses the server holds the lock in shared mode. A process must get the lock in exclusive mode to
 * stop the server.
 */
const presenceLock = 8314045570;
const openTimeoutMs = 90_000;
/**
 * Prefix of the names of temporary data folders. The prefix is followed by the id of the process that uses the folder,
 * and by random characters.
 */
const throwawayPrefix = 'sales-data-api-throwaway-';
const throwawayName = /^sales-data-api-throwaway-(\d+)-/;
const pollMs = 50;

const settings = {
  listen_addresses: '127.0.0.1',
  unix_socket_directories: '',
  timezone: 'UTC',
  log_timezone: 'UTC',
  log_checkpoints: 'off',
  max_connections: '200', // a few processes with some 40 connections each
};
const throwawaySettings = {
  ...settings,
  fsync: 'off',
  synchronous_commit: 'off',
  full_page_writes: 'off',
  wal_level: 'minimal',
  max_wal_senders: '0',
  max_connections: '300',
};

/**
 * Starts the embedded PostgreSQL server, or connects to it if it already runs. Several processes can share one server.
 * The data is stored in `dataDir`/postgres, and the passwords in `dataDir`/postgres.json.
 * @throws EmbeddedPostgresError if the server is not installed or cannot run here
 */
export async function openEmbeddedPostgres(dataDir: string, options: EmbeddedOptions = {}): Promise<EmbeddedPostgres> {
  if (options.throwaway) return openThrowaway(options.settings);
  const home = resolve(dataDir);
  await createFolder(home);
  const { cluster, presence, addresses } = await open(home, settings, true);
  return { ...addresses, close: () => leave(cluster, presence) };
}

async function openThrowaway(more: Record<string, string> = {}): Promise<EmbeddedPostgres> {
  await sweep();
  const home = await mkdtemp(join(tmpdir(), `${throwawayPrefix}${process.pid}-`));
  try {
    await chmod(home, 0o755); // the server may have to run as another user
    const { cluster, presence, addresses } = await open(home, { ...throwawaySettings, ...more }, false);
    const end = () => presence.end({ timeout: 0 });
    return { ...addresses, close: () => end().then(() => discard(cluster, home)) };
  } catch (error) {
    await rm(home, { recursive: true, force: true });
    throw error;
  }
}

/** Stops temporary servers that were left by killed processes, and deletes their data. */
async function sweep(): Promise<void> {
  for (const name of await readdir(tmpdir())) {
    const maker = throwawayName.exec(name)?.[1];
    if (maker === undefined || isAlive(Number(maker))) continue;
    const home = join(tmpdir(), name);
    const data = await realpath(join(home, 'postgres')).catch(() => home);
    await discard({ data }, home).catch(() => undefined); // may belong to another user
  }
}

async function discard(cluster: Pick<Cluster, 'data'>, home: string): Promise<void> {
  await killServer(cluster);
  for (const path of [cluster.data, home]) await rm(path, { recursive: true, force: true, maxRetries: 5 });
}

interface Opened {
  cluster: Cluster;
  presence: postgres.Sql;
  addresses: Omit<EmbeddedPostgres, 'close'>;
}

async function open(home: string, settings: Record<string, string>, sync: boolean): Promise<Opened> {
  const passwords = await readPasswords(join(home, 'postgres.json'));
  const options = { superuser: logins.superuser, password: passwords.superuser, settings, sync };
  const cluster = await openCluster(join(home, 'postgres'), options);
  const { presence, port } = await attend(cluster, passwords.superuser);
  await prepareDatabase(presence, database, passwords);
  return { cluster, presence, addresses: urls(port, passwords) };
}

function urls(port: number, passwords: Passwords): Omit<EmbeddedPostgres, 'close'> {
  const url = (login: keyof Passwords, name: string) =>
    `postgres://${logins[login]}:${passwords[login]}@127.0.0.1:${port}/${name}`;
  return {
    ownerUrl: url('owner', database),
    serviceUrl: url('service', database),
    superuserUrl: url('superuser', 'postgres'),
  };
}

/**
 * Reads the passwords of the database logins from a file. If the file is missing, creates it with new passwords. If
 * several processes create it at the same time, all get the same passwords.
 */
async function readPasswords(file: string): Promise<Passwords> {
  const text = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined;
    throw new EmbeddedPostgresError(`${file} cannot be read; does the data folder belong to another user?`, error);
  });
  if (text !== undefined) return parsePasswords(file, text);
  const draft = `${file}.${randomBytes(6).toString('hex')}`;
  const secret = () => randomBytes(24).toString('base64url');
  const passwords: Passwords = { superuser: secret(), owner: secret(), service: secret() };
  await writeFile(draft, `${JSON.stringify(passwords, undefined, 2)}\n`, { mode: 0o600 });
  await link(draft, file).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error;
  });
  await unlink(draft);
  return readPasswords(file);
}

function parsePasswords(file: string, text: string): Passwords {
  try {
    return JSON.parse(text) as Passwords;
  } catch (error) {
    throw new EmbeddedPostgresError(
      `${file} is damaged. It holds the passwords of the embedded PostgreSQL; restore it from a backup`,
      error,
    );
  }
}

/**
 * Starts the server if it does not run, and takes a lock that prevents other processes from stopping the server.
 * Returns the connection that holds the lock, and the server's port.
 */
async function attend(cluster: Cluster, password: string): Promise<{ presence: postgres.Sql; port: number }> {
  const deadline = Date.now() + openTimeoutMs;
  while (Date.now() < deadline) {
    const port = await runningPort(cluster);
    const presence = port === undefined ? await startServer(cluster) : await enter(port, password);
    if (port !== undefined && presence) return { presence, port };
    await sleep(pollMs);
  }
  throw new EmbeddedPostgresError(
    `The PostgreSQL in ${cluster.data} neither accepts connections nor stops. End its process and try again`,
  );
}

/**
 * Connects to the server and takes a lock that prevents other processes from stopping the server. Returns the
 * connection that holds the lock, or undefined if the server is starting or stopping.
 */
async function enter(port: number, password: string): Promise<postgres.Sql | undefined> {
  const presence = postgres({
    host: '127.0.0.1',
    port,
    database: 'postgres',
    username: logins.superuser,
    password,
    max: 1,
    max_lifetime: null,
    fetch_types: false,
    connect_timeout: 10,
    onnotice: () => {},
    connection: { application_name: 'sales-data-api presence', ...sessionSettings },
  });
  try {
    const [row] = await presence<{ present: boolean }[]>`
      select pg_try_advisory_lock_shared(${presenceLock}) as present`;
    if (row!.present) return presence;
  } catch (error) {
    if ((error as { code?: string }).code === '28P01')
      throw new EmbeddedPostgresError(
        'postgres.json does not have the passwords of the data folder beside it. Restore the matching file',
        error,
      );
  }
  await presence.end({ timeout: 0 });
  return undefined;
}

/**
 * Creates an empty database, with the roles of its owner and of the service. Does nothing if the database exists.
 * @param name name of the database
 */
export async function prepareDatabase(superuser: postgres.Sql, name: string, passwords: Passwords): Promise<void> {
  const { owner, service } = logins;
  await superuser`select pg_advisory_lock(${presenceLock + 1})`;
  const [made] = await superuser`select from pg_database where datname = ${name}`;
  if (!made) {
    const rows = await superuser<{ rolname: string }[]>`select rolname from pg_roles`;
    const roles = new Set(rows.map(({ rolname }) => rolname));
    if (!roles.has('sales_data_api')) await superuser`create role sales_data_api nologin`;
    if (!roles.has(owner)) await superuser.unsafe(`create role ${owner} login password '${passwords.owner}'`);
    if (!roles.has(service)) await superuser.unsafe(`create role ${service} login password '${passwords.service}'`);
    await superuser`grant sales_data_api to ${superuser(owner)} with admin option`;
    await superuser`grant sales_data_api to ${superuser(service)}`;
    // Created last, so if the database exists, the roles exist too.
    await superuser`create database ${superuser(name)} owner ${superuser(owner)}`;
  }
  await superuser`select pg_advisory_unlock(${presenceLock + 1})`;
}

/** Ends this process's use of the server. Stops the server if no other process uses it and no client is connected. */
async function leave(cluster: Cluster, presence: postgres.Sql): Promise<void> {
  try {
    await presence`select pg_advisory_unlock_shared(${presenceLock})`;
    const [row] = await presence<{ last: boolean }[]>`select pg_try_advisory_lock(${presenceLock}) as last`;
    // While this process holds the exclusive lock, no other process can start to use the server.
    if (row!.last && (await isDeserted(presence))) await stopServer(cluster);
  } catch (error) {
    if ((await runningPort(cluster)) !== undefined) throw error; // not running: another process stopped it
  } finally {
    await presence.end({ timeout: 1 });
  }
}

/**
 * Returns true if no other client is connected to the server. Waits up to a second for clients that are disconnecting.
 */
async function isDeserted(presence: postgres.Sql): Promise<boolean> {
  for (let attempt = 0; attempt < 20; attempt += 1) {
    const [row] = await presence<{ others: number }[]>`
      select count(*)::integer as others
      from pg_stat_activity
      where backend_type = 'client backend' and pid <> pg_backend_pid()`;
    if (row!.others === 0) return true;
    await sleep(pollMs);
  }
  return false;
}
