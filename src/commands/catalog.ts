import { createWriteStream } from 'node:fs';
import { open, realpath } from 'node:fs/promises';
import { Readable, type Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { setFlagsFromString } from 'node:v8';
import type { Command } from 'commander';
import type { Catalog, CatalogStatus } from '../catalog/catalog.ts';
import { generatePeople } from '../catalog/generate.ts';
import { loadPeople, type LoadReport } from '../catalog/load.ts';
import { withLoadLock } from '../catalog/load-lock.ts';
import type { Format } from '../catalog/read-records.ts';
import { unpacked } from '../catalog/records.ts';
import { readConfig } from '../config.ts';
import type { Database, SharedDatabase } from '../db.ts';
import { dropStaleImports, endImport, knownCatalog, unfinishedImports } from '../queries/catalog-imports.ts';
import { countUntold } from '../queries/unlocks.ts';
import { answer, asInteger, asUuid, UsageError } from './command.ts';
import { patientDatabase } from '../patient-database.ts';
import { openServices, type OpenServices } from './database.ts';
import { progressOn, type Progress } from './progress.ts';

/** `catalog import|generate|reindex|remove|status` */
export function define(command: Command): void {
  command
    .command('import <file>')
    .description(
      'load people from NDJSON or CSV, packed with gzip or not; - is standard input. Run again after an interruption, it goes on',
    )
    .option('--format <format>', 'ndjson or csv, where the name of the file does not tell', asFormat)
    .option('--strict', 'exit 1 when there were bad lines; all good ones are loaded all the same')
    .option('--restart', 'start over instead of going on with an interrupted import of this file')
    .action(importAndAnswer);

  command
    .command('generate')
    .description('make up people, as NDJSON')
    .requiredOption('--count <count>', 'how many', asInteger(1, 1_000_000_000))
    .option('--seed <seed>', 'the same seed makes the same people', asInteger(0, 4_294_967_295), 1)
    .option('--output <file>', 'where to; standard output when left out')
    .action(generate);

  command
    .command('reindex')
    .description('derive everything that is searched anew from the people kept, while the service goes on answering')
    .action(answer(reindex, ({ people }) => `Reindexed ${people} people`));

  command
    .command('remove')
    .description('take people out of the catalog; who has unlocked them stays noted')
    .requiredOption('--id <id>', 'whom; repeat for more', (id: string, ids?: string[]) => [...(ids ?? []), asUuid(id)])
    .action(answer(remove, ({ removed }) => `Removed ${removed} people`));

  command.command('status').description('show what the catalog is at').action(answer(status, printStatus));
}

/** With --strict bad lines are a failure, told after the report. */
async function importAndAnswer(file: string, options: ImportOptions & { json?: boolean }): Promise<void> {
  let bad = 0;
  const run = async (): Promise<LoadReport> => {
    const report = await importFile(file, options);
    bad = report.bad;
    return report;
  };
  await answer(run, printReport)(options);
  if (options.strict && bad > 0) throw new Error(bad === 1 ? 'There was a bad line' : `There were ${bad} bad lines`);
}

interface ImportOptions {
  format?: Format;
  strict?: true;
  restart?: true;
}

function asFormat(value: string): Format {
  if (value !== 'ndjson' && value !== 'csv') throw new UsageError('--format must be ndjson or csv');
  return value;
}

/** Loads and reindexes take statements that no request would be allowed. */
const longestStatementMs = 3_600_000;

/** @param asWanted the database as the work shall have it: imports and reindexing wait for one that is away */
async function withCatalog<T>(
  work: (services: OpenServices) => Promise<T>,
  asWanted?: (db: SharedDatabase) => SharedDatabase,
): Promise<T> {
  const services = await openServices({ ...readConfig(), STATEMENT_TIMEOUT_MS: longestStatementMs }, asWanted);
  try {
    return await work(services);
  } finally {
    await services.close();
  }
}

/**
 * Keeps V8's heap small. Left to itself the young generation doubles again and again while millions pass through, to
 * 128 MB, and the old one grows to four times what lives in it, though the load holds no more than at first.
 */
function keepHeapSmall(): void {
  setFlagsFromString('--semi-space-growth-factor=1');
  setFlagsFromString('--heap-growing-percent=100');
}

async function importFile(file: string, options: ImportOptions): Promise<LoadReport> {
  keepHeapSmall();
  const format = options.format ?? formatOf(file);
  const input = await openInput(file);
  const progress = progressOn(process.stderr, input.size);
  try {
    return await withCatalog(
      ({ db, catalog }) => load(db, catalog, { input, progress, format, options }),
      patientDatabase,
    );
  } finally {
    progress.end();
    await input.close();
  }
}

interface Importing {
  input: Input;
  progress: Progress;
  format: Format;
  options: ImportOptions;
}

async function load(
  db: Database,
  catalog: Catalog,
  { input, progress, format, options }: Importing,
): Promise<LoadReport> {
  await forgetBefore(db, input, options);
  return loadPeople(db, catalog, {
    chunks: input.chunks,
    format,
    source: input.source,
    onBad: (line, fault) => progress.line(`line ${line}: ${fault}`),
    onProgress: ({ loaded, bad }) => progress.show(input.read(), `${loaded} loaded, ${bad} bad`, loaded + bad),
    // One that cannot be written ends the process with exit 1, as any output does.
    onNote: (text) => void progress.line(text).catch(() => undefined),
  });
}

/** Interrupted imports that nobody will continue: of this file as it was before, and with --restart of this very file. */
async function forgetBefore(db: Database, { path, source }: Input, { restart }: ImportOptions): Promise<void> {
  if (path === undefined || source === undefined) return;
  await db.transaction(async (sql) => {
    await dropStaleImports(sql, path, source);
    if (restart) await endImport(sql, source);
  });
}

function formatOf(file: string): Format {
  const name = file.replace(/\.gz$/i, '');
  if (/\.csv$/i.test(name)) return 'csv';
  if (file === '-' || /\.(ndjson|jsonl|json)$/i.test(name)) return 'ndjson';
  throw new UsageError('say with --format whether the file is ndjson or csv');
}

interface Input {
  /** Unpacked. */
  chunks: AsyncIterable<Buffer>;
  path: string | undefined;
  /** What makes the same file recognised: changed, it is another. */
  source: string | undefined;
  /** Bytes; unknown of a stream. */
  size: number | undefined;
  /** Bytes read so far. */
  read: () => number;
  close: () => Promise<void>;
}

async function openInput(file: string): Promise<Input> {
  const nothing = { path: undefined, source: undefined, size: undefined, read: () => 0, close: async () => undefined };
  if (file === '-') return { chunks: unpacked(process.stdin), ...nothing };
  const path = await realpath(file).catch(() => {
    throw new UsageError(`there is no file ${file}`);
  });
  const handle = await open(path);
  const { size, ctimeMs, mtimeMs } = await handle.stat();
  const stream = handle.createReadStream({ highWaterMark: 256 * 1024, autoClose: false });
  const isUnchanged = async (): Promise<boolean> => {
    const now = await handle.stat();
    return now.size === size && now.mtimeMs === mtimeMs;
  };
  return {
    chunks: ofOneState(unpacked(stream), isUnchanged),
    path,
    source: `${path}:${size}:${ctimeMs}`,
    size,
    read: () => stream.bytesRead,
    close: () => handle.close(),
  };
}

/** A file that was written to meanwhile may have been read in part as it was before, and in part as it is now. */
async function* ofOneState(chunks: AsyncIterable<Buffer>, isUnchanged: () => Promise<boolean>): AsyncGenerator<Buffer> {
  yield* chunks;
  if (!(await isUnchanged())) throw new Error('The file changed while it was read. Import it again');
}

const printReport = ({ loaded, bad, resumed_at_line, people }: LoadReport): string =>
  [
    `Loaded ${loaded} people, ${bad} bad lines`,
    ...(resumed_at_line === null ? [] : [`went on at line ${resumed_at_line}`]),
    `the catalog holds ${people} people`,
  ].join('; ');

interface GenerateOptions {
  count: number;
  seed: number;
  output?: string;
  json?: boolean;
}

/** NDJSON; with --json and no file the one JSON value is the array of them. */
async function generate({ count, seed, output, json }: GenerateOptions): Promise<void> {
  const sink: Writable = output === undefined ? process.stdout : createWriteStream(output);
  const asArray = json === true && output === undefined;
  await pipeline(Readable.from(textOf(count, seed, asArray)), sink, { end: output !== undefined }).catch(ignoreQuit);
  if (output === undefined) return;
  process.stdout.write(json ? `${JSON.stringify({ count, seed, output })}\n` : `Wrote ${count} people to ${output}\n`);
}

function* textOf(count: number, seed: number, asArray: boolean): Generator<string> {
  const [open, between, close] = asArray ? ['[', ',\n', ']\n'] : ['', '\n', '\n'];
  let text = open;
  let first = true;
  for (const person of generatePeople(count, seed)) {
    text += (first ? '' : between) + JSON.stringify(person);
    first = false;
    if (text.length < 65_536) continue;
    yield text;
    text = '';
  }
  yield text + close;
}

/** A reader that has seen enough is no failure. */
function ignoreQuit(error: NodeJS.ErrnoException): void {
  if (error.code !== 'EPIPE') throw error;
}

const reindex = (): Promise<{ people: number }> =>
  withCatalog(async ({ db, catalog }) => {
    const progress: Progress = progressOn(process.stderr, undefined);
    try {
      const people = await withLoadLock(db, (stillHeld) =>
        catalog.reindex((done, total) => {
          progress.show(done, `${done} of ${total} people`, done, total);
          return stillHeld();
        }),
      );
      return { people };
    } finally {
      progress.end();
    }
  }, patientDatabase);

const remove = ({ id }: { id: string[] }): Promise<{ removed: number }> =>
  withCatalog(({ db, catalog }) =>
    withLoadLock(db, async () => {
      const removed = await catalog.remove(id);
      await catalog.finish();
      return { removed };
    }),
  );

interface Status extends CatalogStatus {
  imported_at: string | null;
  unfinished_imports: { source: string; line: number; updated_at: string }[];
  /** Unlocks that the search cluster has not been told of for certain; of the Postgres engine always 0. */
  unlocks_behind: number;
}

const status = (): Promise<Status> =>
  withCatalog(async ({ db, catalog }) => {
    const kept = await catalog.status();
    const [known, unfinished] = await db.lookup((sql) =>
      Promise.all([knownCatalog(sql, catalog.name), unfinishedImports(sql)]),
    );
    const unlocks_behind = catalog.engine === 'postgres' ? 0 : await db.search(countUntold);
    return { ...kept, imported_at: known?.imported_at ?? null, unfinished_imports: [...unfinished], unlocks_behind };
  });

const printStatus = ({
  engine,
  people,
  suggestions,
  imported_at,
  unfinished_imports,
  unlocks_behind,
  details,
}: Status): string =>
  [
    `engine       ${engine}`,
    `people       ${people}`,
    `suggestions  ${suggestions}`,
    `imported at  ${imported_at ?? 'never'}`,
    ...unfinished_imports.map(
      ({ source, line }) =>
        `unfinished   ${source.replace(/:\d+:[\d.]+$/, '')} at line ${line}; import it again to go on`,
    ),
    ...(unlocks_behind > 0 ? [`unlocks the cluster does not know of yet: ${unlocks_behind}`] : []),
    ...Object.entries(details).map(([name, value]) => `${name.padEnd(12)} ${value}`),
  ].join('\n');
