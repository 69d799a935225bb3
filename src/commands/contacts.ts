import type { Command } from 'commander';
import { exportContacts } from '../queries/crm/contacts.ts';
import { contactFileFields } from '../schemas/files.ts';
import { defineCleaning, defineEnrichment, defineExport } from './export.ts';
import { defineImport } from './import.ts';

export function define(command: Command): void {
  defineImport(command, 'contacts');
  defineExport(command, {
    noun: 'contacts',
    fields: contactFileFields,
    open: (db, customerId) => exportContacts(db, customerId, {}),
  });
  defineCleaning(command, 'contacts');
  defineEnrichment(command);
}
