import { randomInt } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type postgres from 'postgres';
import type { SearchCluster } from '../search-cluster/cluster.ts';
import type { Tenacious } from './rig.ts';

/** Counts of the faults that were injected into the system. */
export interface Damage {
  /** Times that all workers were killed at once while they had jobs in flight. */
  workerKills: number;
  /** Times of these kills, in milliseconds of `performance.now()`. */
  workersKilledAt: number[];
  /** Number of workers that were asked to stop. */
  workerStops: number;
  serverKills: number;
  backendsKilled: number;
  clusterFreezes: number;
  clusterKills: number;
}

export interface Victims {
  workers: Tenacious[];
  servers: Tenacious[];
  cluster: SearchCluster;
  /** Connection as the superuser, which may terminate other connections. */
  superuser: postgres.Sql;
  database: string;
}

/** Returns the counts before any fault: all zero. */
export const unhurt = (): Damage => ({
  workerKills: 0,
  workersKilledAt: [],
  workerStops: 0,
  serverKills: 0,
  backendsKilled: 0,
  clusterFreezes: 0,
  clusterKills: 0,
});

/**
 * Injects faults of every kind, several a second, until `stopping` is aborted. Counts each in `damage`. Leaves
 * everything running. On a busy machine the faults are further apart; otherwise the processes would only start and die.
 * If the run needs longer than `seconds`, the faults are also further apart, so that work ends in between.
 */
export async function doHarm(victims: Victims, damage: Damage, seconds: number, stopping: AbortSignal): Promise<void> {
  const processes = [...victims.workers, ...victims.servers];
  const plannedEnd = performance.now() + seconds * 1_000;
  const slowness = () =>
    Math.max(1, ...processes.map(({ startMs }) => startMs / usualStartMs)) *
    (performance.now() < plannedEnd ? 1 : slowerAfterPlannedEnd);
  const every = (pause: Pause, harm: () => Promise<void>) => repeat(stopping, pause, harm, slowness);
  await Promise.all([
    every([300, 1_500], () => killWorkers(victims, damage)),
    every([15_000, 30_000], () => stopWorker(victims, damage)),
    every([400, 1_200], () => killBackends(victims, damage)),
    every([10_000, 20_000], () => killServer(victims, damage)),
    every([seconds * 100, seconds * 250], () => hurtCluster(victims, damage)),
  ]);
}

/** How long a process takes to start on a machine that does nothing else (ms). */
const usualStartMs = 1_500;

/** How much longer the pauses between faults are after the planned end of the run. */
const slowerAfterPlannedEnd = 5;

/** The shortest and the longest pause between two faults (ms). */
type Pause = [number, number];

/** Injects a fault again and again. `slowness` returns the factor by which the next pause is longer. */
async function repeat(
  stopping: AbortSignal,
  [from, to]: Pause,
  harm: () => Promise<void>,
  slowness = () => 1,
): Promise<void> {
  for (;;) {
    const pause = randomInt(from, to) * slowness();
    await sleep(pause, undefined, { signal: stopping }).catch(() => undefined);
    if (stopping.aborted) return;
    await harm();
  }
}

/**
 * Waits until the workers have jobs in flight and pauses all workers. If jobs are still in flight then, kills the
 * workers; otherwise resumes them.
 */
async function killWorkers({ workers, superuser }: Victims, damage: Damage): Promise<void> {
  await Promise.all(workers.map((worker) => worker.ready()));
  for (const deadline = performance.now() + 5_000; performance.now() < deadline; await sleep(10)) {
    if ((await heldJobs(superuser)) === 0) continue;
    for (const worker of workers) worker.signal('SIGSTOP');
    if ((await heldJobs(superuser)) > 0) {
      for (const worker of workers) worker.signal('SIGKILL');
      damage.workerKills += 1;
      damage.workersKilledAt.push(performance.now());
      return;
    }
    for (const worker of workers) worker.signal('SIGCONT');
  }
}

/** Asks one worker to stop. The worker finishes its jobs in flight. */
async function stopWorker({ workers }: Victims, damage: Damage): Promise<void> {
  const worker = workers[randomInt(workers.length)]!;
  await worker.ready();
  worker.signal('SIGTERM');
  damage.workerStops += 1;
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

/** Takes jobs from the turns that work at them, repeatedly, so that several workers process the same job. */
export const breakTurns = (superuser: postgres.Sql, stopping: AbortSignal): Promise<void> =>
  repeat(stopping, [300, 600], async () => {
    await superuser`
      update jobs
      set turn = null
      where turn is not null`;
  });

async function killBackends({ superuser, database }: Victims, damage: Damage): Promise<void> {
  const killed = await superuser`
    select pg_terminate_backend(pid)
    from (
      select pid
      from pg_stat_activity
      where datname = ${database} and application_name like 'sales-data-api%'
      order by random()
      limit ${randomInt(1, 4)}
    ) victims`;
  damage.backendsKilled += killed.length;
}

async function killServer({ servers }: Victims, damage: Damage): Promise<void> {
  servers[randomInt(servers.length)]!.signal('SIGKILL');
  damage.serverKills += 1;
}

/** Freezes the cluster for longer than the service waits for it, or kills and restarts it, in turn. */
async function hurtCluster({ cluster }: Victims, damage: Damage): Promise<void> {
  if (damage.clusterFreezes <= damage.clusterKills) {
    cluster.freeze(0);
    await sleep(randomInt(3_000, 6_000));
    cluster.thaw(0);
    damage.clusterFreezes += 1;
    return;
  }
  await cluster.kill(0);
  await sleep(randomInt(500, 2_000));
  await cluster.restart(0);
  damage.clusterKills += 1;
}
