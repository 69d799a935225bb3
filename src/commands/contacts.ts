import type { Command } from 'commander';
import { countContacts, exportContacts } from '../queries/contacts.ts';
import { contactFileFields } from '../schemas/files.ts';
import { defineExport } from './export.ts';

/** Defines the command `contacts` with the verb `export`. */
export function define(command: Command): void {
  defineExport(command, {
    noun: 'contacts',
    fields: contactFileFields,
    read: (db, customerId) => exportContacts(db, customerId, {}),
    count: (db, customerId) => countContacts(db, customerId, {}),
  });
}
