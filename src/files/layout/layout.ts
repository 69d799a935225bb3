import type { Fault } from '../../errors.ts';
import type { CustomType, MappedField, Mapping, MappingOrigin } from '../../schemas/imports.ts';
import { yieldToEventLoop } from '../../process/event-loop.ts';
import type { DeclaredField } from '../../schemas/base/declared-fields.ts';
import { customKey } from '../../schemas/filters.ts';
import { isEmailAddress } from '../../schemas/base/formats.ts';
import { pointerTo } from '../../text/json-pointer.ts';
import { FileRefused } from '../file-refused.ts';
import { declaredColumn, ignoredFields, importColumn, matchOf, type ImportFile } from '../import-file.ts';
import type { DecimalMark, ReadType } from '../values/custom-values.ts';
import { ValueReader } from '../values/read-value.ts';
import { clashesOf, quoted } from './column-clashes.ts';
import { firstColumns } from './column-names.ts';
import { ColumnGuesser } from './guess-columns.ts';
import { headerKey, namesOfFields } from './header-names.ts';
import { readHeader, type Beginning, type Content, type CsvHeader } from './header.ts';
import type { FooterRecord, Tail } from './footers.ts';
import { misreadWord } from './misread.ts';

/** How the columns of a file are read. Stored with the import. */
export interface CsvLayout extends CsvHeader {
  /** By column, such as `company.name`; null if it is left out. */
  columns: (string | null)[];
  /** Where the field of each column comes from; null if nothing names one. */
  origins?: (MappingOrigin | null)[];
  /** By column: the field that a mapping gives, also if this import ignores it. Only during the first reading. */
  meant?: (string | null)[];
  /** By column: the type of a custom field, as declared, as given, or as the first reading finds it. */
  types?: (ReadType | null)[];
  /** By column: the field is declared, which decides its type. Only during the first reading. */
  isDeclared?: boolean[];
  /** By column: the decimal mark of a custom field's numbers, as the first reading finds it; null if it does not. */
  decimalMarks?: (DecimalMark | null)[];
  /** What the cells of each column were so far (see column-types.ts). Only during the first reading. */
  seen?: number[];
  /** The last records so far, as far as they can be a footer. Only during the first reading. */
  tail?: Tail;
  /** The last records of the file, which are no records: those of a report's footer. */
  footer?: FooterRecord[];
  /** Titles and degrees that are left out of full names, as they are written. */
  titles?: string[];
  /** By column: a type is given. */
  isTypeGiven?: boolean[];
  /** A word which shows that the encoding is another one. */
  misread?: string | undefined;
  /** Columns that the errors file omits: those of an errors file, and those with neither header nor values. */
  omitted?: number[];
}

/** Returns the mapping that the customer's last import of a file with these headers has used. */
export type RememberedMapping = (headers: readonly string[]) => Promise<Mapping | undefined>;

const nothingRemembered: RememberedMapping = () => Promise.resolve(undefined);

/**
 * Decides how the columns are read.
 * @throws FileRefused if the columns cannot be mapped to fields
 */
export async function readLayout(
  file: ImportFile,
  beginning: Beginning,
  remembered: RememberedMapping = nothingRemembered,
): Promise<CsvLayout> {
  const { layout, faults } = layoutOf(file, await planColumns(file, beginning, remembered));
  if (faults.length > 0) throw new FileRefused(`cannot be imported: ${summary(faults)}`);
  return layout;
}

const maxSummarised = 10;

function summary(faults: readonly Fault[]): string {
  const messages = faults.slice(0, maxSummarised).map(({ message }) => message);
  const others = faults.length - messages.length;
  return others > 0 ? `${messages.join('; ')}; and ${others} more` : messages.join('; ');
}

/** A column, and what decides its field. */
interface Decision {
  field: string | null;
  type: CustomType | null;
  origin: MappingOrigin;
}

export interface ColumnPlan {
  beginning: Beginning;
  /** By column; undefined if nothing names a field. */
  decisions: (Decision | undefined)[];
}

/**
 * Decides the field of each column.
 * @throws FileRefused if the first line is no header
 */
