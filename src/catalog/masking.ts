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

/** Masks an e-mail address as `a•••@example.com`. Keeps the first character and the domain, and hides the length. */
function maskEmail(email: string): string {
  if (email === '') return '';
  const at = email.lastIndexOf('@');
  return `${Array.from(email)[0]}${dot.repeat(3)}${at < 1 ? '' : email.slice(at)}`;
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
