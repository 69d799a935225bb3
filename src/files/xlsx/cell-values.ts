/** How a cell's value is turned to text, as far as the workbook decides. */
export interface Formats {
  /** By the number of a cell's style: whether its numbers are dates or times. */
  isDate: readonly boolean[];
  /** By the number of a cell's style: whether these are times without a date. From 24 hours on, they are durations: numbers. */
  isTime: readonly boolean[];
  /** By the number of a cell's style: to how many digits its numbers are filled up with zeros. */
  digits: readonly number[];
  /** Days count from 1904, as in workbooks of old Macs. */
  from1904: boolean;
}

/** Built-in number formats of dates and times (ECMA-376, 18.8.30). 46 is `[h]:mm:ss`, a duration. */
export const isBuiltInDate = (id: number): boolean =>
  (id >= 14 && id <= 22) || (id >= 27 && id <= 36) || id === 45 || id === 47 || (id >= 50 && id <= 58);

/** Of these formats, those that show only a time of day. */
export const isBuiltInTime = (id: number): boolean => (id >= 18 && id <= 21) || id === 45 || id === 47;

/** True for a number format such as `dd.mm.yyyy`. Durations, such as `[h]:mm`, are numbers. */
export function isDateFormat(code: string): boolean {
  const [positive = ''] = code.slice(0, 255).split(';', 1);
  if (/\[[hms]+\]/i.test(positive)) return false;
  const letters = lettersOf(code);
  return /[ymdhs]/i.test(letters) && !/general/i.test(letters);
}

/** True for a date format that shows only a time of day, such as `hh:mm`. */
export const isTimeFormat = (code: string): boolean =>
  isDateFormat(code) && /[hs]/i.test(lettersOf(code)) && !/[yd]/i.test(lettersOf(code));

/** Returns a format without texts between quotes, conditions and escaped characters. */
const lettersOf = (code: string): string =>
  (code.slice(0, 255).split(';', 1)[0] ?? '').replaceAll(/"[^"]*"?|\[[^\]]*\]?|[\\_*]./g, '');

/** Returns the number of digits of a format such as `00000`, in which people see a postal code. Else 0. */
export const digitsOfFormat = (code: string): number =>
  /^(?:\[[^\]]*\])?(0{2,20})(?:;|$)/.exec(code.slice(0, 255))?.[1]!.length ?? 0;

const dayMs = 24 * 60 * 60 * 1000;
/** 9999-12-31. */
const maxSerial = 2_958_465;

/**
 * Returns a date as `YYYY-MM-DD`, with a time of day as RFC 3339, and a time without a date as `hh:mm:ss`. Undefined if
 * the number is no date.
 */
export function dateText(serial: number, from1904: boolean): string | undefined {
  if (!(serial >= 0 && serial <= maxSerial)) return undefined;
  const ms = Math.round((serial % 1) * dayMs);
  const time = (): string => new Date(ms).toISOString().slice(11).replace('.000', '');
  if (serial < 1 && !from1904) return time().replace('Z', '');
  // Excel counts a 29 February 1900, which there was not.
  const epoch = from1904 ? Date.UTC(1904, 0, 1) : Date.UTC(1899, 11, serial < 60 ? 31 : 30);
  const instant = new Date(epoch + Math.floor(serial) * dayMs + ms).toISOString();
  return instant.endsWith('T00:00:00.000Z') ? instant.slice(0, 10) : instant.replace('.000', '');
}

/**
 * Returns a number as a spreadsheet program shows it: 15 digits. Such programs write no longer whole numbers, but others
 * do: their ids and phone numbers keep all digits.
 */
export function numberText(text: string): string {
  const number = Number(text);
  if (text.trim() === '' || !Number.isFinite(number) || longInteger.test(text)) return text;
  return String(Number(number.toPrecision(15)));
}

/** Returns a whole number as a format such as `00000` shows it. */
export const withZeros = (text: string, digits: number): string =>
  digits > 0 && /^\d+$/.test(text) ? text.padStart(digits, '0') : text;

const longInteger = /^-?[1-9]\d{15,}$/;

/** An ISO 8601 date of a cell; without a time zone it counts as UTC. */
export function isoDateText(text: string): string {
  const [, date, time] = /^(\d{4}-\d\d-\d\d)(?:T(\d\d:\d\d:\d\d(?:\.\d+)?)Z?)?$/.exec(text.trim()) ?? [];
  if (date === undefined) return text;
  return time === undefined || /^00:00:00(?:\.0+)?$/.test(time) ? date : `${date}T${time.replace(/\.0+$/, '')}Z`;
}

/** Characters that XML cannot hold are written as e.g. `_x000D_`. */
export const unescapeText = (text: string): string =>
  text.includes('_x')
    ? text.replaceAll(/_x([0-9A-Fa-f]{4})_/g, (_, code: string) => String.fromCharCode(Number.parseInt(code, 16)))
    : text;
