import type { Slices } from './turns.ts';
import { unlockContacts } from './unlock-contacts.ts';
import { unlockSelectedContacts } from './unlock-selected-contacts.ts';

/** Who does a slice of which jobs. */
export const slices: Slices = {
  unlock_contacts: unlockContacts,
  unlock_selected_contacts: unlockSelectedContacts,
};
