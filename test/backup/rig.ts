import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chmod, chown, cp, mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import postgres from 'postgres';
import { killServer, openCluster, runningPort, startServer, stopServer } from '../../src/database/embedded-cluster.ts';
import type { Cluster } from '../../src/database/embedded-cluster.ts';
import { atEnd } from '../setup/at-end.ts';
import { blockOf } from '../setup/handbook.ts';
import { backupPrograms } from '../setup/postgres-programs.ts';
import { freePort } from '../setup/free-port.ts';

const root = join(import.meta.dirname, '..', '..');
const secret = (): string => randomBytes(12).toString('hex');

/** The passwords of the PostgreSQL servers and of the first user. A restored server has those of its backup. */
const passwords = {
  PGPASSWORD: secret(),
  OWNER_PASSWORD: secret(),
  SERVICE_PASSWORD: secret(),
  BACKUP_PASSWORD: secret(),
  ADMIN_PASSWORD: secret(),
};

/** The folder of the handbook's password files. */
const secrets = join(tmpdir(), `backup-secrets-${secret()}`);

/** A PostgreSQL server of its own, as operators run it. */
export interface Server {
  cluster: Cluster;
  /** Variables with which PostgreSQL's programs and the commands of the handbook reach the server. */
  environment: Record<string, string>;
  /** The maintenance database, as superuser. */
  superuser: postgres.Sql;
  /** The service's database, as its owner. It must exist before the first query. */
  owner: postgres.Sql;
  /** URL of the service's database with the login of the service. */
  url: string;
  /** The same with the login of the owner. */
  ownerUrl: string;
}

const settings = {
  listen_addresses: '127.0.0.1',
  unix_socket_directories: '',
  timezone: 'UTC',
  fsync: 'off',
};

/** Starts a new server without the service's database. */
export async function newServer(): Promise<Server> {
  const options = { superuser: 'postgres', password: passwords.PGPASSWORD, settings, sync: false };
  const cluster = await openCluster(join(await newFolder(undefined), 'data'), options);
  atEnd(() => rm(secrets, { recursive: true, force: true }));
  atEnd(() => killServer(cluster));
  await startServer(cluster);
  return reach(cluster);
}

/** Stops a server and starts it on the same port. */
export async function restart({ cluster }: Server): Promise<void> {
  await stopServer(cluster);
  await startServer(cluster);
}

/**
 * Creates a folder for the user that the servers run as. It is removed after the tests of the file.
 * @param path default: a new temporary folder
 */
export async function newFolder(user: Cluster['user'], path?: string): Promise<string> {
  const folder = path ?? (await mkdtemp(join(tmpdir(), 'backup-test-')));
  if (path) await mkdir(path);
  atEnd(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }));
  await chmod(folder, 0o755);
  if (user) await chown(folder, user.uid, user.gid);
  return folder;
}

async function reach(cluster: Cluster): Promise<Server> {
  const port = (await runningPort(cluster))!;
  const url = (login: string, password: string, name: string) =>
    `postgres://${login}:${password}@127.0.0.1:${port}/${name}`;
  const connect = (...to: Parameters<typeof url>) => {
    const sql = postgres(url(...to), { max: 1, fetch_types: false, onnotice: () => {} });
    atEnd(() => sql.end({ timeout: 1 }));
    return sql;
  };
  return {
    cluster,
    environment: { PGHOST: '127.0.0.1', PGPORT: String(port), PGUSER: 'postgres', SECRETS: secrets, ...passwords },
    superuser: connect('postgres', passwords.PGPASSWORD, 'postgres'),
    owner: connect('sales_owner', passwords.OWNER_PASSWORD, 'sales_data_api'),
    url: url('sales_service', passwords.SERVICE_PASSWORD, 'sales_data_api'),
    ownerUrl: url('sales_owner', passwords.OWNER_PASSWORD, 'sales_data_api'),
  };
}

/** The login of the handbook's backups. */
export const asBackup = { PGUSER: 'sales_backup', PGPASSWORD: passwords.BACKUP_PASSWORD };

/**
 * Runs named code blocks of the handbook in one shell, in the project's folder.
 * @param show text that the shell expands at the end and that is returned, such as `$BACKUP`
 * @throws Error with the output if a command fails
 */
export const followHandbook = (
  names: string[],
  server: Server,
  more: Record<string, string> = {},
  show = '',
): Promise<string> => follow(names, server, { more, show, cwd: root });

/** The same as `followHandbook`, as the system user of the server, which may not be allowed to enter the project's folder. */
export async function followAsServer(
  names: string[],
  server: Server,
  more: Record<string, string> = {},
  show = '',
): Promise<string> {
  const cwd = await newFolder(undefined);
  await cp(join(root, 'deploy'), join(cwd, 'deploy'), { recursive: true });
  return follow(names, server, { more, show, cwd, ...server.cluster.user });
}

/** What `follow…` show at their end: the newest base backup, and the newest dump. */
export const newestBackup = '$(ls -d "$BACKUPS"/base-* | tail -n 1)';
export const newestDump = '$(ls "$BACKUPS"/*.dump | tail -n 1)';

async function follow(
  names: string[],
  { cluster, environment }: Server,
  { more, show, ...options }: { more: Record<string, string>; show: string; cwd: string; uid?: number; gid?: number },
): Promise<string> {
  const script = [...names.map((name) => blockOf(name)), `printf '\\n%s' "${show}"`].join('\n');
  const path = [cluster.programs, backupPrograms, process.env['PATH']].filter(Boolean).join(delimiter);
  const child = spawn('sh', ['-eu'], { ...options, env: { ...environment, ...more, PATH: path, LC_ALL: 'C' } });
  let [shown, all] = ['', ''];
  child.stdout.setEncoding('utf8').on('data', (text: string) => ((shown += text), (all += text)));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (all += text));
  child.stdin.end(script);
  // Not `close`: a server that the commands have started keeps the pipes open.
  const code = await new Promise((resolve) => child.once('exit', resolve));
  await new Promise(setImmediate);
  child.stdout.destroy();
  child.stderr.destroy();
  if (code !== 0) throw new Error(`${names.join(', ')} ended with ${String(code)}:\n${all}`);
  return shown.slice(shown.lastIndexOf('\n') + 1);
}

/** Restores a base backup into a new server, with the commands of the handbook. */
export async function restoreBase(from: Server, more: Record<string, string>): Promise<Server> {
  const data = join(await newFolder(from.cluster.user), 'data');
  const cluster = { ...from.cluster, data };
  atEnd(() => killServer(cluster));
  await followAsServer(['restore-base'], from, { ...more, PGDATA: data, PGPORT: String(await freePort()) });
  return reach(cluster);
}