export async function planColumns(
  file: ImportFile,
  beginning: Beginning,
  remembered: RememberedMapping = nothingRemembered,
): Promise<ColumnPlan> {
  const known = file.guess ? await remembered(beginning.headers) : undefined;
  requireHeader(file, beginning, known);
  const first = firstColumns(beginning.headers);
  const decisions = beginning.headers.map((header, i) =>
    decide(file, beginning, first.get(header) === i ? known : undefined, header, i),
  );
  // Each of these steps takes up to 50 ms for 10,000 columns.
  await yieldToEventLoop();
  if (file.guess) guessOthers(decisions, { file, beginning, reader: await ValueReader.load() });
  return { beginning, decisions };
}

/**
 * Reads the beginning of a CSV or XLSX file.
 * @throws FileRefused if there is no header line that can be read
 */
export const readHeaderOf = (file: ImportFile, content: Content): Promise<Beginning> =>
  readHeader(content, { isNote: isNoteFor(file), hasHeader: file.hasHeader ?? true });

/** A single cell above the header of a guessed file is a note, unless it names a field. */
const isNoteFor =
  (file: ImportFile) =>
  (cell: string): boolean =>
    file.guess === true && !isNameFor(file, cell) && !errorsHeaders.has(cell) && !isValue(cell);

const isNameFor = (file: ImportFile, header: string): boolean =>
  Object.hasOwn(file.mapping ?? {}, header) ||
  importColumn(file.object, header) !== undefined ||
  namesOfFields[file.object].has(headerKey(header));

/** True for a text that is no name of a column: an e-mail or web address, a phone number, a date. */
const isValue = (header: string): boolean =>
  isEmailAddress(header) || /^(?:https?:\/\/\S|(?:\+|00)[\d\s()./-]{6,30}$|\d{4}-\d\d-\d\d(?:$|T))/i.test(header);

/**
 * The first person of a file without a header must not be taken for its header.
 * @throws FileRefused
 */
function requireHeader(file: ImportFile, { headers, line }: Beginning, known: Mapping | undefined): void {
  const value = headers.find(isValue);
  if (file.hasHeader === false || value === undefined) return;
  if (headers.some((header) => isNameFor(file, header) || mappedIn(known, header) || errorsHeaders.has(header))) return;
  throw new FileRefused(
    `has no header line: its first line has the value ${quoted(value)}`,
    line,
    'write the names of the columns into a first line, or set `header` to false',
  );
}

function decide(
  file: ImportFile,
  beginning: Beginning,
  known: Mapping | undefined,
  header: string,
  i: number,
): Decision | undefined {
  const given = mappedIn(file.mapping, header);
  if (given !== undefined) return decisionOf(given, 'given');
  if (errorsHeaders.has(header))
    return header === recordHeader ? decisionOf(wholeRecord(beginning), 'name') : undefined;
  const before = mappedIn(known, header);
  if (before !== undefined && before !== header) return decisionOf(before, 'remembered');
  if (!importColumn(file.object, header) || (file.guess && isOtherThing(file, beginning, header, i))) return undefined;
  return decisionOf(header, 'name');
}

const mappedIn = (mapping: Mapping | null | undefined, header: string): MappedField | undefined =>
  mapping && Object.hasOwn(mapping, header) ? mapping[header] : undefined;

const decisionOf = (mapped: MappedField, origin: MappingOrigin): Decision =>
  typeof mapped === 'object' && mapped !== null ? { ...mapped, origin } : { field: mapped, type: null, origin };

/** The column of lines of NDJSON, in the errors file of an NDJSON file. */
export const recordHeader = '_record';

/** The columns that an errors file adds to those of the original. */
export const errorsHeaders: ReadonlySet<string> = new Set(['_line', '_error', '_warning', recordHeader]);

/** An errors file of NDJSON can be sent as it is: it has only columns of errors files. */
const wholeRecord = ({ headers }: Beginning): string | null =>
  headers.every((header) => errorsHeaders.has(header)) &&
  headers.indexOf(recordHeader) === headers.lastIndexOf(recordHeader)
    ? recordHeader
    : null;

/** Other programs write the name of a company, or ids of their own, below headers that are names of fields here. */
function isOtherThing(file: ImportFile, { sample }: Beginning, header: string, i: number): boolean {
  const filled = sample.flatMap((cells) => cells[i]?.text.trim() || []);
  if (header === 'company') return filled.some((text) => !text.startsWith('{'));
  return header === 'id' && matchOf(file) !== 'id' && filled.some((text) => !/^[\da-f]{8}-[\da-f-]{27}$/i.test(text));
}

