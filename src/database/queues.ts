import { PgBoss } from 'pg-boss';
import type postgres from 'postgres';
import { jobTypes, type JobType } from '../schemas/jobs.ts';
import { hasCitus } from './citus.ts';
import { withSessionSettings } from './session-settings.ts';

/** Name of the database schema that contains the tables of the job queue (pg-boss). */
export const queueSchema = 'pgboss';

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
  heartbeatSeconds: 10,
  deleteAfterSeconds: 60,
};

// One waiting message per customer gives a fair order. Processing a message takes little time, so it expires soon. A message whose worker died is retried about when the dead worker's lease on the job ends.
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

/**
 * The options of each job queue, by queue name. With `notify: true`, idle workers start a new job at once. Otherwise
 * they find new jobs only by polling.
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

// It gets one message for each message of a schedule. By default pg-boss keeps them for a week.
/** The queue in which pg-boss itself notes that a schedule is due, with our options. */
const queueOfSchedules = { '__pgboss__send-it': { deleteAfterSeconds: persistent.deleteAfterSeconds } };

export type JobKind = keyof typeof queues;

/** For each type of job, the name of the queue that processes jobs of this type. */
const queueOfType = {
  unlock_contacts: 'unlock',
  unlock_selected_contacts: 'unlock',
  verify_email: 'verify',
  verify_list: 'verify',
} as const satisfies Record<JobType, JobKind>;

/** The name of a queue that processes rows of the table `jobs`, which contains the jobs that customers have started. */
export type TurnQueue = (typeof queueOfType)[JobType];

export const queueOf = (type: JobType): TurnQueue => queueOfType[type];

/** For each queue, the types of jobs that the queue processes. */
export const turnQueues = Object.groupBy(jobTypes, queueOf) as Record<TurnQueue, JobType[]>;

/** For each job queue, the cron schedule (UTC) on which pg-boss adds a job to the queue. Null means no schedule. */
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
    for (const [kind, options] of Object.entries({ ...queues, ...queueOfSchedules })) {
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

/** With this setting, Citus does not copy tables which are created over the connection to the workers. */
const withoutPropagation = { 'citus.enable_ddl_propagation': 'off' };

const grantService = (sql: postgres.Sql) =>
  sql.unsafe(`
    grant usage on schema ${queueSchema} to sales_data_api;
    grant select, insert, update, delete on all tables in schema ${queueSchema} to sales_data_api;
    grant usage on all sequences in schema ${queueSchema} to sales_data_api;
    grant execute on all functions in schema ${queueSchema} to sales_data_api`);
