import { isEmailAddress } from '../schemas/formats.ts';
import { isAscii } from '../text/domains.ts';
import { fold, toStorable, trimText } from '../text/fold.ts';
import type { RawRecord } from './record-formats.ts';
import type { Fault } from '../errors.ts';
import { pointerTo } from '../text/json.ts';
import type { CustomType, MappedField, Mapping, MappingOrigin } from '../schemas/imports.ts';
import { yieldToEventLoop } from '../process/event-loop.ts';
import type { DeclaredField } from '../schemas/wire.ts';
import { customKey } from '../schemas/filters.ts';
import {
  FileRefused,
  declaredColumn,
  ignoredFields,
  importColumn,
  takesNoNotes,
  type ImportFile,
} from './encodings.ts';
import type { DecimalMark, ReadType } from './values.ts';
import { countryCodes } from './phones.ts';
import { quoted } from './read-value.ts';
import { firstColumns, headerKey, namesOfFields, readHeader } from './header.ts';
import type { Beginning, Content, CsvHeader } from './header.ts';
import { noteColumn } from './columns.ts';
import { ColumnGuesser } from './guess-columns.ts';

interface FooterRecord {
  line: number;
  column: number;
  text: string;
}

interface Tail {
  /** Indexes of columns that have a value in any record. At most `leastColumns` indexes are kept. */
  filled: number[];
  nextLine: number;
  /**
   * Possible footer: records at the end of the file with one filled cell each, after an empty line or with words such
   * as `Total`.
   */
  records: FooterRecord[];
  isApart?: boolean;
}

/**
 * Minimum number of filled columns in a file with a footer. With fewer columns, a record can have a single value too.
 */
const leastColumns = 3;
const maxRecords = 50;
const maxLength = 1_000;

const footerWords =
  /^(?:(?:grand )?totals?|summe|gesamt(?:summe)?|total general|suma)$|^(?:grand totals?|generated (?:by|on|at)|copyright|©|\(c\) \d{4}|confidential|all rights reserved|report generated|exported (?:by|on)|erstellt (?:von|am)|vertraulich|filtered by)\b/;

