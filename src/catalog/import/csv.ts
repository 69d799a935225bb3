import type { FindEnd } from './split-records.ts';

const quote = 0x22;
const comma = 0x2c;
const newline = 0x0a;
const carriageReturn = 0x0d;

// A quote inside a field that does not begin with a quote is an ordinary character. It is safe to search the bytes for
// these ASCII characters: they never occur inside a multi-byte sequence of UTF-8.
/**
 * Finds the end of the first CSV record (RFC 4180) in the bytes. A line break within quotes is part of the record.
 * Returns the index of the line break after the record, `'more'` if the record is not complete yet, or the reason why
 * the record is invalid (`fault`).
 */
export const endOfCsvRecord: FindEnd = (bytes, isLast) => {
  let at = 0;
  for (;;) {
    if (bytes[at] === quote) {
      const closing = closingQuote(bytes, at + 1, isLast);
      if (closing === undefined) return isLast ? { fault: 'has a quote that is never closed' } : 'more';
      at = closing + 1;
      if (at < bytes.length && !endsField(bytes, at)) return { fault: 'has text after a closing quote' };
    }
    at = endOfField(bytes, at);
    if (at >= bytes.length) return 'more';
    if (bytes[at] === newline) return at;
    at += 1;
  }
};

// Two quotes in a row stand for one quote in the text. So a quote at the end of the bytes may be the first of two,
// unless the bytes are the last ones.
/**
 * Returns the index of the quote that ends a quoted field, or undefined if the field is not complete yet.
 * @param from the index of the first byte after the opening quote
 * @param isLast true if the bytes are the last bytes of the file
 */
function closingQuote(bytes: Buffer, from: number, isLast: boolean): number | undefined {
  let at = bytes.indexOf(quote, from);
  while (at >= 0 && bytes[at + 1] === quote) at = bytes.indexOf(quote, at + 2);
  return at < 0 || (at + 1 === bytes.length && !isLast) ? undefined : at;
}

const endsField = (bytes: Buffer, at: number): boolean =>
  bytes[at] === comma ||
  bytes[at] === newline ||
  (bytes[at] === carriageReturn && (bytes[at + 1] === newline || at + 1 === bytes.length));

function endOfField(bytes: Buffer, from: number): number {
  let at = from;
  while (at < bytes.length && bytes[at] !== comma && bytes[at] !== newline) at += 1;
  return at;
}

/**
 * Splits one CSV record into its fields.
 * @param text one complete, valid record without the line break after it
 */
export function parseCsvRecord(text: string): string[] {
  const fields: string[] = [];
  for (let at = 0; at <= text.length;) {
    const quoted = text[at] === '"' ? /"((?:[^"]|"")*)"/y : undefined;
    if (quoted) quoted.lastIndex = at;
    const match = quoted?.exec(text);
    if (match) {
      fields.push(match[1]!.replaceAll('""', '"'));
      at += match[0].length + 1;
    } else {
      const end = text.indexOf(',', at);
      fields.push(text.slice(at, end < 0 ? undefined : end));
      at = end < 0 ? text.length + 1 : end + 1;
    }
  }
  return fields;
}
