import { PgBoss } from 'pg-boss';
import type postgres from 'postgres';
import { jobTypes, type JobType } from './schemas/jobs.ts';

/** The schema that holds the queue's tables. */
export const queueSchema = 'pgboss';

/** How jobs are tried: until they succeed, at growing distances; that a worker died is seen by its missing heartbeat. */
const persistent = {
  retryLimit: 10_000,
  retryDelay: 1,
  retryBackoff: true,
  retryDelayMax: 60,
  expireInSeconds: 6 * 3600,
  heartbeatSeconds: 10,
};

/**
 * Turns of customers: at most one message of a customer waits (policy `short`), so that customers are served in turn. What
 * a message leads to is short; messages that were dealt with are of no use.
 */
const turns = { ...persistent, policy: 'short', notify: true, expireInSeconds: 900, deleteAfterSeconds: 60 } as const;

/** The queues, one for each kind of job. `notify`: workers are woken by a new job; else they look for one now and then. */
export const queues = {
  unlock: turns,
  verify: turns,
  'settle-companies': turns,
  // Its name was `fill-list` when it was no queue of turns. A queue keeps the policy that it was created with.
  'fill-lists': turns,
  'sweep-jobs': { ...persistent, policy: 'short', retryLimit: 3, notify: false },
  'remove-idempotency-records': { ...persistent, retryLimit: 3, notify: false },
} as const;

export type JobKind = keyof typeof queues;

/** The queue that holds the turns for jobs of each type. */
const queueOfType = {
  unlock_contacts: 'unlock',
  unlock_selected_contacts: 'unlock',
  verify_email: 'verify',
  verify_list: 'verify',
} as const satisfies Record<JobType, JobKind>;

/** A queue of turns at jobs. */
export type TurnQueue = (typeof queueOfType)[JobType];

/** Returns the queue that holds the turns for jobs of this type. */
export const queueOf = (type: JobType): TurnQueue => queueOfType[type];

/** The job types of each queue of turns. */
export const turnQueues = Object.groupBy(jobTypes, queueOf) as Record<TurnQueue, JobType[]>;

/** When the queue itself creates a job of a kind (cron, in UTC); null for kinds that only the service enqueues. */
const schedules: Record<JobKind, string | null> = {
  'fill-lists': null,
  unlock: null,
  verify: null,
  'settle-companies': null,
  'sweep-jobs': '* * * * *',
  'remove-idempotency-records': '17 * * * *',
};

/**
 * Brings the queue's own tables to the version that this program's library needs, and the queues and schedules to what
 * they are here. The owner's work, like migrations, so that the service itself needs no right to make tables. May be
 * repeated.
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
      // A queue keeps the policy that it was made with.
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
