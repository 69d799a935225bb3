import type { TurnKind } from '../database/queues.ts';
import { findCountingCustomers } from '../queries/crm/duplicate-counts.ts';
import { findSettlingCustomers } from '../queries/memberships/company-settlements.ts';
import { findWaitingCustomers } from '../queries/jobs/leases.ts';
import type { FindCustomers } from '../queries/records/finders.ts';
import { findFillingCustomers } from '../queries/memberships/list-fills.ts';
import { countDuplicates } from './count-duplicates.ts';
import { fillLists } from './fill-lists.ts';
import type { Handler } from './handler.ts';
import { importRecords } from './imports/import-records.ts';
import { jobBatches } from './job-batches.ts';
import { settleCompanies } from './settle-companies.ts';
import { takeTurn } from './turns.ts';
import { findDueCustomers } from '../queries/webhooks/due.ts';
import { deliverWebhooks } from './webhooks/deliver-webhooks.ts';

interface TurnQueue<K extends TurnKind> {
  handle: Handler<K>;
  atOnce: number;
  findCustomers: FindCustomers;
}

/** How each queue of turns is handled, and how lost messages are found again. */
export const turnQueues: { [K in TurnKind]: TurnQueue<K> } = {
  unlock: { handle: takeTurn('unlock', jobBatches), atOnce: 4, findCustomers: findWaitingCustomers('unlock') },
  verify: { handle: takeTurn('verify', jobBatches), atOnce: 4, findCustomers: findWaitingCustomers('verify') },
  import: { handle: importRecords(), atOnce: 2, findCustomers: findWaitingCustomers('import') },
  webhooks: { handle: deliverWebhooks, atOnce: 4, findCustomers: findDueCustomers },
  'settle-companies': { handle: settleCompanies(), atOnce: 2, findCustomers: findSettlingCustomers },
  'fill-lists': { handle: fillLists(), atOnce: 4, findCustomers: findFillingCustomers },
  'count-duplicates': { handle: countDuplicates, atOnce: 1, findCustomers: findCountingCustomers },
};
