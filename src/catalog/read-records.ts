import { isUtf8 } from 'node:buffer';
import { validationFailed } from '../errors.ts';
import { Prospect } from '../schemas/prospects.ts';
import { parseCsvRecord } from './csv.ts';
import { toDocument, type CatalogDocument } from './document.ts';
import { BadRecord, readPerson, type GivenPerson } from './person.ts';
import type { RawRecord } from './records.ts';

export type Format = 'ndjson' | 'csv';

/**
 * Makes a document of each record of a file, in their order from the first one.
 * @returns a document; a text that says why the record is none; undefined for a record that says nothing
 */
export interface RecordReader {
  read(record: RawRecord): CatalogDocument | string | undefined;
  /** The columns are not named yet: a record must be read even if it was read before an interruption. */
  isAtHeader(): boolean;
}

/** @param importedAt stands for a missing `date_verified` */
export function readerOf(format: Format, importedAt: string): RecordReader {
  const header = format === 'csv' ? new CsvHeader() : undefined;
  const toGiven = (text: string): GivenPerson | undefined => (header ? header.read(text) : readJson(text));
  return {
    isAtHeader: () => header?.isMissing === true,
    read: (record) => {
      const text = textOf(record);
      if (text === undefined || text.trim() === '') {
        const fault = text === undefined ? faultOf(record) : undefined;
        // What follows would be read by the wrong columns.
        if (fault !== undefined && header?.isMissing) throw badHeader(fault);
        return fault;
      }
      try {
        const given = toGiven(text);
        return given && toDocument(readPerson(given, importedAt));
      } catch (error) {
        if (error instanceof BadRecord) return error.message;
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

function readJson(text: string): GivenPerson {
  const given = parseJson(text);
  if (typeof given !== 'object' || given === null || Array.isArray(given)) throw new BadRecord('is not a JSON object');
  return given as GivenPerson;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new BadRecord('is not valid JSON');
  }
}

/** The first record of a CSV file, which names the columns of the others. */
class CsvHeader {
  #columns: string[] | undefined;
  #text = '';

  get isMissing(): boolean {
    return this.#columns === undefined;
  }

  /** Returns a record by the names of its columns; nothing for the header itself. */
  read(text: string): GivenPerson | undefined {
    const fields = parseCsvRecord(text);
    if (!this.#columns) {
      this.#columns = columnsOf(fields);
      this.#text = text;
      return undefined;
    }
    const names = this.#columns;
    if (text === this.#text) throw new BadRecord('repeats the first line');
    if (fields.length !== names.length)
      throw new BadRecord(`has ${fields.length} fields where the first line names ${names.length}`);
    return Object.fromEntries(fields.map((field, i) => [names[i]!, field]));
  }
}

function columnsOf(fields: string[]): string[] {
  if (fields.some((field) => field.includes('\r')))
    throw badHeader('ends its lines with CR alone; they must end with LF or CR LF');
  const columns = fields.map((field) => field.trim());
  if (!columns.some(isMember)) throw badHeader('names no member of a prospect');
  const twice = columns.find((column, i) => isMember(column) && columns.indexOf(column) !== i);
  if (twice !== undefined) throw badHeader(`names ${twice} twice`);
  return columns;
}

const isMember = (column: string): boolean => Object.hasOwn(Prospect.properties, column);

const badHeader = (fault: string) =>
  validationFailed([{ path: '', message: `the first line of the CSV file ${fault}` }]);
