import { randomBytes } from 'node:crypto';
import { chmod, link, mkdtemp, readdir, readFile, realpath, rm, unlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import type { FastifyBaseLogger } from 'fastify';
import type postgres from 'postgres';
import { isAlive, killServer, openCluster, type Cluster } from './cluster.ts';
import { createFolder } from './folders.ts';
import { Presence, presenceLock } from './presence.ts';
import { EmbeddedPostgresError } from './programs.ts';

export interface EmbeddedPostgres {
  /** Logs in as the owner, for migrations. */
  ownerUrl: string;
  /** Logs in as the service. */
  serviceUrl: string;
  /** The database `postgres`, as superuser. */
  superuserUrl: string;
  /**
   * Until `close`, starts the server again whenever it ends, and retries as long as it does not start, e.g. because the
   * disk is full.
   * @param log gets a line when the server has ended, does not start, and runs again
   */
  keepRunning(log: FastifyBaseLogger): void;
  /** The last process that calls this also stops the server. */
  close(): Promise<void>;
}

interface EmbeddedOptions {
  /** For tests: no fsync, data in the system's temporary folder, deleted by `close`. */
  throwaway?: boolean;
  settings?: Record<string, string>;
}

/** Random, created together with the data folder. */
export interface Passwords {
  superuser: string;
  owner: string;
  service: string;
}

const database = 'sales_data_api';
export const logins: Record<keyof Passwords, string> = {
  superuser: 'postgres',
  owner: 'sales_owner',
  service: 'sales_service',
};
/** The name of a throwaway folder begins with this. The id of the process that made it follows, then random characters. */
const throwawayPrefix = 'sales-data-api-throwaway-';
const throwawayName = /^sales-data-api-throwaway-(\d+)-/;

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
 * Starts the server, or connects to it if it runs. Several processes can share one. The data is stored in
 * `dataDir`/postgres, the passwords in `dataDir`/postgres.json.
 * @throws EmbeddedPostgresError if the server is not installed or cannot run here
 */
export async function openEmbeddedPostgres(dataDir: string, options: EmbeddedOptions = {}): Promise<EmbeddedPostgres> {
  if (options.throwaway) return openThrowaway(options.settings);
  const home = resolve(dataDir);
  await createFolder(home);
  const { presence, addresses } = await open(home, settings, true);
  return { ...addresses, keepRunning: (log) => presence.keepRunning(log), close: () => presence.end() };
}

async function openThrowaway(more: Record<string, string> = {}): Promise<EmbeddedPostgres> {
  await sweep();
  const home = await mkdtemp(join(tmpdir(), `${throwawayPrefix}${process.pid}-`));
  try {
    await chmod(home, 0o755); // the server may have to run as another user
    const { cluster, presence, addresses } = await open(home, { ...throwawaySettings, ...more }, false);
    const close = () => presence.leaveRunning().then(() => discard(cluster, home));
    return { ...addresses, keepRunning: (log) => presence.keepRunning(log), close };
  } catch (error) {
    await rm(home, { recursive: true, force: true });
    throw error;
  }
}

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

type Addresses = Pick<EmbeddedPostgres, 'ownerUrl' | 'serviceUrl' | 'superuserUrl'>;

interface Opened {
  cluster: Cluster;
  presence: Presence;
  addresses: Addresses;
}

async function open(home: string, settings: Record<string, string>, sync: boolean): Promise<Opened> {
  const passwords = await readPasswords(join(home, 'postgres.json'));
  const options = { superuser: logins.superuser, password: passwords.superuser, settings, sync };
  const cluster = await openCluster(join(home, 'postgres'), options);
  const presence = await Presence.begin(cluster, { username: logins.superuser, password: passwords.superuser });
  await prepareDatabase(presence.sql, database, passwords);
  return { cluster, presence, addresses: urls(presence.port, passwords) };
}

function urls(port: number, passwords: Passwords): Addresses {
  const url = (login: keyof Passwords, name: string) =>
    `postgres://${logins[login]}:${passwords[login]}@127.0.0.1:${port}/${name}`;
  return {
    ownerUrl: url('owner', database),
    serviceUrl: url('service', database),
    superuserUrl: url('superuser', 'postgres'),
  };
}

/** Creates a missing file with new passwords. Processes that do so at the same time all get the same. */
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

/** Creates an empty database with the roles of its owner and of the service, unless it exists. */
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
