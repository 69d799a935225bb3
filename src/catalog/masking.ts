import { isEmailAddress } from '../schemas/base/formats.ts';
import type { Prospect } from '../schemas/prospects.ts';

const dot = '•';

/**
 * Returns a copy of a prospect with masked e-mail addresses and phone number. Such a copy is sent to a customer who has
 * not unlocked (paid to see) the prospect.
 */
export const mask = (prospect: Prospect): Prospect => ({
  ...prospect,
  work_email: maskEmail(prospect.work_email),
  emails: prospect.emails.map(maskEmail),
  mobile_phone: prospect.mobile_phone === null ? null : maskPhone(prospect.mobile_phone),
});

// A text that is no address may contain anything, such as a phone number after an @. So it is hidden as a whole.
/**
 * Masks an e-mail address as `a•••@example.com`: keeps the first character and the domain, and hides the length. Returns
 * `•••` for a text that is no valid address.
 */
function maskEmail(email: string): string {
  if (email === '') return '';
  const hidden = dot.repeat(3);
  return isEmailAddress(email) ? `${email[0]}${hidden}${email.slice(email.lastIndexOf('@'))}` : hidden;
}

/**
 * Masks a phone number: replaces every character by a dot, except the last two digits. A number with at most two digits
 * is masked completely.
 */
function maskPhone(phone: string): string {
  const characters = Array.from(phone);
  let left = phone.match(digits)?.length ?? 0;
  const shown = left > 2 ? 2 : 0;
  return characters.map((character) => (digit.test(character) && (left -= 1) < shown ? character : dot)).join('');
}

const digit = /\p{Nd}/u;
const digits = /\p{Nd}/gu;
