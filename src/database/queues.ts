import { PgBoss } from 'pg-boss';
import type postgres from 'postgres';
import { jobTypes, type JobType } from '../schemas/jobs.ts';

/** The database schema that holds pg-boss's tables. */
export const queueSchema = 'pgboss';

/**
 * Queue options for jobs that are retried until they succeed, with growing delays. A worker sends heartbeats; if they
 * stop, the worker counts as dead and the job is retried.
 */
const persistent = {
  retryLimit: 10_000,
  retryDelay: 1,
  retryBackoff: true,
  retryDelayMax: 60,
  expireInSeconds: 6 * 3600,
  heartbeatSeconds: 10,
};

/**
 * Options for queues whose messages each stand for one customer with waiting jobs. Policy `short` allows one waiting
 * message per customer, so that customers are served in a fair order. Processing a message takes little time, and
 * finished messages have no use, so both expire soon.
 */
const turns = { ...persistent, policy: 'short', notify: true, expireInSeconds: 900, deleteAfterSeconds: 60 } as const;

/**
 * The options of each queue. There is one queue for each kind of job. With `notify: true`, idle workers are notified of
 * a new job; otherwise they only poll.
 */
export const queues = {
  unlock: turns,
  verify: turns,
  'settle-companies': turns,
  // Its name was `fill-list` before it became a queue of turns. The name changed because a queue keeps the policy that
  // it was created with.
  'fill-lists': turns,
  'sweep-jobs': { ...persistent, policy: 'short', retryLimit: 3, notify: false },
  'remove-idempotency-records': { ...persistent, retryLimit: 3, notify: false },
} as const;

export type JobKind = keyof typeof queues;

/** The queue that processes jobs of each type. */
const queueOfType = {
  unlock_contacts: 'unlock',
  unlock_selected_contacts: 'unlock',
  verify_email: 'verify',
  verify_list: 'verify',
} as const satisfies Record<JobType, JobKind>;

/** The name of a queue that processes rows of the table `jobs`. */
export type TurnQueue = (typeof queueOfType)[JobType];

/** Returns the name of the queue that processes jobs of this type. */
export const queueOf = (type: JobType): TurnQueue => queueOfType[type];

/** The job types that each queue processes. */
export const turnQueues = Object.groupBy(jobTypes, queueOf) as Record<TurnQueue, JobType[]>;

/** Cron schedules (UTC) on which pg-boss enqueues jobs, by kind of job. Null if only the service enqueues this kind. */
const schedules: Record<JobKind, string | null> = {
  'fill-lists': null,
  unlock: null,
  verify: null,
  'settle-companies': null,
  'sweep-jobs': '* * * * *',
  'remove-idempotency-records': '17 * * * *',
};

/**
 * Installs or updates the job queue in the database: pg-boss's tables, and the queues and schedules of this file. Run
 * by the database owner, like migrations, so that the service needs no right to create tables. May be called again at
 * any time.
 */
export async function installQueues(sql: postgres.Sql, ownerUrl: string): Promise<void> {
  const boss = new PgBoss({
    connectionString: ownerUrl,
    schema: queueSchema,
    max: 1,
    supervise: false,
    schedule: false,
  });
  const errors: unknown[] = [];
  boss.on('error', (error) => errors.push(error));
  await boss.start();
  try {
    for (const [kind, options] of Object.entries(queues)) {
      await boss.createQueue(kind, options);
      // pg-boss cannot change the policy of an existing queue.
      const { policy, ...changeable } = { policy: undefined, ...options };
      void policy;
      await boss.updateQueue(kind, changeable);
    }
    for (const [kind, cron] of Object.entries(schedules)) if (cron !== null) await boss.schedule(kind, cron);
  } finally {
    await boss.stop({ graceful: false });
  }
  if (errors.length > 0) throw errors[0];
  await grantService(sql);
}

const grantService = (sql: postgres.Sql) =>
  sql.unsafe(`
    grant usage on schema ${queueSchema} to sales_data_api;
    grant select, insert, update, delete on all tables in schema ${queueSchema} to sales_data_api;
    grant usage on all sequences in schema ${queueSchema} to sales_data_api;
    grant execute on all functions in schema ${queueSchema} to sales_data_api`);
