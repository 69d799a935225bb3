import { PgBoss } from 'pg-boss';
import type postgres from 'postgres';
import { jobTypes, type JobType } from '../schemas/jobs.ts';
import { hasCitus } from './citus.ts';

/** Name of the database schema that contains the tables of the job queue (pg-boss). */
export const queueSchema = 'pgboss';

/**
 * Options of queues whose jobs are retried until they succeed, with growing delays. A worker must send heartbeats; if
 * they stop, its job is retried.
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
// no use, so both expire soon.
/**
 * Options of queues with at most one waiting message per customer (policy `short`). A message means that the customer
 * has jobs to process.
 */
const turns = { ...persistent, policy: 'short', notify: true, expireInSeconds: 900, deleteAfterSeconds: 60 } as const;

/**
 * The options of each job queue, by its name. With `notify: true`, idle workers learn of a new job at once; otherwise
 * they only poll.
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

/** For each job queue, the cron schedule (UTC) on which pg-boss adds a job, or null if only the service adds jobs. */
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
 * Creates or updates the job queues in the database: the tables of pg-boss, the queues and their schedules. It may be
 * called again at any time.
 * @param ownerUrl logs in as the owner of the database, because the service itself may not create tables
 */
export async function installQueues(sql: postgres.Sql, ownerUrl: string): Promise<void> {
  const boss = new PgBoss({
    connectionString: (await hasCitus(sql)) ? withoutPropagation(ownerUrl) : ownerUrl,
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

/** Returns the URL for connections whose tables, types and functions Citus does not copy to the workers. */
function withoutPropagation(url: string): string {
  const changed = new URL(url);
  changed.searchParams.set('options', '-c citus.enable_ddl_propagation=off');
  return changed.href;
}

const grantService = (sql: postgres.Sql) =>
  sql.unsafe(`
    grant usage on schema ${queueSchema} to sales_data_api;
    grant select, insert, update, delete on all tables in schema ${queueSchema} to sales_data_api;
    grant usage on all sequences in schema ${queueSchema} to sales_data_api;
    grant execute on all functions in schema ${queueSchema} to sales_data_api`);
