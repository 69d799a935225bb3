import { randomBytes } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { rename, rm, stat } from 'node:fs/promises';
import { Readable, type Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { InvalidArgumentError, Option, type Command } from 'commander';
import type { Database, Transaction } from '../database/db.ts';
import { readFields } from '../files/columns.ts';
import { openExport, type ExportedRecords } from '../files/write-records.ts';
import { requireCustomer } from '../queries/accounts/customers.ts';
import { exportFormats, fieldSets, type ExportFormat, type FileFields, type GivenFields } from '../schemas/files.ts';
import { asUuid, commandAction, ignoreQuit, UsageError, asInteger, asSome, table } from './command.ts';
import { withDatabase, withServices } from './database.ts';
import { progressOn } from './progress.ts';
import { estimateEnrichment, findEnriched, startEnrichment } from '../jobs/enrichment.ts';
import { findDuplicates } from '../queries/crm/duplicates.ts';
import { mergeCompanies, mergeContacts } from '../queries/crm/record-merges.ts';
import {
  enrichedFields,
  companyDuplicateKeys,
  contactDuplicateKeys,
  CompanyMerge,
  ContactMerge,
  mergedCompanyFields,
  mergedContactFields,
} from '../schemas/clean-data.ts';
import type { EnrichedField, EnrichEstimate, DuplicateGroup, DuplicateKey, Merge } from '../schemas/clean-data.ts';
import type { JobStarted } from '../schemas/jobs.ts';
import { compile } from '../validation/validator.ts';

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
  command
    .command('export')
    .description(`write all ${noun} of a customer to a file or to standard output`)
    .requiredOption('--customer <id>', `customer of the ${noun}`, asUuid)
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
        await commandAction(
          () => exportToFile(exportable, { ...options, format, output }),
          print,
        )({ json: json === true });
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

export function formatOf<Format extends string>(file: string, formats: readonly Format[]): Format {
  const format = formats.find((one) => file.toLowerCase().endsWith(`.${one}`));
  if (format) return format;
  const options = formats.map((one) => `--format ${one}`).join(' or ');
  throw new UsageError(`the file name does not show the format: add ${options}`);
}

/**
 * Writes to a temporary file with the ending `.partial`, and renames it when it is complete. Writes directly to an
 * `output` that is not a regular file (e.g. a pipe).
 */
async function exportToFile(exportable: Exportable, options: ChosenOptions & { output: string }): Promise<Exported> {
  const { customer, output } = options;
  const isReplaceable = await stat(output).then(
    (found) => found.isFile(),
    () => true,
  );
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

const exportTo = (
  stream: Writable,
  { noun, open }: Exportable,
  { customer, format, fields }: ChosenOptions,
): Promise<number> =>
  withDatabase(async (db) => {
    const { id } = await db.transaction((sql) => requireCustomer(sql, customer));
    const exported = open(db, id);
    const progress = progressOn(process.stderr, await exported.count());
    let records = 0;
    const show = (page: object[]): void => {
      records += page.length;
      progress.show(records, `${records} ${noun}`, records);
    };
    try {
      const file = await openExport(exported, { format, fields }, show);
      await pipeline(Readable.from(file), stream, { end: stream !== process.stdout }).catch(ignoreQuit);
      return records;
    } finally {
      progress.end();
    }
  });

const kinds = {
  contacts: { keys: contactDuplicateKeys, fields: mergedContactFields, body: ContactMerge, merge: mergeContacts },
  companies: { keys: companyDuplicateKeys, fields: mergedCompanyFields, body: CompanyMerge, merge: mergeCompanies },
} as const;

type Noun = keyof typeof kinds;

export function defineCleaning(command: Command, noun: Noun): void {
  const { keys, fields } = kinds[noun];
  command
    .command('duplicates')
    .description(`list the values that several ${noun} share, the most frequent first`)
    .requiredOption('--customer <id>', `customer of the ${noun}`, asUuid)
    .addOption(new Option('--by <value>', 'what they share').choices(keys).default(keys[0]))
    .option('--limit <number>', 'maximum number of values', asInteger(1, 10_000), 100)
    .action(commandAction(duplicates, printGroups));

  command
    .command('merge')
    .description(`make one of several ${noun}: --id stays and is filled from the others, which are deleted`)
    .requiredOption('--customer <id>', `customer of the ${noun}`, asUuid)
    .requiredOption('--id <id>', 'the one that stays', asUuid)
    .requiredOption('--merge-ids <ids>', 'the others, separated by commas', asUuids)
    .option(
      '--field <name=id>',
      `whose value is taken for a field; can be repeated. Fields: ${fields.join(', ')}`,
      addField,
    )
    .action(commandAction(merging(noun), ({ id, merged }) => `Merged ${merged.length} ${noun} into ${id}`));
}

export function defineEnrichment(command: Command): void {
  command
    .command('enrich')
    .description('fill empty fields of contacts from the catalog; says what it costs, and starts only with --yes')
    .requiredOption('--customer <id>', 'customer of the contacts', asUuid)
    .option('--list <id>', 'only the members of this list', asUuid)
    .option('--ids <ids>', 'only these contacts, separated by commas', asUuids)
    .option('--fields <fields>', 'fields that may be filled; default: all', asSome('field', enrichedFields))
    .option('--overwrite', 'also fields that are not empty')
    .option('--max-credits <number>', 'the most that it may cost', asInteger(0, maxCredits))
    .option('--yes', 'start it; needs --max-credits')
    .action(commandAction(enrich, printEnrichment));
}

const asUuids = (value: string): string[] => value.split(',').map((id) => asUuid(id.trim()));

function addField(value: string, fields: Record<string, string> = {}): Record<string, string> {
  const [name = '', id = ''] = value.split('=');
  if (name === '') throw new InvalidArgumentError('It must be a field and an id, such as job_title=<id>.');
  return { ...fields, [name]: asUuid(id) };
}

const groupsAtOnce = 100;

const duplicates = ({ customer, by, limit }: { customer: string; by: DuplicateKey; limit: number }) =>
  withServices(async ({ db: all }) => {
    const { id } = await all.transaction((sql) => requireCustomer(sql, customer));
    const db = all.for({ customerId: id }, 'command');
    const found: DuplicateGroup[] = [];
    for (let page = 1; found.length < limit; page += 1) {
      const { rows: groups } = await findDuplicates(db, id, { by, paginate: { page, limit: groupsAtOnce } });
      found.push(...groups);
      if (groups.length < groupsAtOnce) break;
    }
    return found.slice(0, limit);
  });

const printGroups = (groups: DuplicateGroup[]): string =>
  table(groups, {
    VALUE: ({ value }) => value,
    COUNT: ({ count }) => String(count),
    IDS: ({ ids }) => ids.join(','),
  });

interface MergeOptions {
  customer: string;
  id: string;
  mergeIds: string[];
  field?: Record<string, string>;
}

const merging = (noun: Noun) => {
  const { body, merge } = kinds[noun];
  const check = compile(body);
  return ({
    customer,
    id,
    mergeIds: merge_ids,
    field: fields,
  }: MergeOptions): Promise<{ id: string; merged: string[] }> =>
    withServices(async ({ db }) => {
      const given: Merge = { id, merge_ids, ...(fields ? { fields } : {}) };
      const valid = check(given);
      if (valid !== true) throw valid.error;
      const found = await db.transaction((sql) => requireCustomer(sql, customer));
      await db.for({ customerId: found.id }, 'command').transaction((sql: Transaction) => merge(sql, found.id, given));
      return { id, merged: merge_ids };
    });
};

const maxCredits = 1_000_000_000;

interface EnrichOptions {
  customer: string;
  list?: string;
  ids?: string[];
  fields?: EnrichedField[];
  overwrite?: true;
  maxCredits?: number;
  yes?: true;
}

function enrich({ yes, ...options }: EnrichOptions): Promise<EnrichEstimate | JobStarted> {
  if (yes && options.maxCredits === undefined) throw new UsageError('--yes needs --max-credits');
  if (options.list && options.ids) throw new UsageError('give --list or --ids, not both');
  return withServices(async ({ db: all, config }) => {
    const { id: customerId } = await all.transaction((sql) => requireCustomer(sql, options.customer));
    const db = all.for({ customerId }, 'command');
    const { list, ids, fields, overwrite = false } = options;
    const body = {
      ...(ids ? { contact_ids: ids } : { filters: list ? { list_id: list } : {} }),
      ...(fields ? { fields } : {}),
      overwrite,
      max_credits: options.maxCredits ?? maxCredits,
    };
    const contacts = await findEnriched(db, customerId, body);
    const act = yes ? startEnrichment : estimateEnrichment;
    return db.transaction<EnrichEstimate | JobStarted>((sql) =>
      act(sql, { customerId, apiKeyId: null }, config, body, contacts),
    );
  });
}

const printEnrichment = (result: EnrichEstimate | JobStarted): string =>
  'id' in result
    ? `Started job ${result.id}`
    : `${result.contacts} contacts cost at most ${result.cost} credits; ${result.available} are available. Add --yes to start.`;
