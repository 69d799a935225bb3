import { createHash } from 'node:crypto';
import type { Prospect } from '../../schemas/prospects.ts';
import { fold } from '../../text/fold.ts';
import { profileKey } from '../../text/normalise.ts';

/*
 * Keys by which people of the catalog are found who are the same as somebody else: by the URL of the profile, and by each
 * e-mail address. Both engines store them. Do not change how a key is computed: stored catalogs contain them.
 */

/** Returns the key of a profile URL, or undefined if it identifies nobody. */
export const keyOfProfile = (url: string): string | undefined => key('u', profileKey(url));

/** Returns the key of an e-mail address, or undefined if the text is no address. */
export const keyOfEmail = (email: string): string | undefined =>
  email.includes('@') ? key('e', fold(email)) : undefined;

/** Longest text in a key (UTF-16 units). Longer ones do not fit into an index. */
const maxLength = 400;

function key(kind: 'u' | 'e', text: string): string | undefined {
  if (!/[\p{L}\p{N}]/u.test(text)) return undefined;
  return text.length <= maxLength ? `${kind}:${text}` : `${kind}#${createHash('sha256').update(text).digest('hex')}`;
}

/** The key of people who have no other, by which they differ from people who were stored without keys. */
const noKey = '-';

/** Returns all keys of a person, each once; never empty. */
export function keysOf({
  profnet_url,
  work_email,
  emails,
}: Pick<Prospect, 'profnet_url' | 'work_email' | 'emails'>): string[] {
  const keys = [
    profnet_url === null ? undefined : keyOfProfile(profnet_url),
    ...[work_email, ...emails].map(keyOfEmail),
  ];
  const distinct = [...new Set(keys.filter((one) => one !== undefined))];
  return distinct.length > 0 ? distinct : [noKey];
}
