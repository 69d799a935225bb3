import { createHash } from 'node:crypto';
import type { Prospect } from '../../schemas/prospects.ts';
import { fold } from '../../text/fold.ts';
import { formerProfileKey, profileKey } from '../../text/profiles.ts';

/*
 * Keys by which people of the catalog are found who are the same as somebody else: by the URL of the profile, and by each
 * e-mail address. Both engines store them: catalogs contain keys of earlier releases until `catalog reindex`.
 */

/** Returns the key of a profile URL, or undefined if it identifies nobody. */
export function keyOfProfile(url: string): string | undefined {
  const profile = profileKey(url);
  return profile && key('u', profile);
}

/** Returns the keys under which the catalog can contain a profile: the key of today, and the one of earlier releases. */
export function storedKeysOfProfile(url: string): string[] {
  const known = keyOfProfile(url);
  return known === undefined ? [] : [...new Set([known, key('u', formerProfileKey(url)) ?? known])];
}

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
