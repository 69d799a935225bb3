import { isEmailAddress } from '../../schemas/base/formats.ts';
import { fold } from '../../text/fold.ts';
import { trimText } from '../../text/trim.ts';
import type { RawRecord } from '../raw-records.ts';

/** A record at the end of a file that is part of a report's footer. */
export interface FooterRecord {
  line: number;
  column: number;
  text: string;
}

/** The last records of a file, as far as they can be a footer. */
export interface Tail {
  /** Columns with a value in any record, up to `leastColumns`. */
  filled: number[];
  /** The line after the last record. */
  nextLine: number;
  /** Records at the end with one filled cell each, below an empty line or with the words of a footer. */
  records: FooterRecord[];
  /** The last of them stand below an empty line, whatever their words. */
  isApart?: boolean;
}

/** A file with fewer filled columns is a list, in which each record can have one value. */
const leastColumns = 3;
/** A longer end is no footer. */
const maxRecords = 50;
/** Of a footer's cell (characters). */
const maxLength = 1_000;

const footerWords =
  /^(?:(?:grand )?totals?|summe|gesamt(?:summe)?|total general|suma)$|^(?:grand totals?|generated (?:by|on|at)|copyright|©|\(c\) \d{4}|confidential|all rights reserved|report generated|exported (?:by|on)|erstellt (?:von|am)|vertraulich|filtered by)\b/;

/** Returns the tail of a file with its next record. */
export function tailWith(tail: Tail | undefined, { cells, line, next }: RawRecord): Tail {
  const { nextLine, records } = tail ?? { nextLine: line, records: [] };
  const filled = tail?.filled ?? [];
  const found: FooterRecord[] = [];
  for (const [column, { text, broken }] of cells.entries()) {
    if (broken === undefined && trimText(text) === '') continue;
    // It is stored as JSON, which has no NUL and no half characters in PostgreSQL.
    const storable = text
      .slice(0, maxLength + 1)
      .toWellFormed()
      .replaceAll('\0', '\ufffd');
    found.push({ line, column, text: trimText(storable) });
    if (filled.length < leastColumns && !filled.includes(column)) filled.push(column);
    if (found.length > 1 && filled.length >= leastColumns) break;
  }
  const [only, second] = found;
  // Below a person called `Total`, others whose only value is the name can follow.
  const isApart = line > nextLine || (records.length > 0 && tail?.isApart === true);
  const isFooter =
    only !== undefined &&
    second === undefined &&
    canBeFooter(only.text) &&
    (isApart || footerWords.test(fold(only.text)));
  const kept = isFooter && records.length <= maxRecords ? [...records, only] : [];
  return { filled, nextLine: next.line, records: kept, isApart };
}

/** An e-mail or web address or a phone number belongs to somebody. */
const canBeFooter = (text: string): boolean =>
  text.length <= maxLength &&
  !text.split(/[\s,;<>()]+/).some((word) => isEmailAddress(word) || /^(?:https?:\/\/|www\.)/i.test(word)) &&
  !/^[+\d][\d\s()./-]{5,}$/.test(text);

/** Returns the records at the end of a file that are none. */
export const footerOf = (tail: Tail | undefined): FooterRecord[] =>
  tail && tail.filled.length >= leastColumns && tail.records.length <= maxRecords ? tail.records : [];
