import type { Database } from '../../database/db.ts';
import type { EventNoun } from '../../schemas/events/types.ts';
import { findActivities } from '../activities/activities.ts';
import { findCompanies } from '../crm/companies.ts';
import { findContacts } from '../crm/contacts.ts';
import { findLists } from '../crm/lists.ts';
import { findOpportunities } from '../sales/opportunities.ts';
import { findProducts } from '../sales/products.ts';

type Find = (db: Database, customerId: string, ids: string[]) => Promise<{ id: string }[]>;

const finders: Record<EventNoun, Find> = {
  contact: (db, customerId, ids) => db.lookup((sql) => findContacts(sql, customerId, ids)),
  company: (db, customerId, ids) => db.lookup((sql) => findCompanies(sql, customerId, ids)),
  list: findLists,
  product: (db, customerId, ids) => db.lookup((sql) => findProducts(sql, customerId, ids)),
  opportunity: (db, customerId, ids) => db.lookup((sql) => findOpportunities(sql, customerId, ids)),
  activity: (db, customerId, ids) => db.lookup((sql) => findActivities(sql, customerId, ids)),
};

/** Returns records as their GET shows them, in any order, without unknown ids. */
export const findRecords = (
  db: Database,
  customerId: string,
  noun: EventNoun,
  ids: string[],
): Promise<{ id: string }[]> => finders[noun](db, customerId, ids);
