import type { TurnKind } from '../database/queues.ts';
import { findCountingCustomers } from '../queries/crm/duplicate-counts.ts';
import { findWaitingCustomers } from '../queries/jobs/leases.ts';
import type { FindCustomers } from '../queries/records/finders.ts';
import { findCustomersToCount } from '../queries/crm/list-counts.ts';
import { countDuplicates } from './count-duplicates.ts';
import { countLists } from './count-lists.ts';
import type { Handler } from './handler.ts';
import { importRecords } from './imports/import-records.ts';
import { jobBatches } from './job-batches.ts';
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
  'count-lists': { handle: countLists, atOnce: 1, findCustomers: findCustomersToCount },
  'count-duplicates': { handle: countDuplicates, atOnce: 1, findCustomers: findCountingCustomers },
};
