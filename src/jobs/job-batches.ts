import type { JobQueue } from '../database/queues.ts';
import { enrichContacts } from './enrichment/enrich-contacts.ts';
import type { RunBatches } from './turns.ts';
import { undoChange } from './undo/undo-change.ts';
import { unlockContacts } from './unlocks/unlock-contacts.ts';
import { unlockSelectedContacts } from './unlocks/unlock-selected-contacts.ts';
import { verifyEmails } from './verification/verify-emails.ts';

export const jobBatches: RunBatches<JobQueue> = {
  unlock_contacts: unlockContacts,
  unlock_selected_contacts: unlockSelectedContacts,
  verify_email: verifyEmails,
  verify_list: verifyEmails,
  enrich_contacts: enrichContacts,
  undo: undoChange,
};
