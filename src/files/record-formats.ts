import type { Cell } from './columns.ts';

export type RecordFault = 'too long' | 'text after quote' | 'open quote' | 'invalid bytes';

export interface RawRecord {
  /** Cells of the record. For NDJSON, the line as one cell. Empty if the record is too long. */
  cells: Cell[];
  /** Number of cells in the file. Larger than `cells.length`, and not exact, if the parser dropped cells. */
  cellCount: number;
  line: number;
  nextLine: number;
  endsWithCr: boolean;
  fault: RecordFault | undefined;
  /** Line on which the fault begins, such as the line of an open quote. */
  faultLine: number;
}

export const maxRecordBytes = 1024 * 1024;

export const maxColumns = 10_000;

/** Maximum number of cells beyond the header that are kept of a record. */
export const maxSurplus = 1_000;

export const faultTexts: Record<RecordFault, string> = {
  'too long': `is longer than ${maxRecordBytes / 1024 / 1024} MiB`,
  'text after quote': 'has text after a closing quote',
  'open quote': 'has a quote that is not closed',
  'invalid bytes': 'is not valid UTF-8',
};

/** Returns true for a CSV row without values, such as `;;;`. Spreadsheets export empty rows like this. */
export const isEmpty = ({ cells, cellCount, fault }: RawRecord): boolean =>
  cells.length > 1 &&
  cells.length === cellCount &&
  fault === undefined &&
  cells.every(({ text }) => text.trim() === '');

export interface FoundRecord {
  /** Index after the record and its line break. Undefined if the record does not end in this text. */
  end: number | undefined;
  cells: Cell[];
  cellCount: number;
  breaks: number;
  endsWithCr: boolean;
  fault: RecordFault | undefined;
  openQuote: number | undefined;
}

export interface RecordFormat {
  crEndsLine: boolean;
  find(text: string, from: number, isLast: boolean): FoundRecord;
}

const [quote, newline, carriageReturn, space, tab] = [0x22, 0x0a, 0x0d, 0x20, 0x09];
export const emptyCell: Cell = { text: '', isQuoted: false };

export const lineFormat: RecordFormat = {
  crEndsLine: false,
  find(text, from, isLast) {
    const newlineAt = text.indexOf('\n', from);
    const end = newlineAt >= 0 ? newlineAt + 1 : isLast ? text.length : undefined;
    const line = text.slice(from, newlineAt < 0 ? undefined : newlineAt);
    const cells = [
      { text: line.slice(line.startsWith('\ufeff') ? 1 : 0, line.endsWith('\r') ? -1 : undefined), isQuoted: false },
    ];
    return { end, cells, cellCount: 1, breaks: 0, endsWithCr: false, fault: undefined, openQuote: undefined };
  },
};

/**
 * Returns a CSV parser (RFC 4180). Accepts LF, CR LF or CR as line break, white space around quotes, and quotes inside
 * an unquoted cell.
 * @param maxCells maximum number of cells that are kept of a record. Further cells are dropped
 */
export function csvFormat(separator: string, maxCells: number): RecordFormat {
  const separatorCode = separator.charCodeAt(0);
  const blank = separator === '\t' ? ' ' : String.raw`[ \t]`;
  const spacedCell = new RegExp(
    String.raw`${blank}+"([^"\r\n]*(?:""[^"\r\n]*)*)"(?=${blank}*(?:[${separator}\r\n]|$))`,
    'y',
  );

  function spacedText(text: string, at: number): string | undefined {
    const first = text.charCodeAt(at);
    if (first !== space && first !== tab) return undefined;
    spacedCell.lastIndex = at;
    return spacedCell.exec(text)?.[1];
  }

  function endOfPlainText(text: string, from: number, keepsCells: boolean): number {
    for (let at = from; at < text.length; at += 1) {
      const character = text.charCodeAt(at);
      if (character === newline || character === carriageReturn) return at;
      // Cells that are not kept are skipped together, up to one that may begin with a quote.
      if (character === separatorCode && (keepsCells || at + 1 === text.length || text.charCodeAt(at + 1) === quote))
        return at;
    }
    return text.length;
  }

  function find(text: string, from: number, isLast: boolean): FoundRecord {
    const found: FoundRecord = {
      end: undefined,
      cells: [],
      cellCount: 0,
      breaks: 0,
      endsWithCr: false,
      fault: undefined,
      openQuote: undefined,
    };
    for (let at = from; ; at += 1) {
      let start = at;
      found.openQuote = undefined;
      let quoted: string | undefined;
      if (text.charCodeAt(at) === quote) {
        found.openQuote = at;
        const closing = closingQuote(text, at + 1, isLast);
        if (closing < 0) return isLast ? { ...found, end: text.length, fault: 'open quote' } : found;
        quoted = text.slice(at + 1, closing);
        start = closing + 1;
      } else {
        quoted = spacedText(text, at);
        if (quoted !== undefined) start = spacedCell.lastIndex;
      }
      at = endOfPlainText(text, start, quoted !== undefined || found.cellCount <= maxCells);
      if (quoted !== undefined) {
        const breaks = countLineBreaks(quoted, true);
        // Only the next quoted cell has closed the quote.
        if (at > start && breaks > 0) return { ...found, end: at, fault: 'open quote' };
        if (text.slice(start, at).trim() === '') start = at;
        else found.fault = 'text after quote';
        found.breaks += breaks;
      }
      if (found.cellCount <= maxCells) found.cellCount += 1;
      if (found.cellCount <= maxCells) found.cells.push(cellOf(text.slice(start, at), quoted));
      const character = text.charCodeAt(at);
      if (character === separatorCode) continue;
      if (at === text.length) found.end = isLast ? at : undefined;
      else if (character === newline) found.end = at + 1;
      else if (text.charCodeAt(at + 1) === newline) found.end = at + 2;
      else if (at + 1 < text.length || isLast) {
        found.end = at + 1;
        found.endsWithCr = true;
      }
      return found;
    }
  }

  return { crEndsLine: true, find };
}

/**
 * Returns the index of the quote that closes a cell, or -1 if there is none. If more text follows, a quote at the end
 * does not count: it may be half of an escaped quote.
 */
function closingQuote(text: string, from: number, isLast: boolean): number {
  let at = text.indexOf('"', from);
  while (at >= 0 && text.charCodeAt(at + 1) === quote) at = text.indexOf('"', at + 2);
  return at + 1 === text.length && !isLast ? -1 : at;
}

function cellOf(text: string, quoted: string | undefined): Cell {
  if (quoted === undefined) return text === '' ? emptyCell : (formulaText(text) ?? { text, isQuoted: false });
  const whole = quoted.replaceAll('""', '"') + text;
  return formulaText(whole) ?? { text: whole, isQuoted: true };
}

/**
 * Returns the text of a formula such as `="01067"`. Programs write this form so that spreadsheets keep the text
 * unchanged.
 */
export function formulaText(text: string): Cell | undefined {
  if (!text.startsWith('="')) return undefined;
  const found = /^="((?:[^"]|"")*)"\s*$/.exec(text)?.[1];
  return found === undefined ? undefined : { text: found.replaceAll('""', '"'), isQuoted: true };
}

export function countLineBreaks(text: string, crEndsLine: boolean): number {
  let count = 0;
  for (let i = 0; i < text.length; i += 1) {
    const character = text.charCodeAt(i);
    if (character === newline || (crEndsLine && character === carriageReturn && text.charCodeAt(i + 1) !== newline))
      count += 1;
  }
  return count;
}
