/** Fewest digits of a number that searches look for in phone numbers. */
const fewest = 5;

const digitsIn = (text: string): string => text.replace('(0)', '').replaceAll(/\D/g, '');

export interface PhoneNumber {
  country_code: string;
  number: string;
}

/**
 * Returns the digits of a contact's phone numbers, divided by blanks. A number with a country code that begins with 0 also
 * stands without it: people write `+49 030 …` and mean `+49 30 …`.
 */
export function phoneDigits(numbers: readonly PhoneNumber[], mobile: string | null): string {
  const all = numbers.flatMap(({ country_code, number }) => {
    const [code, digits] = [digitsIn(country_code), digitsIn(number)];
    return code !== '' && digits.startsWith('0') ? [code + digits, code + digits.slice(1)] : [code + digits];
  });
  return [...all, digitsIn(mobile ?? '')].filter((one) => one.length >= fewest).join(' ');
}

/** A part of a phone number as people write it. */
const numberPart = /^[\d+/()[\].-]+$/;

/**
 * Divides the text of a search into numbers of at least five digits, which phone numbers can contain, and the rest. Parts
 * of numbers that follow each other are one number.
 * @returns the numbers as they were written, with their digits, without `+`, `00` or a `0` before them
 */
export function numbersIn(text: string): { numbers: { written: string; digits: string }[]; rest: string } {
  const groups: string[][] = [];
  for (const word of text.split(/\s+/)) {
    if (!/[\p{L}\p{N}]/u.test(word)) continue; // a sign between numbers
    const last = groups.at(-1);
    if (last && numberPart.test(word) && numberPart.test(last[0]!)) last.push(word);
    else groups.push([word]);
  }
  const written = groups.map((group) => group.join(' '));
  const searched = (one: string): string => digitsIn(one).replace(/^00?/, '');
  const isNumber = (one: string): boolean => numberPart.test(one.replaceAll(' ', '')) && searched(one).length >= fewest;
  return {
    numbers: written.filter(isNumber).map((one) => ({ written: one, digits: searched(one) })),
    rest: written.filter((one) => !isNumber(one)).join(' '),
  };
}
