import type { Command } from 'commander';
import { listEvents } from '../queries/accounts/customers.ts';
import type { AuditEvent } from '../schemas/accounts.ts';
import { commandAction, asInteger, table, verb } from './command.ts';
import { forCustomer } from './database.ts';

export function define(command: Command): void {
  verb(command, 'list', "show the events of a customer's keys and users, newest first", 'customer')
    .option('--limit <count>', 'maximum number of events', asInteger(1, 10_000), 100)
    .action(commandAction(list, print));
}

const list = ({ customer, limit }: { customer: string; limit: number }): Promise<AuditEvent[]> =>
  forCustomer(customer, (sql, id) => listEvents(sql, id, limit));

const print = (events: AuditEvent[]): string =>
  table(events, {
    TIME: 'created_at',
    EVENT: 'event',
    ACTOR: 'actor',
    ADDRESS: 'address',
    SUBJECT: ({ api_key_id, user_id }) => api_key_id ?? user_id,
    DETAILS: ({ details }) => Array.from(Object.entries(details), (detail) => detail.join('=')).join(' '),
  });
