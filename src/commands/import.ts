import { createInterface } from 'node:readline/promises';
import { createHash } from 'node:crypto';
import { createReadStream, createWriteStream } from 'node:fs';
import { mkdtemp, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { InvalidArgumentError, Option, type Command } from 'commander';
import type { Database } from '../database/db.ts';
import type { Fault } from '../errors.ts';
import { previewImport, type DetailedPreview } from '../jobs/preview-import.ts';
import { cancelImport, startUploaded, receiveFile, beginImport } from '../jobs/start-import.ts';
import { allImports, requireImport, findInterruptedImport } from '../queries/jobs/imports.ts';
import {
  fieldOfMapped,
  customTypes,
  importFormats,
  importedKinds,
  importModes,
  invalidValues,
  type Import,
  type ImportCreate,
  type ImportFormat,
  type ImportMode,
  type ImportObject,
  type InvalidValues,
  type Mapping,
} from '../schemas/imports.ts';
import { type Progress, withProgress } from './progress.ts';
import { gunzipIfPacked } from '../files/encodings.ts';
import { openErrorsFile } from '../jobs/errors-file.ts';
import { hasWorker } from '../queries/jobs/runs.ts';
import type { MatchField } from '../schemas/batches.ts';
import { asName, asNextUuid, printed, table, UsageError, keepHeapSmall, verb } from './command.ts';
import { withCustomer } from './database.ts';

const canAsk = (isStandardInput: boolean): boolean => !isStandardInput && process.stdin.isTTY && process.stderr.isTTY;

/**
 * Shows how the columns of a file are read, and starts its import if the user agrees. Does nothing if an earlier run of
 * the command has started it.
 * @throws Error after it has cancelled the import, because the import cannot run or the user does not agree
 */
async function showAndStart(
  db: Database,
  customerId: string,
  id: string,
  { asks, progress }: { asks: boolean; progress: Progress },
): Promise<void> {
  const ref = { id, visible: allImports };
  const { status } = await db.lookup((sql) => requireImport(sql, customerId, id, allImports));
  if (status !== 'UPLOADED') return;
  const preview = await previewImport(db, { customerId }, ref);
  await progress.line(tableOf(preview));
  for (const warning of preview.warnings.filter(isShown)) await progress.line(`Warning: ${warningText(warning)}`);
  const fault = preview.errors.find(({ path }) => !path.startsWith('/records/'));
  if (!fault && (!asks || (await isAgreed()))) return db.transaction((sql) => startUploaded(sql, customerId, ref));
  await db.transaction((sql) => cancelImport(sql, customerId, ref));
  throw new Error(fault ? `The file cannot be imported: ${fault.message}` : 'Nothing was imported');
}

const isShown = ({ path }: Fault): boolean => !path.startsWith('/mapping/');

function warningText({ path, message }: Fault): string {
  const [, record, field] = /^\/records\/(\d+)\/(.*)$/.exec(path) ?? [];
  return record === undefined ? message : `record ${Number(record) + 1}, ${field}: ${message}`;
}

const tableOf = ({ columns, mapping, mapping_from: from }: DetailedPreview): string =>
  table(columns, {
    COLUMN: 'header',
    FIELD: ({ header, type }) => {
      const field = fieldOfMapped(mapping?.[header] ?? null);
      return field === null ? '(left out)' : type ? `${field} (${type})` : field;
    },
    FROM: ({ header }) => from?.[header] ?? '',
    'FIRST VALUE': ({ samples }) => samples[0] ?? '',
  });

async function isAgreed(): Promise<boolean> {
  const lines = createInterface({ input: process.stdin, output: process.stderr });
  try {
    return /^y(?:es)?$/i.test((await lines.question('Import the file so? [y/N] ')).trim());
  } finally {
    lines.close();
  }
}

interface ImportOptions {
  customer: string;
  mode: ImportMode;
  match?: MatchField;
  format?: ImportFormat;
  encoding?: string;
  sheet?: string;
  mapping?: Mapping;
  guess?: true;
  yes?: true;
  invalidValues?: InvalidValues;
  ignoreUnknown?: true;
  list?: string[];
  dryRun?: true;
  name?: string;
  errors?: string;
  json?: boolean;
}

export function defineImport(command: Command, object: ImportObject): void {
  const added = verb(
    command,
    'import <file>',
    `write ${object} from a CSV, NDJSON or XLSX file, gzipped or not; - is standard input. After an interruption, the same command goes on`,
    'customer',
  )
    .addOption(new Option('--mode <mode>', 'what to do with the records').choices(importModes).default('create'))
    .addOption(
      new Option('--match <field>', 'field that names the stored record; default for update: id').choices(
        importedKinds[object].matches,
      ),
    )
    .addOption(new Option('--format <format>', 'default: as the file shows').choices(importFormats))
    .option('--encoding <name>', 'encoding of a CSV file, such as windows-1252; default: as the file shows')
    .option('--sheet <name>', 'sheet of an XLSX file; default: the first')
    .option('--mapping <json>', 'fields of headers, such as {"E-Mail": "work_email", "Notes": null}', asMapping)
    .option('--guess', 'find the fields of other headers, show the mapping, and ask before the import starts')
    .option('--yes', 'with --guess: start without a question')
    .addOption(
      new Option('--invalid-values <what>', 'leave out values that cannot be read, or fail their records').choices(
        invalidValues,
      ),
    )
    .option('--ignore-unknown', 'leave out columns whose header names no field')
    .option('--dry-run', 'write nothing, only count what would happen')
    .option('--name <name>', 'name of the import', asName)
    .option('--errors <file>', 'file to write the failed records to')
    .action((file: string, options: ImportOptions) => importAndReport(object, file, options));
  if (object === 'contacts') added.option('--list <id>', 'list to add the contacts to; repeatable', asNextUuid);
}

function asMapping(text: string): Mapping {
  try {
    const mapping: unknown = JSON.parse(text);
    if (typeof mapping === 'object' && mapping !== null && Object.values(mapping).every(isField))
      return mapping as Mapping;
  } catch {
    // The error below says what is expected.
  }
  throw new InvalidArgumentError('It must be a JSON object of headers and fields, or null to leave a column out.');
}

const isField = (mapped: unknown): boolean =>
  mapped === null ||
  typeof mapped === 'string' ||
  (typeof mapped === 'object' &&
    'field' in mapped &&
    (customTypes as readonly unknown[]).includes((mapped as { type?: unknown }).type));

async function importAndReport(object: ImportObject, file: string, options: ImportOptions): Promise<void> {
  const print = ({ status, created, updated, unchanged, failed, warnings }: Import) =>
    `${status}: ${created} created, ${updated} updated, ${unchanged} unchanged, ${failed} failed` +
    (warnings > 0 ? `, ${warnings} written with a value left out` : '');
  const { status, error } = printed(options, await importFile(object, file, options), print);
  if (status !== 'COMPLETED') throw new Error(error ?? `The import is ${status}`);
}

async function importFile(object: ImportObject, file: string, options: ImportOptions): Promise<Import> {
  keepHeapSmall(50);
  const isStandardInput = file === '-';
  if (!isStandardInput && !(await isFile(file))) throw new UsageError(`there is no file ${file}`);
  if (options.guess && !options.yes && !canAsk(isStandardInput))
    throw new UsageError('--guess asks before it starts, which needs a terminal: add --yes');
  if (!isStandardInput) return importStored(object, file, options);
  // Its fingerprint must be known before the import begins, or a repeated command would write everything twice.
  const folder = await mkdtemp(join(tmpdir(), 'import-'));
  try {
    const copy = join(folder, 'file');
    await pipeline(process.stdin, createWriteStream(copy, { mode: 0o600 }));
    return await importStored(object, copy, options);
  } finally {
    await rm(folder, { recursive: true });
  }
}

async function importStored(object: ImportObject, file: string, options: ImportOptions): Promise<Import> {
  const settings = settingsOf(object, options);
  const open = () => gunzipIfPacked(createReadStream(file));
  const fingerprint = await fingerprintOf(settings, open());
  return withProgress(undefined, (progress) =>
    withCustomer(options.customer, async ({ db }, { id: customerId, status }) => {
      if (status !== 'OK') throw new Error('The customer is suspended, so its imports wait: resume it first');
      const id = await findOrBegin(db, customerId, settings, fingerprint);
      await sendIfMissing(db, customerId, id, open);
      if (options.guess) await showAndStart(db, customerId, id, { asks: !options.yes, progress });
      const done = await waitForEnd(db, customerId, id, progress);
      if (options.errors !== undefined) await writeErrors(db, customerId, done, options.errors);
      return done;
    }),
  );
}

const isFile = async (path: string): Promise<boolean> => (await stat(path).catch(() => undefined))?.isFile() === true;

const settingsOf = (
  object: ImportObject,
  { mode, match, format, encoding, sheet, mapping, guess, ignoreUnknown, list, dryRun, name, ...rest }: ImportOptions,
): ImportCreate => ({
  object,
  mode,
  ...(format && { format }),
  ...(encoding !== undefined && { encoding }),
  ...(sheet !== undefined && { sheet }),
  ...(match && { match }),
  ...(mapping && { mapping }),
  ...(guess && { guess, start: false }),
  ...(rest.invalidValues && { invalid_values: rest.invalidValues }),
  ...(ignoreUnknown && { ignore_unknown: true }),
  ...(list && { list_ids: list }),
  ...(dryRun && { dry_run: true }),
  ...(name !== undefined && { name }),
});

async function fingerprintOf(settings: ImportCreate, pieces: AsyncIterable<Buffer>): Promise<Buffer> {
  const hash = createHash('sha256').update(`${JSON.stringify(settings)}\n`);
  for await (const piece of pieces) hash.update(piece);
  return hash.digest();
}

const findOrBegin = (db: Database, customerId: string, settings: ImportCreate, fingerprint: Buffer): Promise<string> =>
  db.transaction(
    async (sql) =>
      (await findInterruptedImport(sql, customerId, fingerprint)) ??
      beginImport(sql, customerId, { ...settings, fingerprint }),
  );

async function sendIfMissing(db: Database, customerId: string, id: string, open: () => AsyncGenerator<Buffer>) {
  const { status } = await db.lookup((sql) => requireImport(sql, customerId, id, allImports));
  if (status === 'UPLOADING') await receiveFile({ db, cleaner: db }, customerId, { id, visible: allImports }, open());
}

const lookMs = 500;

/** Seconds without a running worker after which the command gives up. */
const patience = 15;

/**
 * Waits until an import has ended, and returns it.
 * @throws Error if no worker runs. The import stays, and begins with the next worker
 */
async function waitForEnd(db: Database, customerId: string, id: string, progress: Progress): Promise<Import> {
  for (const start = performance.now(); ; await sleep(lookMs)) {
    const found = await db.lookup((sql) => requireImport(sql, customerId, id, allImports));
    if (found.finished_at !== null) return found;
    const { processed, total, failed } = found;
    progress.show(
      processed,
      `${processed} of ${total ?? '?'} records, ${failed} failed`,
      processed,
      total ?? undefined,
    );
    const mayGiveUp = performance.now() - start >= patience * 1000;
    if (mayGiveUp && !(await db.lookup((sql) => hasWorker(sql, patience))))
      throw new Error(`No worker runs: the import ${id} waits until one is started`);
  }
}

async function writeErrors(db: Database, customerId: string, { id, total }: Import, output: string): Promise<void> {
  if (total === null) return;
  const { read } = await openErrorsFile(db, { customerId }, { id, visible: allImports });
  await writeFile(output, Readable.from(await read()));
}
