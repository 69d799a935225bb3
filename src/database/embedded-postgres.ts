import { randomBytes, randomUUID } from 'node:crypto';
import { link, readFile, rm, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import postgres from 'postgres';
import { createOnce } from '../process/files.ts';
import { sessionSettings } from './connection.ts';
import * as embedded from './embedded-cluster.ts';

export interface EmbeddedPostgres {
  ownerUrl: string;
  serviceUrl: string;
  superuserUrl: string;
  /** Id of the process that owns the server, if that is another process. The server ends with it. */
  owner: number | undefined;
  watch(onEnd: (reason: string) => void): void;
  /** Stops watching the server. Also stops the server if this process owns it. */
  close(): Promise<void>;
}

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

const openTimeoutMs = 90_000;
const pollMs = 50;
const watchMs = 1_000;

const ownSettings = {
  listen_addresses: '127.0.0.1',
  unix_socket_directories: '',
  timezone: 'UTC',
  log_timezone: 'UTC',
  log_checkpoints: 'off',
  max_connections: '200', // a few processes with some 40 connections each
};

/**
 * Starts PostgreSQL, and owns it until `close`. If another process owns the server of this folder, uses that server.
 * The data are in `dataDir`/postgres, the passwords in `dataDir`/postgres.json.
 * @param settings further settings of PostgreSQL, for a new data folder
 * @throws Error if PostgreSQL is not installed or cannot run here
 */
export async function openEmbeddedPostgres(
  dataDir: string,
  settings: Record<string, string> = {},
): Promise<EmbeddedPostgres> {
  const home = resolve(dataDir);
  await embedded.createFolder(home);
  const ownerFile = join(home, 'postgres.owner');
  const owner = await claim(ownerFile);
  const hasOwner = () => readFile(ownerFile).then(Boolean, () => false);
  const opening = open(home, { ...ownSettings, ...settings }, { isOwner: owner === undefined, mayCome: hasOwner });
  const opened = await opening.catch(async (error: unknown) => {
    if (owner === undefined) await disclaim(ownerFile);
    throw error;
  });
  if (!opened) return openEmbeddedPostgres(dataDir, settings); // its owner has ended meanwhile
  const { cluster, addresses } = opened;
  let timer: NodeJS.Timeout | undefined;
  return {
    ...addresses,
    owner,
    watch: (onEnd) => {
      const check = async () => {
        if ((await embedded.runningPort(cluster)) === undefined && timer) onEnd(await embedded.reasonOfEnd(cluster));
      };
      timer = setInterval(() => void check(), watchMs).unref();
    },
    close: async () => {
      clearInterval(timer);
      timer = undefined;
      if (owner !== undefined) return;
      await embedded.stopServer(cluster);
      await disclaim(ownerFile);
    },
  };
}

async function claim(file: string): Promise<number | undefined> {
  // A link makes the file with its content at once: another process must not read it empty and remove it.
  const own = `${file}.${randomUUID()}`;
  await writeFile(own, String(process.pid));
  try {
    return await linkOwner(file, own);
  } finally {
    await rm(own, { force: true });
  }
}

async function linkOwner(file: string, own: string): Promise<number | undefined> {
  for (;;) {
    const error = await link(own, file).catch((error: unknown) => error);
    if (!(error instanceof Error)) {
      ownerFiles.add(file);
      return undefined;
    }
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    const owner = Number(await readFile(file, 'utf8').catch(() => ''));
    if (owner > 0 && (owner === process.pid ? ownerFiles.has(file) : embedded.isAlive(owner))) return owner;
    await rm(file, { force: true }); // its process was killed
  }
}

const ownerFiles = new Set<string>();

async function disclaim(file: string): Promise<void> {
  ownerFiles.delete(file);
  await rm(file, { force: true });
}

type Addresses = Pick<EmbeddedPostgres, 'ownerUrl' | 'serviceUrl' | 'superuserUrl'>;

async function open(
  home: string,
  settings: Record<string, string>,
  { isOwner, mayCome }: { isOwner: boolean; mayCome: () => Promise<boolean> },
): Promise<{ cluster: embedded.Cluster; addresses: Addresses } | undefined> {
  const passwords = await readPasswords(join(home, 'postgres.json'));
  const options = { superuser: logins.superuser, password: passwords.superuser, settings };
  const cluster = await embedded.openCluster(join(home, 'postgres'), options);
  if (isOwner) {
    await embedded.stopServer(cluster); // it still runs if its owner was killed
    await embedded.startServer(cluster);
  }
  const connected = await connectWhenReady(cluster, passwords.superuser, mayCome);
  if (!connected) return undefined;
  const { sql, port } = connected;
  try {
    if (isOwner) await prepareDatabase(sql, database, passwords);
  } finally {
    await sql.end({ timeout: 1 });
  }
  return { cluster, addresses: urls(port, passwords) };
}

async function connectWhenReady(cluster: embedded.Cluster, password: string, mayCome: () => Promise<boolean>) {
  const deadline = Date.now() + openTimeoutMs;
  while (Date.now() < deadline) {
    const port = await embedded.runningPort(cluster);
    const sql = port === undefined ? undefined : await connectAt(port, password);
    if (sql) return { sql, port: port! };
    if (!(await mayCome())) return undefined;
    await sleep(pollMs);
  }
  throw new Error(`The PostgreSQL in ${cluster.data} does not accept connections. End its process and try again`);
}

async function connectAt(port: number, password: string): Promise<postgres.Sql | undefined> {
  const sql = postgres({
    host: '127.0.0.1',
    port,
    username: logins.superuser,
    password,
    database: 'postgres',
    max: 1,
    fetch_types: false,
    connect_timeout: 10,
    onnotice: () => {},
    connection: sessionSettings,
  });
  try {
    await sql`select 1`;
    return sql;
  } catch (error) {
    await sql.end({ timeout: 0 });
    if ((error as { code?: string }).code !== '28P01') return undefined;
    throw new Error(
      'postgres.json does not have the passwords of the data folder beside it. Restore the matching file',
      { cause: error },
    );
  }
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

/**
 * Reads the passwords from a file, and creates the file if it is missing. Processes that do so at the same time all get
 * the same passwords.
 */
async function readPasswords(file: string): Promise<Passwords> {
  const text = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined;
    throw new Error(`${file} cannot be read; does the data folder belong to another user?`, { cause: error });
  });
  if (text !== undefined) return parsePasswords(file, text);
  const secret = () => randomBytes(24).toString('base64url');
  const passwords: Passwords = { superuser: secret(), owner: secret(), service: secret() };
  await createOnce(file, `${JSON.stringify(passwords, undefined, 2)}\n`);
  return readPasswords(file);
}

function parsePasswords(file: string, text: string): Passwords {
  try {
    return JSON.parse(text) as Passwords;
  } catch (error) {
    throw new Error(`${file} is damaged. It holds the passwords of the embedded PostgreSQL; restore it from a backup`, {
      cause: error,
    });
  }
}

export async function prepareDatabase(superuser: postgres.Sql, name: string, passwords: Passwords): Promise<void> {
  const { owner, service } = logins;
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
}
