import { exportOpportunities } from '../queries/crm/opportunities.ts';
import { exportProducts } from '../queries/crm/products.ts';
import { opportunityFileFields, productFileFields } from '../schemas/files.ts';
import type { CommandModule } from './command.ts';
import { defineExport } from './export.ts';
import { defineImport } from './import.ts';

export const products: CommandModule = {
  define: (command) => {
    defineImport(command, 'products');
    defineExport(command, {
      noun: 'products',
      fields: productFileFields,
      open: (db, customerId) => exportProducts(db, customerId, {}),
    });
  },
};

export const opportunities: CommandModule = {
  define: (command) => {
    defineImport(command, 'opportunities');
    defineExport(command, {
      noun: 'opportunities',
      fields: opportunityFileFields,
      open: (db, customerId) => exportOpportunities(db, customerId, {}),
    });
  },
};
