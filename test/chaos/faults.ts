import { randomInt } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type postgres from 'postgres';
import { pick } from './client.ts';
import type { Tenacious } from './rig.ts';

export interface Victims {
  workers: Tenacious[];
  servers: Tenacious[];
  followers: Tenacious[];
  /** Connection as the superuser, which may terminate other connections. */
  superuser: postgres.Sql;
  database: string;
}

/** The faults, each with the shortest and the longest pause before it (ms). */
const faults: Record<string, readonly [from: number, to: number, harm: (victims: Victims) => unknown]> = {
  workersKilled: [300, 1_500, killWorkers],
  workerStops: [2_000, 6_000, ({ workers }) => pick(workers).signal('SIGTERM')],
  serverKills: [2_000, 6_000, ({ servers }) => pick(servers).signal('SIGKILL')],
  followerKills: [500, 2_000, ({ followers }) => pick(followers).signal('SIGKILL')],
  connectionsCut: [400, 1_200, cutConnections],
};

/** Counts of the injected faults. */
export const noHarm = () => Object.fromEntries(Object.keys(faults).map((name) => [name, 0]));

/** How long a process takes to start on a machine that does nothing else (ms). */
const usualStartMs = 1_500;

/**
 * Injects faults of every kind until `stopping` is aborted. On a busy machine they are further apart; otherwise the
 * processes would only start and die.
 */
export async function doHarm(victims: Victims, counts: Record<string, number>, stopping: AbortSignal): Promise<void> {
  const processes = [...victims.workers, ...victims.servers];
  const repeat = async ([name, [from, to, harm]]: [string, (typeof faults)[string]]) => {
    for (;;) {
      await Promise.all([...processes, ...victims.followers].map((one) => one.ready()));
      const slowness = Math.min(4, Math.max(1, ...processes.map(({ startMs }) => startMs / usualStartMs)));
      await sleep(randomInt(from, to) * slowness, undefined, { signal: stopping }).catch(() => undefined);
      if (stopping.aborted) return;
      await harm(victims);
      counts[name]! += 1;
    }
  };
  await Promise.all(Object.entries(faults).map(repeat));
}

/** Waits until the workers have jobs in flight, and kills all of them. */
async function killWorkers({ workers, superuser }: Victims): Promise<void> {
  await pauseInsideJobs(superuser, workers);
  for (const worker of workers) worker.signal('SIGKILL');
}

/** Stops workers (SIGSTOP) at a time at which several jobs are in flight, or after some seconds without. */
export async function pauseInsideJobs(superuser: postgres.Sql, workers: Tenacious[]): Promise<void> {
  for (const deadline = performance.now() + 5_000; performance.now() < deadline; await sleep(10)) {
    if ((await heldJobs(superuser)) === 0) continue;
    for (const worker of workers) worker.signal('SIGSTOP');
    if ((await heldJobs(superuser)) > 0) return;
    for (const worker of workers) worker.signal('SIGCONT');
  }
}

/** Returns the number of jobs that workers are processing. A job that backs off after an error does not count. */
async function heldJobs(superuser: postgres.Sql): Promise<number> {
  const messages = await superuser<{ id: string }[]>`
    select id
    from pgboss.job
    where state = 'active'
      and heartbeat_on > clock_timestamp() - interval '5 seconds'`;
  const [held] = await superuser<[{ jobs: number }]>`
    select count(*)::integer as jobs
    from jobs
    where turn = any(${messages.map(({ id }) => id)}::uuid[])`;
  return held.jobs;
}

async function cutConnections({ superuser, database }: Victims): Promise<void> {
  await superuser`
    select pg_terminate_backend(pid)
    from (
      select pid
      from pg_stat_activity
      where datname = ${database} and application_name like 'sales-data-api%'
      order by random()
      limit ${randomInt(1, 4)}
    ) victims`;
}
