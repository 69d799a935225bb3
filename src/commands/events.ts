import { setTimeout as sleep } from 'node:timers/promises';
import type { Command } from 'commander';
import { openCursors, findEnd, readEvents } from '../queries/records/feed.ts';
import type { FeedCursors, FeedEvent } from '../queries/records/feed.ts';
import { eventTypes, type EventType } from '../schemas/events.ts';
import { withCustomer } from './database.ts';
import { asSome, ignoreQuit, UsageError, verb } from './command.ts';

export function define(command: Command): void {
  verb(
    command,
    'tail',
    "print the changes of a customer's data as they happen, one line for each, until it is interrupted",
    'customer',
  )
    .option('--types <list>', `types of changes, comma-separated: ${eventTypes.join(', ')}`, asSome('type', eventTypes))
    .option('--cursor <cursor>', 'continue after the change with this cursor; default: with the next change')
    .action(tail);
}

interface TailOptions {
  customer: string;
  types?: EventType[];
  cursor?: string;
  json?: boolean;
}

const pauseMs = 500;

const tail = ({ customer, types, cursor, json }: TailOptions): Promise<void> =>
  withCustomer(customer, async ({ db }, { id }) => {
    const cursors = await openCursors(db);
    let after = cursor === undefined ? await findEnd(db, id) : cursors.decode(id, cursor);
    if (!after) throw new UsageError('the cursor is not one of this customer');
    for (;;) {
      const { events, next, isMore } = await readEvents(db, id, { after, types, limit: 1_000 });
      // A change after one that could not be written would look as if none were missing.
      for (const event of events) await writeLine(json ? asJson(cursors, id, event) : asLine(event));
      after = next;
      if (!isMore) await sleep(pauseMs);
    }
  }).catch(ignoreQuit);

const writeLine = (text: string): Promise<void> =>
  new Promise((resolve, reject) => {
    process.stdout.write(`${text}\n`, (error) => (error ? reject(error) : resolve()));
  });

const asJson = (cursors: FeedCursors, customerId: string, { position, ...event }: FeedEvent): string =>
  JSON.stringify({ ...event, cursor: cursors.encode(customerId, { position, id: event.id }) });

function asLine({ occurred_at, type, data }: FeedEvent): string {
  const { id, source, changed, actor, change_id: _change, ...more } = data;
  const rest = Object.entries(more).filter(([, value]) => value !== null);
  const details = [
    ...(id === undefined ? [] : [id]),
    ...(changed ? [`changed: ${changed.join(', ')}`] : []),
    ...rest.map(([name, value]) => `${name}=${String(value)}`),
    ...(actor ? [`by=${actor.name ?? actor.type}`] : []),
  ];
  return [occurred_at, type.padEnd(20), source.padEnd(7), ...details].join('  ');
}
