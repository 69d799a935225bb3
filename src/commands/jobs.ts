import { Option, type Command } from 'commander';
import type { Transaction } from '../database/db.ts';
import { retryJob } from '../jobs/job-types.ts';
import { cancelJob } from '../jobs/start-job.ts';
import { requireJobView, listLatestJobs, type OwnedJob } from '../queries/jobs/jobs.ts';
import { jobStatuses, allJobs, type JobStatus } from '../schemas/jobs.ts';
import { commandAction, asInteger, asUuid, table, verb } from './command.ts';
import { forOwner, withDatabase } from './database.ts';

export function define(command: Command): void {
  verb(command, 'list', 'list the jobs that spend credits, newest first')
    .option('--customer <id>', 'only jobs of this customer', asUuid)
    .addOption(new Option('--status <status>', 'only jobs with this status').choices(jobStatuses))
    .option('--limit <number>', 'maximum number of jobs', asInteger(1, 10_000), 100)
    .action(commandAction(list, print));

  verb(command, 'cancel', 'cancel a job and release its unspent credits', 'job').action(commandAction(cancel, print));

  verb(
    command,
    'retry',
    'start a new job for the open items of a failed or cancelled job; enqueue a turn for a waiting job',
    'job',
  ).action(commandAction(retry, print));
}

const list = (options: { customer?: string; status?: JobStatus; limit: number }): Promise<OwnedJob[]> =>
  withDatabase((db) => db.search((sql) => listLatestJobs(sql, options)));

/**
 * Returns the action of a subcommand that changes the job named by `--job` and prints a job.
 * @param change returns the id of the job to print: the changed job, or the new one after a retry
 */
const act =
  (change: (sql: Transaction, customerId: string, id: string) => Promise<string>) =>
  ({ job }: { job: string }): Promise<OwnedJob> =>
    forOwner('jobs', job, async (sql, customer_id) => {
      const id = await change(sql, customer_id, job);
      return { customer_id, ...(await requireJobView(sql, customer_id, id, allJobs)) };
    });

const cancel = act(async (sql, customerId, id) => {
  await cancelJob(sql, customerId, id, allJobs);
  return id;
});

const retry = act(async (sql, customerId, id) => (await retryJob(sql, customerId, id)).id);

const print = (jobs: OwnedJob | OwnedJob[]): string =>
  table(jobs, {
    ID: 'id',
    CUSTOMER: 'customer_id',
    TYPE: 'type',
    STATUS: 'status',
    DONE: (job) => `${job.processed}/${job.total}`,
    CHARGED: (job) => `${job.credits.charged}/${job.credits.reserved} ${job.credits.pool ?? ''}`.trim(),
    CREATED: 'created_at',
  });
