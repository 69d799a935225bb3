import { Option, type Command } from 'commander';
import type { Transaction } from '../db.ts';
import { cancelJob } from '../jobs/cancel.ts';
import { retryJob } from '../jobs/retry.ts';
import { demandJob, latestJobs, ownerOf, type OwnedJob } from '../queries/service-jobs.ts';
import { jobStatuses, jobTypes, type JobStatus } from '../schemas/jobs.ts';
import { answer, asInteger, asUuid } from './command.ts';
import { withDatabase } from './database.ts';
import { table } from './table.ts';

/** `jobs list|cancel|retry` */
export function define(command: Command): void {
  command
    .command('list')
    .description('list the jobs that spend credits, newest first')
    .option('--customer <id>', 'of one customer', asUuid)
    .addOption(new Option('--status <status>', 'in one state').choices(jobStatuses))
    .option('--limit <number>', 'at most so many', asInteger(1, 10_000), 100)
    .action(answer(list, print));

  command
    .command('cancel')
    .description('cancel a job; what it has not spent is given back')
    .requiredOption('--job <id>', 'the job', asUuid)
    .action(answer(cancel, (job) => print([job])));

  command
    .command('retry')
    .description('do the rest of a failed or cancelled job as a new one; wake a worker for one that waits')
    .requiredOption('--job <id>', 'the job', asUuid)
    .action(answer(retry, (job) => print([job])));
}

const list = (options: { customer?: string; status?: JobStatus; limit: number }): Promise<OwnedJob[]> =>
  withDatabase((db) =>
    db.search((sql) => latestJobs(sql, { customer: options.customer, status: options.status, limit: options.limit })),
  );

/** Does something to a job of whomever it is, and shows the job that is answered. */
const act =
  (change: (sql: Transaction, customerId: string, id: string) => Promise<string>) =>
  ({ job }: { job: string }): Promise<OwnedJob> =>
    withDatabase((db) =>
      db.transaction(async (sql) => {
        const customer_id = await ownerOf(sql, job);
        const id = await change(sql, customer_id, job);
        return { customer_id, ...(await demandJob(sql, customer_id, id, jobTypes)) };
      }),
    );

const cancel = act(async (sql, customerId, id) => {
  await cancelJob(sql, customerId, id, jobTypes);
  return id;
});

const retry = act(async (sql, customerId, id) => (await retryJob(sql, customerId, id)).id);

const print = (jobs: OwnedJob[]): string =>
  table(jobs, {
    ID: (job) => job.id,
    CUSTOMER: (job) => job.customer_id,
    TYPE: (job) => job.type,
    STATUS: (job) => job.status,
    DONE: (job) => `${job.processed}/${job.total}`,
    CHARGED: (job) => `${job.credits.charged}/${job.credits.reserved} ${job.credits.pool}`,
    CREATED: (job) => job.created_at,
  });
