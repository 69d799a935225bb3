import { isUtf8 } from 'node:buffer';
import { validationFailed } from '../../errors.ts';
import { Prospect } from '../../schemas/prospects.ts';
import { toDocument } from '../document.ts';
import { parseCsvRecord } from './csv.ts';
import { InvalidRecord, parsePerson, type ImportedFields } from './parse-person.ts';
import type { ImportedPerson, PersonIds } from './person-ids.ts';
import type { RawRecord } from './split-records.ts';

/** The format of an imported file: one JSON object per line, or CSV. */
export type Format = 'ndjson' | 'csv';

/**
 * A parser for the records of one imported file. Pass the records to `read` in the order of the file, and begin with
 * the header if the file is a CSV file.
 */
export interface RecordReader {
  /**
   * Parses a record of the file into a person.
   * @returns the person to store; a text that says what is wrong if the record is invalid; undefined for a blank record
   *   or the CSV header
   * @throws DomainError `validation_failed` if the CSV header is unusable
   */
  read(record: RawRecord): ImportedPerson | string | undefined;
  /**
   * Returns true if the file is a CSV file and its header has not been read yet. A resumed import must first read the
   * header.
   */
  isAtHeader(): boolean;
}

/**
 * Creates a parser for the records of one imported file.
 * @param context the value of `date_verified` (ISO 8601) for people who do not have one, and how ids are computed
 */
export function readerOf(format: Format, context: { importedAt: string; ids: PersonIds }): RecordReader {
  const header = format === 'csv' ? new CsvHeader() : undefined;
  const toGiven = (text: string): ImportedFields | undefined => (header ? header.read(text) : readJson(text));
  return {
    isAtHeader: () => header?.isMissing === true,
    read: (record) => {
      const text = textOf(record);
      if (text === undefined || text.trim() === '') {
        const fault = text === undefined ? faultOf(record) : undefined;
        // Without its header, the rest of the file would be read with the wrong columns.
        if (fault !== undefined && header?.isMissing) throw badHeader(fault);
        return fault;
      }
      try {
        const given = toGiven(text);
        if (given === undefined) return undefined;
        const { prospect, formerId } = parsePerson(given, context);
        return { document: toDocument(prospect), formerId };
      } catch (error) {
        if (error instanceof InvalidRecord) return error.message;
        throw error;
      }
    },
  };
}

const textOf = ({ bytes, line }: RawRecord): string | undefined => {
  if (!bytes || !isUtf8(bytes)) return undefined;
  return line === 1 ? bytes.toString().replace(/^\ufeff/, '') : bytes.toString();
};

const faultOf = ({ bytes, fault }: RawRecord): string => (bytes ? 'is not valid UTF-8' : (fault ?? 'cannot be read'));

function readJson(text: string): ImportedFields {
  const given = parseJson(text);
  if (typeof given !== 'object' || given === null || Array.isArray(given))
    throw new InvalidRecord('is not a JSON object');
  return given as ImportedFields;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new InvalidRecord('is not valid JSON');
  }
}

/** The header of a CSV file: its first record that is not blank, which names the columns. */
class CsvHeader {
  #columns: string[] | undefined;
  #text = '';

  get isMissing(): boolean {
    return this.#columns === undefined;
  }

  /**
   * Parses a CSV record and returns its values by column name. Returns undefined for the first record, which is the
   * header.
   */
  read(text: string): ImportedFields | undefined {
    const fields = parseCsvRecord(text);
    if (!this.#columns) {
      this.#columns = columnsOf(fields);
      this.#text = text;
      return undefined;
    }
    const names = this.#columns;
    if (text === this.#text) throw new InvalidRecord('repeats the first line');
    if (fields.length !== names.length)
      throw new InvalidRecord(`has ${fields.length} fields where the first line names ${names.length}`);
    return Object.fromEntries(fields.map((field, i) => [names[i]!, field]));
  }
}

function columnsOf(fields: string[]): string[] {
  if (fields.some((field) => field.includes('\r')))
    throw badHeader('ends its lines with CR alone; they must end with LF or CR LF');
  const columns = fields.map((field) => field.trim());
  if (!columns.some(isMember)) throw badHeader('names no field of a prospect');
  const twice = columns.find((column, i) => isMember(column) && columns.indexOf(column) !== i);
  if (twice !== undefined) throw badHeader(`names ${twice} twice`);
  return columns;
}

const isMember = (column: string): boolean => Object.hasOwn(Prospect.properties, column);

const badHeader = (fault: string) =>
  validationFailed([{ path: '', message: `the first line of the CSV file ${fault}` }]);
