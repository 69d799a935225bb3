import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import postgres from 'postgres';
import { isAlive } from '../../src/database/embedded-cluster.ts';
import { logins } from '../../src/database/embedded-postgres.ts';
import { freePorts } from './free-port.ts';

const run = promisify(execFile);

/** Path of the program that starts a Citus cluster on this machine. */
export const citusProgram = join(import.meta.dirname, '..', '..', '..', 'shared', 'citus', 'citus-cluster');

/** Whether a Citus cluster can be started here. */
export const hasCitusProgram = existsSync(citusProgram);
/** Suffix for the name of a test group that needs Citus; empty if it can be started. */
export const needCitus = hasCitusProgram ? '' : '(needs Citus: ../shared/citus/citus-cluster)';

/** Name of a database on all nodes in which Citus knows the nodes and the roles. Empty databases are clones of it. */
export const blankDatabase = 'template_citus';

/** A running Citus cluster for tests and benchmarks: a coordinator and two workers. */
export interface CitusCluster {
  /** URLs of the superuser on the nodes, the coordinator first, without the database name. */
  nodes: string[];
  /** Ends a node (`worker1`, `worker2`) at once, as a crash does. */
  kill: (node: string) => Promise<void>;
  /** Starts a killed node again, with its data. */
  restart: (node: string) => Promise<void>;
  /** Stops the processes of a node: it keeps its connections and does not respond. */
  freeze: (node: string) => Promise<void>;
  /** Lets the processes of a frozen node continue. */
  thaw: (node: string) => Promise<void>;
  /** URL of the superuser on one more node, which Citus does not know yet; only if it was asked for. */
  spare: string | undefined;
  stop: () => Promise<void>;
}

const workers = 2;
const namePrefix = 'test-';
/** Settings of the clusters of tests. Few shards, because each test file creates all of them. */
const fastSettings: Record<string, string> = {
  'citus.shard_count': '4',
  // How long the transactions of a node that crashed stay prepared, and keep their locks, after its return.
  'citus.recover_2pc_interval': '2s',
  fsync: 'off',
  synchronous_commit: 'off',
  full_page_writes: 'off',
  max_connections: '500',
  // Each database needs one for Citus, which detects deadlocks and settles prepared transactions.
  max_worker_processes: '64',
};

/**
 * Starts a cluster. Removes the clusters that killed test processes left behind.
 * @param settings settings of PostgreSQL for all nodes
 * @param withSpare whether to start one more node, for a test that adds a node to the cluster
 */
export async function startCitus({ settings = fastSettings, withSpare = false } = {}): Promise<CitusCluster> {
  await sweep();
  const name = `${namePrefix}${process.pid}`;
  const cluster = (...words: string[]) => repeat(() => run(citusProgram, [...words, '--name', name]));
  const count = workers + (withSpare ? 1 : 0);
  const [port] = await freePorts(count + 1);
  await cluster('start', '--workers', `${count}`, '--port', `${port}`);
  const urls = Array.from({ length: count + 1 }, (_, n) => `postgres://postgres@127.0.0.1:${port! + n}/`);
  const nodes = urls.slice(0, workers + 1);
  const stop = () => cluster('remove');
  const kill = (node: string) => cluster('kill', node);
  const restart = (node: string) => cluster('node', node);
  const freeze = (node: string) => cluster('pause', node);
  const thaw = (node: string) => cluster('resume', node);
  try {
    await onNodes(urls, 'postgres', async (sql) => {
      for (const [setting, value] of Object.entries(settings))
        await sql.unsafe(`alter system set ${setting} = '${value}'`);
    });
    await cluster('stop');
    await cluster('start');
    await createBlankDatabase(nodes);
    return { nodes, kill, restart, freeze, thaw, spare: urls[workers + 1], stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/**
 * Runs a command of the cluster's program again if the program did not find the coordinator. It looks for the name in a
 * pipe whose writer sometimes fails, because the reader ends at the first line.
 */
async function repeat(command: () => Promise<unknown>): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return void (await command());
    } catch (error) {
      if (attempt === 10 || !String(error).includes('no coordinator in cluster')) throw error;
    }
  }
}

/** Runs a function on each node, in the given database, as the superuser. */
export async function onNodes(
  nodes: readonly string[],
  database: string,
  work: (sql: postgres.Sql) => Promise<unknown>,
): Promise<void> {
  for (const node of nodes) {
    const sql = postgres(node + database, { max: 1, fetch_types: false, onnotice: () => {} });
    try {
      await work(sql);
    } finally {
      await sql.end({ timeout: 1 });
    }
  }
}

async function createBlankDatabase(nodes: readonly string[]): Promise<void> {
  await onNodes(nodes, 'postgres', (sql) => sql`create database ${sql(blankDatabase)}`);
  await onNodes(nodes, blankDatabase, (sql) => sql`create extension citus`);
  await onNodes(nodes.slice(0, 1), blankDatabase, async (sql) => {
    const [coordinator, ...others] = nodes.map((node) => Number(new URL(node).port));
    await sql`select citus_set_coordinator_host('127.0.0.1', ${coordinator!}::int)`;
    for (const port of others) await sql`select citus_add_node('127.0.0.1', ${port}::int)`;
    // Within this database, so that Citus creates the roles on all nodes. It connects to the workers as sales_data_api.
    const { owner, service } = logins;
    await sql`create role sales_data_api login`;
    await sql`create role ${sql(owner)} login`;
    await sql`create role ${sql(service)} login`;
    await sql`grant sales_data_api to ${sql(owner)} with admin option`;
    await sql`grant sales_data_api to ${sql(service)}`;
    await sql`alter database ${sql(blankDatabase)} owner to ${sql(owner)}`;
  });
  await closeForClones(nodes, blankDatabase);
}

/** Clones a database on all nodes. Each clone is a distributed database like its original. */
export async function cloneDatabase(nodes: readonly string[], template: string, name: string): Promise<void> {
  await onNodes(
    nodes,
    'postgres',
    (sql) => sql`create database ${sql(name)} template ${sql(template)} owner ${sql(logins.owner)}`,
  );
}

/** Drops a database on all nodes, even if there are connections to it. */
export async function dropDatabase(nodes: readonly string[], name: string): Promise<void> {
  await onNodes(nodes, 'postgres', async (sql) => {
    const drop = () => sql`drop database if exists ${sql(name)} with (force)`;
    // Citus may start its own process in the database again before the database is gone.
    for (let attempt = 1; attempt < 5; attempt += 1) {
      try {
        return await drop();
      } catch (error) {
        if ((error as { code?: string }).code !== '55006') throw error;
      }
    }
    return drop();
  });
}

/** Ends all connections to a database on all nodes, and makes it a template. */
export async function closeForClones(nodes: readonly string[], name: string): Promise<void> {
  await onNodes(nodes, 'postgres', async (sql) => {
    await sql`alter database ${sql(name)} with is_template true allow_connections false`;
    // Citus has a process in each database that used it.
    await sql`select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = ${name}`;
  });
}

/** Returns the first of `count` consecutive ports that are free. */
async function sweep(): Promise<void> {
  for (const folder of await readdir(tmpdir())) {
    const pid = /^citus-cluster-test-(\d+)$/.exec(folder)?.[1];
    if (pid !== undefined && !isAlive(Number(pid)))
      await run(citusProgram, ['remove', '--name', `${namePrefix}${pid}`]);
  }
}
