import { createWriteStream } from 'node:fs';
import { rename, rm, stat } from 'node:fs/promises';
import { Readable, type Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { InvalidArgumentError, Option, type Command } from 'commander';
import type { Database } from '../database/db.ts';
import { columnsOf, readFields } from '../files/columns.ts';
import { fileText, recordWriter } from '../files/write-records.ts';
import { requireCustomer } from '../queries/accounts/customers.ts';
import { fileFormats, type FileFields, type FileFormat, type GivenFields } from '../schemas/files.ts';
import type { Metadata } from '../schemas/base/wire.ts';
import { asUuid, commandAction, ignoreQuit, UsageError } from './shell/command.ts';
import { withDatabase } from './database.ts';
import { progressOn } from './shell/progress.ts';

export interface Exportable {
  /** As in messages, e.g. `contacts`. */
  noun: string;
  fields: FileFields;
  /** Returns a generator of all records of a customer, page by page. */
  read: (db: Database, customerId: string) => Promise<AsyncGenerator<object[]>>;
  count: (db: Database, customerId: string) => Promise<Metadata>;
}

interface ExportOptions {
  customer: string;
  format?: FileFormat;
  fields?: GivenFields;
  output?: string;
  json?: boolean;
}

interface Exported {
  customer_id: string;
  records: number;
  output: string;
}

export function defineExport(command: Command, exportable: Exportable): void {
  const { noun, fields } = exportable;
  command
    .command('export')
    .description(`write all ${noun} of a customer to a file or to standard output`)
    .requiredOption('--customer <id>', `customer of the ${noun}`, asUuid)
    .addOption(
      new Option('--format <format>', 'default: as the ending of the file says, else csv').choices(fileFormats),
    )
    .option('--fields <fields>', 'importable (default), all, or names separated by commas', asFields(fields))
    .option('--output <file>', 'file to write; default: standard output')
    .action(async ({ json, ...options }: ExportOptions) => {
      const { output } = options;
      if (output !== undefined) {
        const print = ({ records }: Exported) => `Wrote ${records} ${noun} to ${output}`;
        await commandAction(() => exportToFile(exportable, { ...options, output }), print)({ json: json === true });
      } else if (json) throw new UsageError('--json needs --output, because standard output is for the records');
      else await exportTo(process.stdout, exportable, options);
    });
}

const asFields =
  (fields: FileFields) =>
  (text: string): GivenFields => {
    const selected = text === 'importable' || text === 'all' ? text : text.split(',').map((name) => name.trim());
    const { faults } = readFields(fields, selected, '');
    const [fault] = faults;
    if (fault) throw new InvalidArgumentError(`${selected[Number(fault.path.slice(1))]} ${fault.message}.`);
    return selected;
  };

/** @throws UsageError if the extension is unknown */
export function formatOf(file: string): FileFormat {
  const format = fileFormats.find((one) => file.toLowerCase().endsWith(`.${one}`));
  if (!format) throw new UsageError('the file name does not show the format: add --format csv or --format ndjson');
  return format;
}

/**
 * Writes to a file with the ending `.partial`, and renames it when it is complete. Writes directly to an `output` that
 * is not a regular file (e.g. a pipe).
 */
async function exportToFile(exportable: Exportable, options: ExportOptions & { output: string }): Promise<Exported> {
  const { customer, output, format = formatOf(output) } = options;
  const isReplaceable = await stat(output).then(
    (found) => found.isFile(),
    () => true,
  );
  const path = isReplaceable ? `${output}.partial` : output;
  try {
    const records = await exportTo(createWriteStream(path), exportable, { ...options, format });
    if (isReplaceable) await rename(path, output);
    return { customer_id: customer, records, output };
  } catch (error) {
    if (isReplaceable) await rm(path, { force: true });
    throw error;
  }
}

/** Returns the number of records. */
const exportTo = (
  stream: Writable,
  { noun, fields, read, count }: Exportable,
  { customer, format = 'csv', fields: selected }: ExportOptions,
): Promise<number> =>
  withDatabase(async (db) => {
    const { id } = await db.transaction((sql) => requireCustomer(sql, customer));
    const { pagination } = await count(db, id);
    const progress = progressOn(process.stderr, pagination.total_records);
    let records = 0;
    const show = (page: object[]): void => {
      records += page.length;
      progress.show(records, `${records} ${noun}`, records);
    };
    try {
      const writer = recordWriter(format, columnsOf(fields, selected, format));
      const text = fileText(writer, await read(db, id), show);
      await pipeline(Readable.from(text), stream, { end: stream !== process.stdout }).catch(ignoreQuit);
      return records;
    } finally {
      progress.end();
    }
  });