function guessOthers(
  decisions: (Decision | undefined)[],
  { file, beginning, reader }: { file: ImportFile; beginning: Beginning; reader: ValueReader },
): void {
  const { headers, sample } = beginning;
  const open = [...decisions.keys()].filter((i) => decisions[i] === undefined && isOpen(headers[i]!));
  const taken = decisions.flatMap((decision) => decision?.field ?? []);
  const guesses = new ColumnGuesser({ object: file.object, headers, sample, reader }, taken).guess(open);
  for (const [i, field] of guesses) decisions[i] = { field, type: null, origin: 'guess' };
}

/** Columns without a header, and those of errors files, are no columns of records. */
const isOpen = (header: string): boolean => header !== '' && !errorsHeaders.has(header);

/**
 * @returns `layout`, and `faults`: e.g. an unknown field, two columns for the same field, or none for the field that
 * identifies the records
 */
export function layoutOf(
  file: ImportFile,
  { beginning, decisions }: ColumnPlan,
): { layout: CsvLayout; faults: Fault[] } {
  const { separator, headers } = beginning;
  const ignored = ignoredFields(file);
  const unknown = decisions.map((decision, i) => {
    if (decision) return decision.field !== null && !isKnown(file, decision.field);
    return isOpen(headers[i]!);
  });
  const columns = decisions.map((decision, i) => {
    const field = decision?.field ?? null;
    return field === null || unknown[i] || ignored.has(field) ? null : field;
  });
  const declared = columns.map((field) => declaredColumn(file, field));
  const isLenient = file.guess || file.ignoreUnknown;
  const faults = [
    ...headers.filter((_, i) => unknown[i] && (!isLenient || (file.guess && decisions[i]))).map(unknownHeader),
    ...clashesOf(headers, columns),
    ...missingMatch(file, columns),
  ];
  const layout: CsvLayout = {
    separator,
    headers,
    columns,
    meant: decisions.map((decision) => (decision && isMapped(decision.origin) ? decision.field : null)),
    origins: decisions.map((decision) => decision?.origin ?? null),
    types: columns.map((field, i) =>
      isCustom(field) ? (readTypeOf(declared[i]) ?? decisions[i]?.type ?? null) : null,
    ),
    isDeclared: declared.map((field) => field !== undefined),
    ...(file.isWindowsByDefault && { misread: misreadWord(textsOf(beginning)) }),
  };
  return { layout, faults };
}

const textsOf = ({ headers, sample }: Beginning): string[] => [
  ...headers,
  ...sample.flatMap((cells) => cells.map(({ text }) => text)),
];

/** The customer has said so, now or for the file before. */
export const isMapped = (origin: MappingOrigin | null | undefined): boolean =>
  origin === 'given' || origin === 'remembered';

/** Returns the field of a column, with its type if it has one. The layout is not settled yet. */
export function mappedFieldOf({ columns, meant, types, isDeclared }: CsvLayout, i: number): MappedField {
  const [field, type] = [columns[i] ?? meant?.[i] ?? null, types?.[i]];
  return field !== null && type && !isDeclared?.[i] ? { field, type: type as CustomType } : field;
}

const readTypeOf = (field: DeclaredField | undefined): ReadType | undefined =>
  field && (field.type === 'long_text' || field.type === 'choice' ? 'text' : field.type);

const isKnown = ({ object }: ImportFile, field: string): boolean =>
  field === recordHeader || importColumn(object, field) !== undefined;

export const isCustom = (field: string | null): boolean => field !== null && customKey(field) !== undefined;

const unknownHeader = (header: string): Fault => ({
  path: pointerTo(['mapping', header]),
  message: `${quoted(header)} is not the name of a field`,
});

function missingMatch(file: ImportFile, columns: (string | null)[]): Fault[] {
  const match = matchOf(file);
  if (match === undefined || columns.includes(match) || columns.includes(recordHeader)) return [];
  return [{ path: '', message: `no column is for the field ${quoted(match)}, which identifies the records` }];
}
