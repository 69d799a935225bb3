import { PgBoss } from 'pg-boss';
import type postgres from 'postgres';
import { jobTypes, type JobType } from '../schemas/jobs.ts';

/** Name of the database schema that contains the tables of the job queue (pg-boss). */
export const queueSchema = 'pgboss';

/**
 * Options of queues whose jobs are retried until they succeed, with growing delays. A worker must send heartbeats while
 * it runs a job. If they stop, the job is retried.
 */
const persistent = {
  retryLimit: 10_000,
  retryDelay: 1,
  retryBackoff: true,
  retryDelayMax: 60,
  expireInSeconds: 6 * 3600,
  heartbeatSeconds: 10,
};

// One waiting message per customer gives a fair order. Processing a message takes little time, and finished messages have
// no use, so both expire soon. A message whose worker died is retried about when the dead worker's lease on the job ends.
/**
 * Options of queues that hold at most one waiting message for each customer (policy `short`). A message means that this
 * customer has work to do.
 */
const turns = {
  ...persistent,
  policy: 'short',
  notify: true,
  retryDelayMax: 15,
  expireInSeconds: 900,
  deleteAfterSeconds: 60,
} as const;

/**
 * The options of each job queue, by queue name. With `notify: true`, idle workers are notified of a new job at once.
 * Without it, they only poll.
 */
export const queues = {
  unlock: turns,
  verify: turns,
  'settle-companies': turns,
  // Its name was `fill-list` before it became a queue of turns. The name changed because a queue keeps the policy that
  // it was created with.
  'fill-lists': turns,
  import: turns,
  'sweep-jobs': { ...persistent, policy: 'short', retryLimit: 3, notify: false },
  'remove-idempotency-records': { ...persistent, retryLimit: 3, notify: false },
} as const;

export type JobKind = keyof typeof queues;

/** For each type of job, the name of the queue that processes it. */
const queueOfType = {
  unlock_contacts: 'unlock',
  unlock_selected_contacts: 'unlock',
  verify_email: 'verify',
  verify_list: 'verify',
} as const satisfies Record<JobType, JobKind>;

/** The name of a job queue that processes rows of the table `jobs`. */
export type TurnQueue = (typeof queueOfType)[JobType];

/** Returns the name of the queue that processes jobs of the given type. */
export const queueOf = (type: JobType): TurnQueue => queueOfType[type];

/** For each job queue, the types of jobs that it processes. */
export const turnQueues = Object.groupBy(jobTypes, queueOf) as Record<TurnQueue, JobType[]>;

/**
 * The cron schedule (UTC) of each job queue, on which pg-boss adds a job. Null means that only the service adds jobs.
 */
const schedules: Record<JobKind, string | null> = {
  'fill-lists': null,
  import: null,
  unlock: null,
  verify: null,
  'settle-companies': null,
  'sweep-jobs': '* * * * *',
  'remove-idempotency-records': '17 * * * *',
};

/**
 * Creates or updates the job queues in the database: the tables of pg-boss, the queues and their schedules. It is safe
 * to call it again.
 * @param ownerUrl database URL with the login of the owner, because the service itself may not create tables
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
