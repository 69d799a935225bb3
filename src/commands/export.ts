import { randomBytes } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { rename, rm, stat } from 'node:fs/promises';
import { Readable, type Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { InvalidArgumentError, Option, type Command } from 'commander';
import type { Database } from '../database/db.ts';
import { readFields } from '../files/columns.ts';
import { openExport, type ExportedRecords } from '../files/write-records.ts';
import { exportFormats, fieldSets, type ExportFormat, type FileFields, type GivenFields } from '../schemas/files.ts';
import { formatOf, ignoreQuit, printed, UsageError, verb } from './command.ts';
import { withCustomer } from './database.ts';
import { withProgress } from './progress.ts';

interface Exportable {
  noun: string;
  fields: FileFields;
  open: (db: Database, customerId: string) => ExportedRecords;
}

interface ExportOptions {
  customer: string;
  format?: ExportFormat;
  fields?: GivenFields;
  output?: string;
  json?: boolean;
}

type ChosenOptions = ExportOptions & { format: ExportFormat };

interface Exported {
  customer_id: string;
  records: number;
  output: string;
}

export function defineExport(command: Command, exportable: Exportable): void {
  const { noun, fields } = exportable;
  verb(command, 'export', `write all ${noun} of a customer to a file or to standard output`, 'customer')
    .addOption(
      new Option('--format <format>', 'default: as the ending of the file says, else csv').choices(exportFormats),
    )
    .option(
      '--fields <fields>',
      'importable, readable (default of xlsx), all, or names separated by commas',
      asFields(fields),
    )
    .option('--output <file>', 'file to write; default: standard output')
    .action(async ({ json, ...options }: ExportOptions) => {
      const { output, format = output === undefined ? 'csv' : formatOf(output, exportFormats), fields } = options;
      if (fields === 'readable' && format === 'ndjson')
        throw new UsageError('--fields readable is for csv and xlsx only');
      if (output !== undefined) {
        const print = ({ records }: Exported) => `Wrote ${records} ${noun} to ${output}`;
        printed({ json: json === true }, await exportToFile(exportable, { ...options, format, output }), print);
      } else if (json) throw new UsageError('--json needs --output, because standard output is for the records');
      else await exportTo(process.stdout, exportable, { ...options, format });
    });
}

const asFields =
  (fields: FileFields) =>
  (text: string): GivenFields => {
    const isSet = fieldSets.some((name) => name === text);
    const selected = isSet ? text : text.split(',').map((name) => name.trim());
    const { faults } = readFields(fields, selected, '');
    const [fault] = faults;
    if (fault) throw new InvalidArgumentError(`${selected[Number(fault.path.slice(1))]} ${fault.message}.`);
    return selected;
  };

/**
 * Writes to a temporary file with the ending `.partial`, and renames it when it is complete. Writes directly to an
 * `output` that is not a regular file (e.g. a pipe).
 */
async function exportToFile(exportable: Exportable, options: ChosenOptions & { output: string }): Promise<Exported> {
  const { customer, output } = options;
  const known = await stat(output).catch(() => undefined);
  const isReplaceable = known === undefined || known.isFile();
  // With a name that no other export to this file uses: both would write into one file.
  const path = isReplaceable ? `${output}.${randomBytes(4).toString('hex')}.partial` : output;
  try {
    const records = await exportTo(createWriteStream(path), exportable, options);
    if (isReplaceable) await rename(path, output);
    return { customer_id: customer, records, output };
  } catch (error) {
    if (isReplaceable) await rm(path, { force: true });
    throw error;
  }
}

const exportTo = (stream: Writable, { noun, open }: Exportable, { customer, format, fields }: ChosenOptions) =>
  withCustomer(customer, async ({ db }, { id }) => {
    const exported = open(db, id);
    return withProgress(await exported.count(), async (progress) => {
      let records = 0;
      const file = await openExport(exported, { format, fields }, (page) => {
        records += page.length;
        progress.show(records, `${records} ${noun}`, records);
      });
      await pipeline(Readable.from(file), stream, { end: stream !== process.stdout }).catch(ignoreQuit);
      return records;
    });
  });
