import type { Cell } from './columns.ts';

export type RecordFault = 'too long' | 'text after quote' | 'open quote' | 'invalid bytes';

export interface RawRecord {
  /** The line, as one cell, for NDJSON. Empty if the record is too long. */
  cells: Cell[];
  /** Larger than `cells.length` if the record has more cells than the parser keeps. Then it is not exact. */
  cellCount: number;
  line: number;
  nextLine: number;
  /** The record ends with a CR without LF. Always false for NDJSON. */
  endsWithCr: boolean;
  fault: RecordFault | undefined;
  /** The line of the fault, such as that of a quote that is not closed. */
  faultLine: number;
}

/** Includes the line break (bytes). */
export const maxRecordBytes = 1024 * 1024;

export const maxColumns = 10_000;

/** Maximum number of surplus cells that are kept of a record. They are empty, or the errors file repeats them. */
export const maxSurplus = 1_000;

export const faultTexts: Record<RecordFault, string> = {
  'too long': `is longer than ${maxRecordBytes / 1024 / 1024} MiB`,
  'text after quote': 'has text after a closing quote',
  'open quote': 'has a quote that is not closed',
  'invalid bytes': 'is not valid UTF-8',
};

/** Returns true for a row without values. Spreadsheets export such a row as separators alone. */
export const isEmpty = ({ cells, cellCount, fault }: RawRecord): boolean =>
  cells.length > 1 &&
  cells.length === cellCount &&
  fault === undefined &&
  cells.every(({ text }) => text.trim() === '');

export interface FoundRecord {
  /** Index after the record and its line break. Undefined if the record continues after the text. */
  end: number | undefined;
  cells: Cell[];
  /** Not exact if there are more cells than are kept. */
  cellCount: number;
  breaks: number;
  endsWithCr: boolean;
  fault: RecordFault | undefined;
  openQuote: number | undefined;
}

export interface RecordFormat {
  /** True: a CR without LF also ends a line. */
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
 * Parses CSV (RFC 4180). A record ends with LF, CR LF or CR. A quote inside an unquoted cell is an ordinary character.
 * White space can surround the quotes of a cell without line breaks.
 * @param maxCells further cells of a record are dropped
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
 * Returns -1 if the text has no closing quote. A quote at the end of the text may be the first half of an escaped
 * quote.
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

/** Returns the text of `="01067"`. Programs write this form so that a spreadsheet keeps a text unchanged. */
function formulaText(text: string): Cell | undefined {
  if (!text.startsWith('="')) return undefined;
  const found = /^="((?:[^"]|"")*)"\s*$/.exec(text)?.[1];
  return found === undefined ? undefined : { text: found.replaceAll('""', '"'), isQuoted: true };
}

/** Counts LF and CR LF. Also counts CR if `crEndsLine`. */
export function countLineBreaks(text: string, crEndsLine: boolean): number {
  let count = 0;
  for (let i = 0; i < text.length; i += 1) {
    const character = text.charCodeAt(i);
    if (character === newline || (crEndsLine && character === carriageReturn && text.charCodeAt(i + 1) !== newline))
      count += 1;
  }
  return count;
}
