import type { JobQueue, TurnKind } from '../database/queues.ts';
import { countNextDuplicates, findCountingCustomers } from '../queries/crm/duplicate-counts.ts';
import { findCustomersWithRuns } from '../queries/jobs/runs.ts';
import type { FindCustomers } from '../queries/records/finders.ts';
import { countNextList, findCustomersToCount } from '../queries/crm/list-counts.ts';
import { runBatches } from './batches.ts';
import { enrichContacts } from './enrichment/enrich-contacts.ts';
import type { Handler } from './handler.ts';
import { importRecords } from './imports/import-records.ts';
import { takeTurn, type RunBatches } from './turns.ts';
import { undoChange } from './undo/undo-change.ts';
import { unlockContacts } from './unlocks/unlock-contacts.ts';
import { unlockSelectedContacts } from './unlocks/unlock-selected-contacts.ts';
import { verifyEmails } from './verification/verify-emails.ts';

/** How one batch of each type of job is done. */
export const jobBatches: RunBatches<JobQueue> = {
  unlock_contacts: unlockContacts,
  unlock_selected_contacts: unlockSelectedContacts,
  verify_email: verifyEmails,
  verify_list: verifyEmails,
  enrich_contacts: enrichContacts,
  undo: undoChange,
};

interface TurnQueue<K extends TurnKind> {
  handle: Handler<K>;
  atOnce: number;
  findCustomers: FindCustomers;
}

/** How each queue of turns is handled, and how lost messages are found again. */
export const turnQueues: { [K in TurnKind]: TurnQueue<K> } = {
  unlock: { handle: takeTurn('unlock', jobBatches), atOnce: 4, findCustomers: findCustomersWithRuns('unlock') },
  verify: { handle: takeTurn('verify', jobBatches), atOnce: 4, findCustomers: findCustomersWithRuns('verify') },
  import: { handle: importRecords(), atOnce: 2, findCustomers: findCustomersWithRuns('import') },
  'count-lists': { handle: runBatches('count-lists', countNextList), atOnce: 1, findCustomers: findCustomersToCount },
  'count-duplicates': {
    handle: runBatches('count-duplicates', countNextDuplicates),
    atOnce: 1,
    findCustomers: findCountingCustomers,
  },
};
