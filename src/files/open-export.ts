import { validationFailed } from '../errors.ts';
import {
  defaultFields,
  maxReadableKeys,
  maxXlsxRecords,
  type ExportFormat,
  type FileFields,
  type GivenFields,
} from '../schemas/files.ts';
import { columnsOf, type LabelledKey } from './columns.ts';
import { fileOf } from './write-records.ts';

/** The records that an export selects. Each function reads them anew. */
export interface ExportedRecords {
  fields: FileFields;
  /** What the records are, such as `Contacts`. */
  title: string;
  /**
   * Starts to read all of them, page by page.
   * @param withLists whether contacts have the names of their lists as `list_names`
   */
  read: (withLists: boolean) => Promise<AsyncGenerator<object[]>>;
  count: () => Promise<number>;
  /**
   * Returns their custom fields, in the alphabetical order of the keys.
   * @param most maximum number of fields to return
   */
  readKeys: (most: number) => Promise<LabelledKey[]>;
}

/**
 * Starts an export, and returns its file in pieces.
 * @param onPage called after each page of records was written
 * @throws DomainError `validation_failed` if the format cannot hold these fields or so many records
 */
export async function openExport(
  records: ExportedRecords,
  { format, fields: selected = defaultFields(format) }: { format: ExportFormat; fields?: GivenFields | undefined },
  onPage?: (page: object[]) => void,
): Promise<AsyncGenerator<string | Buffer>> {
  const { fields, title } = records;
  const isReadable = selected === 'readable';
  if (isReadable && format === 'ndjson') throw fault('/fields', '"readable" is for csv and xlsx only');
  if (format === 'xlsx') await requireFew(records);
  const columns = columnsOf(fields, selected, format, isReadable ? await readKeys(records) : []);
  return fileOf({ format, columns, title }, await records.read(isReadable), onPage);
}

async function requireFew({ count }: ExportedRecords): Promise<void> {
  const total = await count();
  if (total <= maxXlsxRecords) return;
  const [most, found] = [maxXlsxRecords, total].map((number) => number.toLocaleString('en'));
  throw fault('/format', `xlsx holds at most ${most} records, and ${found} match: narrow the filters, or use csv`);
}

async function readKeys({ readKeys }: ExportedRecords): Promise<LabelledKey[]> {
  const keys = await readKeys(maxReadableKeys + 1);
  if (keys.length <= maxReadableKeys) return keys;
  const most = maxReadableKeys.toLocaleString('en');
  throw fault(
    '/fields',
    `"readable" has a column for each custom field, and there are more than ${most}: name the fields`,
  );
}

const fault = (path: string, message: string) => validationFailed([{ path, message }]);
