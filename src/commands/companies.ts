import type { Command } from 'commander';
import { exportCompanies } from '../queries/crm/companies.ts';
import { companyFileFields } from '../schemas/files.ts';
import { defineCleaning, defineExport } from './export.ts';
import { defineImport } from './import.ts';

export function define(command: Command): void {
  defineImport(command, 'companies');
  defineExport(command, {
    noun: 'companies',
    fields: companyFileFields,
    open: (db, customerId) => exportCompanies(db, customerId, {}),
  });
  defineCleaning(command, 'companies');
}
