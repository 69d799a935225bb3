import type { Slices } from './turns.ts';
import { unlockSelectedContacts } from './unlock-selected-contacts.ts';

/** Who does a slice of which jobs. */
export const slices: Slices = {
  unlock_selected_contacts: unlockSelectedContacts,
};
