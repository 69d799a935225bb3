import type { Prospect } from '../schemas/prospects.ts';

const dot = '•';

/** The prospect as a customer sees it who has not unlocked it. */
export const mask = (prospect: Prospect): Prospect => ({
  ...prospect,
  work_email: maskEmail(prospect.work_email),
  emails: prospect.emails.map(maskEmail),
  mobile_phone: prospect.mobile_phone === null ? null : maskPhone(prospect.mobile_phone),
});

/** `a•••@example.com`: the first character and the domain stay, the length does not show. */
function maskEmail(email: string): string {
  if (email === '') return '';
  const at = email.lastIndexOf('@');
  return `${Array.from(email)[0]}${dot.repeat(3)}${at < 1 ? '' : email.slice(at)}`;
}

/** Only the last two digits stay what they are. */
function maskPhone(phone: string): string {
  const characters = Array.from(phone);
  let left = phone.match(digits)?.length ?? 0;
  const shown = left > 2 ? 2 : 0;
  return characters.map((character) => (digit.test(character) && (left -= 1) < shown ? character : dot)).join('');
}

const digit = /\p{Nd}/u;
const digits = /\p{Nd}/gu;
