import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import postgres from 'postgres';
import {
  killServer,
  openCluster,
  runningPort,
  startServer,
  type Cluster,
} from '../../src/database/embedded-cluster.ts';
import { logins, prepareDatabase } from '../../src/database/embedded-postgres.ts';
import { atEnd } from './at-end.ts';

const passwords = { superuser: 'a', owner: 'b', service: 'c' };

/**
 * Starts a PostgreSQL server that the tests of one file may stop and kill, with an empty database. Returns the URLs of
 * its logins. After the tests it is removed.
 */
export async function startOwnCluster(
  database: string,
): Promise<{ cluster: Cluster; urls: Record<keyof typeof passwords, string> }> {
  const folder = await mkdtemp(join(tmpdir(), 'own-cluster-'));
  await chmod(folder, 0o755);
  const settings = { listen_addresses: '127.0.0.1', unix_socket_directories: '', fsync: 'off' };
  const options = { superuser: logins.superuser, password: passwords.superuser, settings, sync: false };
  const cluster = await openCluster(join(folder, 'postgres'), options);
  atEnd(async () => {
    await killServer(cluster);
    await rm(folder, { recursive: true, force: true });
  });
  await startServer(cluster);
  const port = await runningPort(cluster);
  const urlOf = (login: keyof typeof passwords, name = database): string =>
    `postgres://${logins[login]}:${passwords[login]}@127.0.0.1:${port}/${name}`;
  const superuser = postgres(urlOf('superuser', 'postgres'), { max: 1, onnotice: () => {} });
  await prepareDatabase(superuser, database, passwords);
  await superuser.end();
  return { cluster, urls: { superuser: urlOf('superuser'), owner: urlOf('owner'), service: urlOf('service') } };
}
