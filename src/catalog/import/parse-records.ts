import { validationFailed } from '../../errors.ts';
import { faultTexts, type RawRecord, type RecordFault } from '../../files/raw-records.ts';
import { Prospect } from '../../schemas/prospects.ts';
import { toDocument } from '../document.ts';
import { InvalidRecord, parsePerson, type ImportedFields } from './parse-person.ts';
import type { ImportedPerson, PersonIds } from './person-ids.ts';

export type Format = 'ndjson' | 'csv';

export interface RecordReader {
  /**
   * @returns the person; what is wrong with the record; undefined for the CSV header
   * @throws DomainError `validation_failed` if the CSV header is unusable
   */
  read(record: RawRecord): ImportedPerson | string | undefined;
  /** The CSV header has not been read. A resumed import must read it first. */
  isAtHeader(): boolean;
}

/** @param context `date_verified` (ISO 8601) of people who have none, and how ids are computed */
export function readerOf(format: Format, context: { importedAt: string; ids: PersonIds }): RecordReader {
  const header = format === 'csv' ? new CsvHeader() : undefined;
  const toGiven = (record: RawRecord): ImportedFields | undefined =>
    header ? header.read(record) : readJson(record.cells[0]!.text);
  return {
    isAtHeader: () => header?.isMissing === true,
    read: (record) => {
      if (record.fault !== undefined) {
        const fault = faults[record.fault];
        // Without its header, the rest of the file would be read with the wrong columns.
        if (header?.isMissing) throw badHeader(fault);
        return fault;
      }
      try {
        const given = toGiven(record);
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

const faults: Record<RecordFault, string> = {
  ...faultTexts,
  'too long': 'is too long: more than 1 MiB',
  'open quote': 'has a quote that is never closed, or not within 1 MiB',
};

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

class CsvHeader {
  #columns: string[] | undefined;
  #fields: string[] = [];

  get isMissing(): boolean {
    return this.#columns === undefined;
  }

  /** Returns a record's values by column name. Undefined for the header. */
  read({ cells, endsWithCr }: RawRecord): ImportedFields | undefined {
    const fields = cells.map(({ text }) => text);
    if (!this.#columns) {
      if (endsWithCr) throw badHeader('ends its lines with CR alone; they must end with LF or CR LF');
      this.#columns = columnsOf(fields);
      this.#fields = fields;
      return undefined;
    }
    const names = this.#columns;
    if (fields.length !== names.length)
      throw new InvalidRecord(`has ${fields.length} fields where the first line names ${names.length}`);
    if (fields.every((field, i) => field === this.#fields[i])) throw new InvalidRecord('repeats the first line');
    return Object.fromEntries(fields.map((field, i) => [names[i]!, field]));
  }
}

function columnsOf(fields: string[]): string[] {
  const columns = fields.map((field) => field.trim());
  if (!columns.some(isMember)) throw badHeader('names no field of a prospect');
  const twice = columns.find((column, i) => isMember(column) && columns.indexOf(column) !== i);
  if (twice !== undefined) throw badHeader(`names ${twice} twice`);
  return columns;
}

const isMember = (column: string): boolean => Object.hasOwn(Prospect.properties, column);

const badHeader = (fault: string) =>
  validationFailed([{ path: '', message: `the first line of the CSV file ${fault}` }]);
