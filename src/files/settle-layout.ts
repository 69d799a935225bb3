import type { CustomType, MappedField, Mapping } from '../schemas/imports.ts';
import { trimText } from '../text/fold.ts';
import { type Cell, fullNameColumn } from './columns.ts';
import { decimalMarkOf, isExactNumber, type DecimalMark } from './values.ts';
import { isNothing, readFullName } from './read-value.ts';
import { FileRefused, type ImportFile } from './encodings.ts';
import type { RawRecord } from './record-formats.ts';
import { firstColumns } from './header.ts';
import { footerOf, tailWith, errorsHeaders, isCustom, isMapped, mappedFieldOf, type CsvLayout } from './layout.ts';

/** Bits for the kinds of cells that a column has had so far. */
const sawText = 1;
const sawNumber = 2;
const sawBoolean = 4;
const sawMark: Record<DecimalMark, number> = { '.': 8, ',': 16 };

function seenWith(seen: number, cell: Cell): number {
  const text = trimText(cell.text);
  if (text === '' || isNothing(text) || (text === String.raw`\N` && !cell.isQuoted)) return seen;
  if (cell.isQuoted) return seen | sawText;
  if (text === 'true' || text === 'false') return seen | sawBoolean;
  return seen | (isExactNumber(text) ? sawNumber : sawText);
}

function typeSeen(seen: number): CustomType {
  if (seen === sawNumber) return 'number';
  return seen === sawBoolean ? 'boolean' : 'text';
}

function marksSeenWith(seen: number, cell: Cell): number {
  const mark = decimalMarkOf(cell.text);
  return mark ? seen | sawMark[mark] : seen;
}

function markSeen(seen: number): DecimalMark | null {
  if (seen === sawMark['.']) return '.';
  return seen === sawMark[','] ? ',' : null;
}

export function observe({ format }: ImportFile, layout: CsvLayout, record: RawRecord): void {
  const { cells, line } = record;
  layout.tail = tailWith(layout.tail, record);
  observeTitles(layout, cells);
  const seen = (layout.seen ??= layout.headers.map(() => 0));
  for (const i of watchedColumns(layout)) {
    const cell = cells[i];
    if (cell === undefined || trimText(cell.text) === '') continue;
    if (isUnnamed(layout, i)) seen[i] ||= line;
    else if (layout.types?.[i] !== 'number') seen[i] = seenWith(seen[i]!, cell);
    else if (format !== 'xlsx' || cell.isQuoted) seen[i] = marksSeenWith(seen[i]!, cell); // a number of a sheet has no mark
  }
}

const maxTitles = 20;

function observeTitles(layout: CsvLayout, cells: readonly Cell[]): void {
  const i = layout.columns.indexOf(fullNameColumn.name);
  const text = trimText(cells[i]?.text ?? '');
  const titles = (layout.titles ??= []);
  if (text === '' || text.length > longestName || titles.length === maxTitles) return;
  for (const title of readFullName(text).leftOut)
    if (!titles.includes(title) && titles.length < maxTitles) titles.push(title);
}

const longestName = 600;

const watched = new WeakMap<CsvLayout, number[]>();

/**
 * Returns the columns whose cells must be observed: number columns, custom fields without a given type, and columns
 * without a header.
 */
function watchedColumns(layout: CsvLayout): number[] {
  const known = watched.get(layout);
  if (known) return known;
  const { headers, columns, types } = layout;
  const isOpen = (i: number): boolean => (types?.[i] ?? (isCustom(columns[i]!) ? 'number' : null)) === 'number';
  const found = [...headers.keys()].filter((i) => isOpen(i) || isUnnamed(layout, i));
  watched.set(layout, found);
  return found;
}

const isUnnamed = ({ headers, columns }: CsvLayout, i: number): boolean => headers[i] === '' && columns[i] === null;

/**
 * Completes the layout after the first reading of the file. Decides the types of custom fields, the footer, and the
 * columns that the errors file omits.
 * @throws FileRefused if a column without a header has values, and unknown columns are not ignored
 */
export function settleLayout(file: ImportFile, layout: CsvLayout): CsvLayout {
  const { seen = [], meant: _meant, isDeclared: _declared, tail, ...rest } = layout;
  const { headers, columns, types = [], origins = [] } = rest;
  const places = [...headers.keys()];
  const unnamed = places.find((i) => isUnnamed(rest, i) && origins[i] !== 'given' && seen[i]);
  if (unnamed !== undefined && !file.guess && !file.ignore_unknown)
    throw new FileRefused(
      `has values in column ${unnamed + 1}, which has no header`,
      seen[unnamed],
      'name the column, or leave it out by `mapping` {"": null}',
    );
  return {
    ...rest,
    types: columns.map((field, i) => types[i] ?? (isCustom(field) ? typeSeen(seen[i] ?? 0) : null)),
    // Where no type is given, only JSON numbers are numbers.
    decimalMarks: places.map((i) => (types[i] === 'number' ? markSeen(seen[i] ?? 0) : '.')),
    isTypeGiven: types.map((type) => type !== null),
    footer: footerOf(tail),
    omitted: places.filter((i) => isOfErrorsFile(rest, i) || (isUnnamed(rest, i) && !seen[i])),
  };
}

const isOfErrorsFile = ({ headers, columns }: CsvLayout, i: number): boolean =>
  errorsHeaders.has(headers[i]!) && columns[i] === null;

export const leftOut = (layout: CsvLayout): number[] =>
  [...layout.headers.keys()].filter(
    (i) =>
      layout.columns[i] === null && !layout.origins?.[i] && !layout.omitted?.includes(i) && !isOfErrorsFile(layout, i),
  );

export function usedMapping(layout: CsvLayout): Mapping {
  const { headers, columns, origins = [] } = layout;
  const first = firstColumns(headers);
  const entries = headers.flatMap((header, i): [string, MappedField][] => {
    const isDecided = (columns[i] ?? null) !== null || isMapped(origins[i]);
    if (!isDecided || errorsHeaders.has(header) || first.get(header) !== i) return [];
    return [[header, mappedFieldOf(layout, i)]];
  });
  return Object.fromEntries(entries);
}