export function tailWith(tail: Tail | undefined, { cells, line, ...record }: RawRecord): Tail {
  const { nextLine, records } = tail ?? { nextLine: line, records: [] };
  const filled = tail?.filled ?? [];
  const found: FooterRecord[] = [];
  for (const [column, { text, broken }] of cells.entries()) {
    if (broken === undefined && trimText(text) === '') continue;
    // It is stored as JSON, which has no NUL and no half characters in PostgreSQL.
    found.push({ line, column, text: trimText(toStorable(text.slice(0, maxLength + 1))) });
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
  return { filled, nextLine: record.nextLine, records: kept, isApart };
}

const canBeFooter = (text: string): boolean =>
  text.length <= maxLength &&
  !text.split(/[\s,;<>()]+/).some((word) => isEmailAddress(word) || /^(?:https?:\/\/|www\.)/i.test(word)) &&
  !/^[+\d][\d\s()./-]{5,}$/.test(text);

export const footerOf = (tail: Tail | undefined): FooterRecord[] =>
  tail && tail.filled.length >= leastColumns && tail.records.length <= maxRecords ? tail.records : [];

/**
 * Returns a fault for each pair of columns that clash. Columns clash if they have the same field, or a field and its
 * part (`company` and `company.id`).
 */
function clashesOf(headers: readonly string[], columns: readonly (string | null)[]): Fault[] {
  const first = new Map<string, number>();
  const faults: Fault[] = [];
  for (const [i, field] of columns.entries()) {
    if (field === null) continue;
    const other = first.get(field);
    if (other === undefined) first.set(field, i);
    else faults.push(clash(headers[other]!, headers[i]!, field));
  }
  for (const [field, i] of first) {
    const whole = wholesOf(field).find((one) => first.has(one));
    if (whole !== undefined) faults.push(clash(headers[first.get(whole)!]!, headers[i]!, whole));
  }
  return faults;
}

const wholes: Readonly<Record<string, string>> = {
  first_name: 'full_name',
  last_name: 'full_name',
  pipeline: 'stage_id',
  stage: 'stage_id',
  'user.email': 'user_id_assigned',
  'contacts.external_id': 'contacts_ids',
};

function wholesOf(field: string): string[] {
  if (Object.hasOwn(wholes, field)) return [wholes[field]!];
  const name = field.split('.', 1)[0]!;
  return name === field ? [] : [name, `${name}_id`];
}

const clash = (first: string, second: string, field: string): Fault => ({
  path: pointerTo(['mapping', second]),
  message: `the columns ${quoted(first)} and ${quoted(second)} are both for the field ${quoted(field)}`,
});

const inWords = '„”‚ƒ†‡ˆ‰‹˜›¡¢£¤¥¦§¨¬¯±²³¶¸¹¼½¾¿×÷';

/**
 * Matches traces of a wrong encoding, which Windows-1252 text rarely has: signs within a word (`Zak³ad`, `MŸller`),
 * control codes, or four accented letters in a row.
 */
const odd = new RegExp(
  String.raw`[\u0080-\u009f]|\p{L}[${inWords}]\p{L}|\p{L}§|(?<!\p{L})[£¯¿]\p{L}*[${inWords}]|\p{L}[ŠŸŽ€]\p{Ll}|[À-ÖØ-öø-ÿ]{4}`,
  'u',
);

const betweenWords = /[\s,;()"]+/;

/**
 * Share of words that match `odd` (among words with non-ASCII characters) above which the encoding is wrong. A single
 * odd word can be a typing error.
 */
const enough = 1 / 20;

/**
 * Returns the first word which shows that the texts are not Windows-1252, such as `Zak³ad`. Undefined: nothing looks
 * wrong.
 */
export function misreadWord(texts: Iterable<string>): string | undefined {
  let [all, found] = [0, 0];
  let first: string | undefined;
  for (const text of texts)
    for (const word of text.slice(0, 500).split(betweenWords)) {
      if (isAscii(word)) continue;
      all += 1;
      if (!odd.test(word)) continue;
      found += 1;
      first ??= word;
    }
  return found > all * enough ? first : undefined;
}

/** Matches a word whose letters another program has replaced, such as `M??ller`. Does not match a web address. */
const lost = /^(?!.*[/=]).*(?:\p{L}\?{1,2}\p{Ll}|\?{2}\p{L}|\uFFFD)/u;

const lostWord = (texts: readonly string[]): string | undefined =>
  texts.flatMap((text) => text.slice(0, 500).split(betweenWords)).find((word) => lost.test(word));

export const misreadText = (word: string): string =>
  lost.test(word)
    ? `${JSON.stringify(word.slice(0, 40))} has lost letters before it came into this file: save the file anew from ` +
      'the program that has the whole names, as Excel or as CSV in UTF-8'
    : `the file is read as windows-1252, but ${JSON.stringify(word.slice(0, 40))} looks wrong: if it has another encoding, ` +
      'name it (such as macintosh or windows-1250), or save the file as UTF-8';

export interface CsvLayout extends CsvHeader {
  columns: (string | null)[];
  /** How each column got its field, such as `guess`. Null: the column has no field. */
  origins?: (MappingOrigin | null)[];
  /**
   * Mapped field of each column, even if this import ignores the field. Set only during the first reading of the file.
   */
  meant?: (string | null)[];
  /** Type of each column's values. Set for custom fields, and for built-in fields that people write in several ways. */
  types?: (ReadType | null)[];
  /** True for each column whose type is fixed by its field. Set only during the first reading of the file. */
  isDeclared?: boolean[];
  decimalMarks?: (DecimalMark | null)[];
  /**
   * Kinds of cells that each column has had so far, as bits (see settle-layout.ts). Set only during the first reading.
   */
  seen?: number[];
  /** End of the file so far, to find a footer. Set only during the first reading of the file. */
  tail?: Tail;
  footer?: FooterRecord[];
  titles?: string[];
  isTypeGiven?: boolean[];
  misread?: string | undefined;
  /**
   * Indexes of columns that the errors file omits: columns such as `_error`, and columns with neither header nor
   * values.
   */
  omitted?: number[];
}

export async function readLayout(...given: Parameters<typeof layoutOf>): Promise<CsvLayout> {
  const { layout, faults } = await layoutOf(...given);
  const help = given[0].guess ? '' : '. "mapping" gives a column its field, and "guess" finds it';
  if (faults.length > 0) throw new FileRefused(`cannot be imported: ${summary(faults)}${help}`);
  return layout;
}

const maxSummarised = 10;

function summary(faults: readonly Fault[]): string {
  const messages = faults.slice(0, maxSummarised).map(({ message }) => message);
  const others = faults.length - messages.length;
  return others > 0 ? `${messages.join('; ')}; and ${others} more` : messages.join('; ');
}

interface Decision {
  field: string | null;
  type: CustomType | null;
  origin: MappingOrigin;
}

export const readHeaderOf = (file: ImportFile, content: Content): Promise<Beginning> =>
  readHeader(content, file.has_header, isNoteFor(file));

/**
 * Returns a function that decides whether a single cell above the header is a note. The cell is not a note if it looks
 * like a header or a value, or if fields are not guessed.
 */
const isNoteFor =
  (file: ImportFile) =>
  (cell: string): boolean =>
    file.guess &&
    (!isNameFor(file, cell) || namesOfFields[file.object].get(headerKey(cell))?.field === noteColumn.name) &&
    !errorsHeaders.has(cell) &&
    !isValue(cell);

const isNameFor = (file: ImportFile, header: string): boolean =>
  Object.hasOwn(file.mapping ?? {}, header) ||
  importColumn(file.object, header) !== undefined ||
  namesOfFields[file.object].has(headerKey(header));

const isValue = (header: string): boolean =>
  isEmailAddress(header) || /^(?:https?:\/\/\S|(?:\+|00)[\d\s()./-]{6,30}$|\d{4}-\d\d-\d\d(?:$|T))/i.test(header);

/**
 * Rejects a file whose first line looks like a record. That record would be read as the header, and be lost.
 * @throws FileRefused
 */
function requireHeader(file: ImportFile, { headers, line }: Beginning, known: Mapping | undefined): void {
  const value = headers.find(isValue);
  if (!file.has_header || value === undefined) return;
  if (headers.some((header) => isNameFor(file, header) || mappedIn(known, header) || errorsHeaders.has(header))) return;
  throw new FileRefused(
    `has no header line: its first line has the value ${quoted(value)}`,
    line,
    'write the names of the columns into a first line, or set `header` to false',
  );
}

function decide(file: ImportFile, beginning: Beginning, known: Mapping | undefined, header: string, i: number) {
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

export const recordHeader = '_record';

/** Columns that every errors file has behind those of the imported file. */
export const addedHeaders: readonly string[] = ['_line', '_error', '_warning'];

export const errorsHeaders: ReadonlySet<string> = new Set([...addedHeaders, recordHeader]);

/**
 * Returns `_record` if the file is the errors file of an NDJSON import, which has whole records in that column.
 * Otherwise returns null.
 */
const wholeRecord = ({ headers }: Beginning): string | null =>
  headers.every((header) => errorsHeaders.has(header)) &&
  headers.indexOf(recordHeader) === headers.lastIndexOf(recordHeader)
    ? recordHeader
    : null;

/**
 * Returns true if the cells do not fit a header `company` or `id`. Other programs write company names or their own ids
 * there.
 */
function isOtherThing(file: ImportFile, { records }: Beginning, header: string, i: number): boolean {
  const filled = records.flatMap(({ cells }) => cells[i]?.text.trim() || []);
  if (header === 'company') return filled.some((text) => !text.startsWith('{'));
  return header === 'id' && file.match !== 'id' && filled.some((text) => !/^[\da-f]{8}-[\da-f-]{27}$/i.test(text));
}

async function guessOthers(file: ImportFile, { headers, records }: Beginning, decisions: (Decision | undefined)[]) {
  const open = [...decisions.keys()].filter((i) => decisions[i] === undefined && isOpen(headers[i]!));
  const taken = [
    ...decisions.flatMap((decision) => decision?.field ?? []),
    ...(takesNoNotes(file) ? [noteColumn.name] : []),
  ];
  const codeOf = await countryCodes();
  const guesses = new ColumnGuesser({ ...file, headers, records, codeOf }, taken).guess(open);
  for (const [i, field] of guesses) decisions[i] = { field, type: null, origin: 'guess' };
}

const isOpen = (header: string): boolean => header !== '' && !errorsHeaders.has(header);

/**
 * Decides the field and type of each column from the headers, the mapping and the first records.
 * @returns `layout`, and `faults` such as an unknown field or two columns for the same field
 */
export async function layoutOf(
  file: ImportFile,
  beginning: Beginning,
  remembered: (headers: readonly string[]) => Promise<Mapping | undefined>,
): Promise<{ layout: CsvLayout; faults: Fault[] }> {
  const { separator, headers } = beginning;
  const known = file.guess ? await remembered(headers) : undefined;
  requireHeader(file, beginning, known);
  const first = firstColumns(headers);
  const decisions = headers.map((header, i) => {
    const decision = decide(file, beginning, first.get(header) === i ? known : undefined, header, i);
    return decision?.field === noteColumn.name && takesNoNotes(file) ? undefined : decision;
  });
  // Each of these steps takes up to 50 ms for 10,000 columns.
  await yieldToEventLoop();
  if (file.guess) await guessOthers(file, beginning, decisions);
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
  const isLenient = file.guess || file.ignore_unknown;
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
      isCustom(field) ? (readTypeOf(declared[i]) ?? decisions[i]?.type ?? null) : builtInType(file, field),
    ),
    isDeclared: columns.map((field, i) => declared[i] !== undefined || builtInType(file, field) !== null),
    misread: (isWindowsByDefault(file) ? misreadWord(textsOf(beginning)) : undefined) ?? lostWord(textsOf(beginning)),
  };
  return { layout, faults };
}

const isWindowsByDefault = ({ format, encoding, found_encoding: found }: ImportFile): boolean =>
  format === 'csv' && encoding === 'auto' && found === 'windows-1252';

// A sparse row of 10,000 columns is a row of empty cells.
const textsOf = ({ headers, records }: Beginning): string[] => [
  ...headers,
  ...records.flatMap(({ cells }) => cells.filter(({ text }) => text !== '').map(({ text }) => text)),
];

/** Returns true if the customer has chosen the column's field, in this import or in an earlier one. */
export const isMapped = (origin: MappingOrigin | null | undefined): boolean =>
  origin === 'given' || origin === 'remembered';

/**
 * Returns a column's field. Adds its type if it has one that the field does not fix. Only for layouts of the first
 * reading.
 */
export function mappedFieldOf({ columns, meant, types, isDeclared }: CsvLayout, i: number): MappedField {
  const [field, type] = [columns[i] ?? meant?.[i] ?? null, types?.[i]];
  return field !== null && type && !isDeclared?.[i] ? { field, type: type as CustomType } : field;
}

const readTypeOf = (field: DeclaredField | undefined): ReadType | undefined =>
  field && (field.type === 'long_text' || field.type === 'choice' ? 'text' : field.type);

const builtInType = ({ object }: ImportFile, field: string | null): ReadType | null =>
  (field === null ? undefined : importColumn(object, field)?.customType) ?? null;

const isKnown = ({ object }: ImportFile, field: string): boolean =>
  field === recordHeader || importColumn(object, field) !== undefined;

export const isCustom = (field: string | null): boolean => field !== null && customKey(field) !== undefined;

const unknownHeader = (header: string): Fault => ({
  path: pointerTo(['mapping', header]),
  message: `${quoted(header)} is not the name of a field`,
});

function missingMatch({ match }: ImportFile, columns: (string | null)[]): Fault[] {
  if (match === null || columns.includes(match) || columns.includes(recordHeader)) return [];
  return [{ path: '', message: `no column is for the field ${quoted(match)}, which identifies the records` }];
}

export const fileWarnings = ({ titles = [], footer = [] }: CsvLayout): string[] => [
  ...(titles.length === 0 ? [] : [`titles and degrees are left out of full names: ${titles.join(', ').slice(0, 500)}`]),
  ...(footer.length === 0 ? [] : [`${linesOf(footer)} left out: ${footerText}`]),
];

export const footerText = 'it looks like the footer of a report, not like a record';

function linesOf(footer: readonly FooterRecord[]): string {
  const [first, last] = [footer[0]!.line, footer.at(-1)!.line];
  return first === last ? `line ${first} is` : `lines ${first} to ${last} are`;
}
