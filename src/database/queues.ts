import type { Queue } from 'pg-boss';
import type postgres from 'postgres';
import { jobTable, jobTypes, type JobQueue, type JobType } from '../schemas/jobs.ts';
import { hasCitus } from './citus.ts';
import { withSessionSettings } from './connection.ts';

export const queueSchema = 'pgboss';

const heartbeatSeconds = 5;

/**
 * Options of all queues. A message is retried with growing delays until it succeeds, also if its worker stops sending
 * heartbeats. Finished messages are soon deleted.
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

/**
 * Options of the queues whose messages are turns: each is a short piece of work for one customer. The policy `short`
 * skips a message if one with the same key is waiting.
 */
const turns = {
  ...persistent,
  policy: 'short',
  notify: true,
  retryDelayMax: 15,
  expireInSeconds: 900,
} as const;

const maintenance = { ...persistent, retryLimit: 3, notify: false } as const;

/**
 * Options of each queue of pg-boss. With `notify: true`, an idle worker starts a new message at once; otherwise it
 * polls. With `cron` (UTC), pg-boss adds the messages.
 */
export const queues = {
  unlock: turns,
  verify: turns,
  'count-lists': turns,
  import: turns,
  'count-duplicates': turns,
  'sweep-jobs': { ...maintenance, policy: 'short', cron: '* * * * *' },
  'remove-idempotency-records': { ...maintenance, cron: '17 * * * *' },
} as const;

export type JobKind = keyof typeof queues;

export type TurnKind = { [K in JobKind]: (typeof queues)[K] extends typeof turns ? K : never }[JobKind];

export const turnKinds = (Object.keys(queues) as JobKind[]).filter((kind): kind is TurnKind => queues[kind] === turns);

/**
 * Options of the queue in which pg-boss itself stores one message for each due schedule. By default it keeps them for a
 * week.
 */
const queueOfSchedules = { '__pgboss__send-it': { deleteAfterSeconds: persistent.deleteAfterSeconds } };

export type RunType = JobType | 'import';

export type RunQueue = JobQueue | 'import';

export const queueOf = (type: RunType): RunQueue => (type === 'import' ? type : jobTable[type].queue);

export const isRunQueue = (queue: TurnKind): queue is RunQueue => queue in typesOf;

export const typesOf = Object.groupBy<RunQueue, RunType>([...jobTypes, 'import'], queueOf) as Record<
  RunQueue,
  RunType[]
>;

export async function installQueues(sql: postgres.Sql, ownerUrl: string): Promise<void> {
  const { PgBoss } = await import('pg-boss');
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
    const old = (await boss.getQueues()).filter(({ name }) => !(name in all));
    for (const { name } of old) await boss.deleteQueue(name);
  } finally {
    await boss.stop({ graceful: false });
  }
  if (errors.length > 0) throw errors[0];
  await sql.unsafe(addTurns);
  await grantService(sql);
}

type Options = Omit<Queue, 'name'> & { cron?: string };

const withoutPropagation = { 'citus.enable_ddl_propagation': 'off' };

/**
 * SQL that adds an index for the messages of a customer, because a queue can have tens of thousands. It also adds the
 * customer to messages of earlier releases.
 */
const addTurns = `
  create index if not exists job_turns on ${queueSchema}.job_common (name, group_id) where state < 'completed';
  update ${queueSchema}.job
  set group_id = data ->> 'customerId'
  where state < 'active' and group_id is null and data ? 'customerId'`;

const grantService = (sql: postgres.Sql) =>
  sql.unsafe(`
    grant usage on schema ${queueSchema} to sales_data_api;
    grant select, insert, update, delete on all tables in schema ${queueSchema} to sales_data_api;
    grant usage on all sequences in schema ${queueSchema} to sales_data_api;
    grant execute on all functions in schema ${queueSchema} to sales_data_api`);
