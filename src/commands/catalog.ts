import { createReadStream, createWriteStream } from 'node:fs';
import { realpath, stat } from 'node:fs/promises';
import { once } from 'node:events';
import type { Readable, Writable } from 'node:stream';
import { setFlagsFromString } from 'node:v8';
import type { Command } from 'commander';
import type { CatalogStatus } from '../catalog/catalog.ts';
import { generatePeople } from '../catalog/generate.ts';
import { loadPeople, type LoadReport } from '../catalog/load.ts';
import { withLoadLock } from '../catalog/load-lock.ts';
import { unpacked } from '../catalog/records.ts';
import { readConfig } from '../config.ts';
import { endImport, importOverview } from '../queries/catalog-imports.ts';
import { countUntold } from '../queries/unlocks.ts';
import { answer, asInteger, asUuid, UsageError } from './command.ts';
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

type Format = 'ndjson' | 'csv';

function asFormat(value: string): Format {
  if (value !== 'ndjson' && value !== 'csv') throw new UsageError('--format must be ndjson or csv');
  return value;
}

/** Loads and reindexes take statements that no request would be allowed. */
const longestStatementMs = 3_600_000;

async function withCatalog<T>(work: (services: OpenServices) => Promise<T>): Promise<T> {
  const services = await openServices({ ...readConfig(), STATEMENT_TIMEOUT_MS: longestStatementMs });
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
  const report = await withCatalog(async ({ db, catalog }) => {
    const { source } = input;
    if (options.restart && source !== undefined) await db.transaction((sql) => endImport(sql, source));
    return loadPeople(db, catalog, {
      chunks: unpacked(input.stream),
      format,
      source,
      onBad: (line, fault) => progress.line(`line ${line}: ${fault}`),
      onProgress: ({ loaded, bad }) => progress.show(input.read(), `${loaded} loaded, ${bad} bad`, loaded + bad),
    });
  }).finally(() => progress.end());
  return report;
}

function formatOf(file: string): Format {
  const name = file.replace(/\.gz$/i, '');
  if (/\.csv$/i.test(name)) return 'csv';
  if (file === '-' || /\.(ndjson|jsonl|json)$/i.test(name)) return 'ndjson';
  throw new UsageError('say with --format whether the file is ndjson or csv');
}

interface Input {
  stream: Readable;
  /** What makes the same file recognised: changed, it is another. */
  source: string | undefined;
  /** Bytes; unknown of a stream. */
  size: number | undefined;
  /** Bytes read so far. */
  read: () => number;
}

async function openInput(file: string): Promise<Input> {
  if (file === '-') return { stream: process.stdin, source: undefined, size: undefined, read: () => 0 };
  const path = await realpath(file).catch(() => {
    throw new UsageError(`there is no file ${file}`);
  });
  const { size, mtimeMs } = await stat(path);
  const stream = createReadStream(path, { highWaterMark: 256 * 1024 });
  return { stream, source: `${path}:${size}:${mtimeMs}`, size, read: () => stream.bytesRead };
}

const printReport = ({ loaded, bad, resumed_at_line }: LoadReport): string =>
  `Loaded ${loaded} people, ${bad} bad lines${resumed_at_line === null ? '' : `; went on at line ${resumed_at_line}`}`;

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
  const [open, between, close] = asArray ? ['[', ',\n', ']\n'] : ['', '\n', '\n'];
  let text = open;
  let first = true;
  for (const person of generatePeople(count, seed)) {
    text += (first ? '' : between) + JSON.stringify(person);
    first = false;
    if (text.length < 65_536) continue;
    if (!sink.write(text)) await once(sink, 'drain');
    text = '';
  }
  sink.write(text + close);
  if (output === undefined) return;
  sink.end();
  await once(sink, 'close');
  process.stdout.write(json ? `${JSON.stringify({ count, seed, output })}\n` : `Wrote ${count} people to ${output}\n`);
}

const reindex = (): Promise<{ people: number }> =>
  withCatalog(async ({ db, catalog }) => {
    const progress: Progress = progressOn(process.stderr, undefined);
    try {
      const people = await withLoadLock(db, () =>
        catalog.reindex((done, total) => progress.show(done, `${done} of ${total} people`, done, total)),
      );
      return { people };
    } finally {
      progress.end();
    }
  });

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
    const { imported_at, unfinished } = await db.search(importOverview);
    const unlocks_behind = catalog.engine === 'postgres' ? 0 : await db.search(countUntold);
    return { ...kept, imported_at, unfinished_imports: unfinished, unlocks_behind };
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
