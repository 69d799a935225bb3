import { PgBoss, type Queue } from 'pg-boss';
import type postgres from 'postgres';
import type { JobType } from '../schemas/jobs.ts';
import { hasCitus } from './citus/citus.ts';
import { withSessionSettings } from './session-settings.ts';

/** Name of the database schema that contains the tables of the job queue (pg-boss). */
export const queueSchema = 'pgboss';

/** Seconds between two signs of life of a worker, for its messages, its leases and its slots. */
export const heartbeatSeconds = 5;
/** Seconds without a sign of life after which a worker's leases and slots no longer count. */
export const aliveSeconds = 3 * heartbeatSeconds;

/**
 * Options of queues whose jobs are retried with growing delays until they succeed. While a worker runs a job, it must
 * send heartbeats. If the heartbeats stop, the job is retried. Finished messages have no use, so they are deleted soon.
 */
const persistent = {
  retryLimit: 10_000,
  retryDelay: 1,
  retryBackoff: true,
  retryDelayMax: 60,
  expireInSeconds: 6 * 3600,
  heartbeatSeconds: 2 * heartbeatSeconds, // pg-boss sends heartbeats twice as often
  deleteAfterSeconds: 60,
};

// One waiting message per customer gives a fair order. Processing a message takes little time, so it expires soon. A message whose worker died is retried about when the dead worker's lease ends.
/**
 * Options of queues that hold at most one waiting message for each customer (policy `short`). A message means that the
 * customer has work to process.
 */
const turns = {
  ...persistent,
  policy: 'short',
  notify: true,
  retryDelayMax: 15,
  expireInSeconds: 900,
} as const;

/** Options of queues for maintenance. Its messages come from a schedule, so a failed one is soon followed by another. */
const maintenance = { ...persistent, retryLimit: 3, notify: false } as const;

/**
 * The options of each job queue, by queue name. With `notify: true`, idle workers start a new job at once. Otherwise
 * they find new jobs only by polling. On the schedule `cron` (UTC), pg-boss itself adds a job to the queue.
 */
export const queues = {
  unlock: turns,
  verify: turns,
  'settle-companies': turns,
  // Its name was `fill-list` before it became a queue of turns. The name changed because a queue keeps the policy that
  // it was created with.
  'fill-lists': turns,
  import: turns,
  'sweep-jobs': { ...maintenance, policy: 'short', cron: '* * * * *' },
  'remove-idempotency-records': { ...maintenance, cron: '17 * * * *' },
} as const;

export type JobKind = keyof typeof queues;

/**
 * The name of a queue that is processed in turns. A turn is a short period in which one worker processes one customer's
 * work.
 */
export type TurnKind = { [K in JobKind]: (typeof queues)[K] extends typeof turns ? K : never }[JobKind];

export const turnKinds = (Object.keys(queues) as JobKind[]).filter((kind): kind is TurnKind => queues[kind] === turns);

// It gets one message for each message of a schedule. By default pg-boss keeps them for a week.
/** The queue in which pg-boss itself notes that a schedule is due, with our options. */
const queueOfSchedules = { '__pgboss__send-it': { deleteAfterSeconds: persistent.deleteAfterSeconds } };

/** The type of a run. A run is work that a customer starts: a job of the table `jobs`, or an import. */
export type RunType = JobType | 'import';

/** For each type of run, the name of the queue that processes runs of this type. */
const queueOfType = {
  unlock_contacts: 'unlock',
  unlock_selected_contacts: 'unlock',
  verify_email: 'verify',
  verify_list: 'verify',
  import: 'import',
} as const satisfies Record<RunType, TurnKind>;

/** The name of a queue that processes runs. */
export type RunQueue = (typeof queueOfType)[RunType];

/** The name of a queue that processes rows of the table `jobs`, which contains the jobs that customers have started. */
export type JobQueue = (typeof queueOfType)[JobType];

export const queueOf = <T extends RunType>(type: T): (typeof queueOfType)[T] => queueOfType[type];

/** For each queue of runs, the types of runs that the queue processes. */
export const typesOf = Object.groupBy(Object.keys(queueOfType) as RunType[], queueOf) as Record<RunQueue, RunType[]>;

/**
 * Creates or updates the tables of the job queue (pg-boss), the queues and their schedules. May be called repeatedly.
 * @param ownerUrl The database URL with the login of the database owner, who may create tables.
 */
export async function installQueues(sql: postgres.Sql, ownerUrl: string): Promise<void> {
  const boss = new PgBoss({
    connectionString: withSessionSettings(ownerUrl, (await hasCitus(sql)) ? withoutPropagation : {}),
    schema: queueSchema,
    max: 1,
    supervise: false,
    schedule: false,
  });
  const errors: unknown[] = [];
  boss.on('error', (error) => errors.push(error));
  await boss.start();
  try {
    const all: Record<string, Options> = { ...queues, ...queueOfSchedules };
    for (const [kind, { cron, policy, ...changeable }] of Object.entries(all)) {
      await boss.createQueue(kind, { ...changeable, ...(policy && { policy }) });
      await boss.updateQueue(kind, changeable); // pg-boss cannot change the policy of an existing queue
      if (cron) await boss.schedule(kind, cron);
    }
  } finally {
    await boss.stop({ graceful: false });
  }
  if (errors.length > 0) throw errors[0];
  await grantService(sql);
}

type Options = Omit<Queue, 'name'> & { cron?: string };

/** With this setting, Citus does not copy tables which are created over the connection to the workers. */
const withoutPropagation = { 'citus.enable_ddl_propagation': 'off' };

const grantService = (sql: postgres.Sql) =>
  sql.unsafe(`
    grant usage on schema ${queueSchema} to sales_data_api;
    grant select, insert, update, delete on all tables in schema ${queueSchema} to sales_data_api;
    grant usage on all sequences in schema ${queueSchema} to sales_data_api;
    grant execute on all functions in schema ${queueSchema} to sales_data_api`);
