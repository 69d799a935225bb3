import { Option, type Command } from 'commander';
import { countUndo, startUndo } from '../jobs/undo.ts';
import { listChanges } from '../queries/history/history.ts';
import { type Change, eventNouns, type EventNoun, type UndoEstimate } from '../schemas/events.ts';
import type { JobStarted } from '../schemas/jobs.ts';
import { withCustomer } from './database.ts';
import { asInteger, asUuid, commandAction, table, verb } from './command.ts';

export function define(command: Command): void {
  verb(command, 'list', "list what has happened with a customer's records, newest first", 'customer')
    .addOption(new Option('--object <object>', 'only records of this kind').choices(eventNouns))
    .option('--record <id>', 'only this record', asUuid)
    .option('--change <id>', 'only what this call, job or import has changed', asUuid)
    .option('--limit <number>', 'maximum number of changes', asInteger(1, 1_000), 100)
    .action(commandAction(list, print));

  verb(command, 'undo', 'start a job that takes back what one call, job or import has changed', 'customer')
    .requiredOption('--change <id>', 'the call, job or import', asUuid)
    .option('--dry-run', 'only count what would be taken back')
    .action(commandAction(undo, describe));
}

interface ListOptions {
  customer: string;
  object?: EventNoun;
  record?: string;
  change?: string;
  limit: number;
}

const list = ({ customer, object, record, change, limit }: ListOptions): Promise<Change[]> =>
  withCustomer(customer, async ({ db }) => {
    const filters = {
      ...(object && { object }),
      ...(record && { record_id: record }),
      ...(change && { change_id: change }),
    };
    const found: Change[] = [];
    let before: number | undefined;
    do {
      const page = await listChanges(db, customer, eventNouns, { filters, before, limit: limit - found.length });
      found.push(...page.changes);
      before = page.next;
    } while (before !== undefined && found.length < limit);
    return found;
  });

const undo = ({ customer, change, dryRun }: { customer: string; change: string; dryRun?: true }) =>
  withCustomer<JobStarted | UndoEstimate>(customer, async ({ db }) => {
    const by = { customerId: customer, apiKeyId: null };
    return dryRun ? countUndo(db, by, change) : db.transaction((sql) => startUndo(sql, by, change));
  });

const describe = (answer: JobStarted | UndoEstimate): string =>
  'status' in answer
    ? `Started the job ${answer.id}`
    : `${answer.records} records: ${answer.restored} would be restored, of ${answer.kept} something would be kept, ` +
      `${answer.conflicts} have an external id that is taken`;

const print = (changes: Change[]): string =>
  table(changes, {
    WHEN: 'occurred_at',
    RECORD: ({ object, record_id }) => `${object} ${record_id}`,
    WHAT: 'type',
    FIELDS: ({ fields }) => Object.keys(fields).join(', '),
    BY: ({ actor, source }) => `${actor?.name ?? actor?.id ?? actor?.type ?? '-'} (${source})`,
    CHANGE: 'change_id',
  });
