import { isEmailAddress } from '../schemas/base/formats.ts';
import type { Prospect } from '../schemas/prospects.ts';

const dot = '•';

/** Hides e-mail addresses, phone number and where they come from, for a customer who has not unlocked the prospect. */
export const mask = ({ source: _source, collected_at: _at, ...prospect }: Prospect): Prospect => ({
  ...prospect,
  work_email: maskEmail(prospect.work_email),
  emails: prospect.emails.map(maskEmail),
  mobile_phone: prospect.mobile_phone === null ? null : maskPhone(prospect.mobile_phone),
});

/**
 * Returns `a•••@example.com`, which hides the length, or `•••` for a text that is no address: it may contain anything,
 * such as a phone number after an @.
 */
function maskEmail(email: string): string {
  if (email === '') return '';
  const hidden = dot.repeat(3);
  return isEmailAddress(email) ? `${email[0]}${hidden}${email.slice(email.lastIndexOf('@'))}` : hidden;
}

/** Replaces all but the last two digits by dots. A number with at most two is masked completely. */
function maskPhone(phone: string): string {
  const characters = Array.from(phone);
  let left = phone.match(digits)?.length ?? 0;
  const shown = left > 2 ? 2 : 0;
  return characters.map((character) => (digit.test(character) && (left -= 1) < shown ? character : dot)).join('');
}

const digit = /\p{Nd}/u;
const digits = /\p{Nd}/gu;
