import { createWriteStream } from 'node:fs';
import { open, realpath } from 'node:fs/promises';
import { Readable, type Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { Option, type Command } from 'commander';
import { withImportLock } from '../catalog/import-lock.ts';
import { importPeople, type ImportReport } from '../catalog/import-people.ts';
import type { Format } from '../catalog/parse-records.ts';
import type { Database } from '../database/db.ts';
import { gunzipIfPacked } from '../files/encodings.ts';
import {
  dropStaleImports,
  endImport,
  findCatalogState,
  listUnfinishedImports,
} from '../queries/jobs/catalog-imports.ts';
import { countUnindexed } from '../queries/jobs/unlocks.ts';
import {
  closing,
  commandAction,
  formatOf,
  printed,
  asInteger,
  asNextUuid,
  ignoreQuit,
  UsageError,
  keepHeapSmall,
  verb,
} from './command.ts';
import { withCatalog } from './database.ts';
import { withProgress } from './progress.ts';

export function define(command: Command): void {
  verb(
    command,
    'import <file>',
    'import people from NDJSON or CSV, gzipped or not; - is standard input. After an interruption, the same command resumes',
  )
    .addOption(new Option('--format <format>', 'needed if the file name does not show it').choices(['ndjson', 'csv']))
    .option('--strict', 'exit with 1 at the end if there were bad lines; good lines are imported anyway')
    .option('--restart', 'start over instead of resuming an interrupted import of this file')
    .action(importAndReport);

  verb(command, 'generate', 'generate fictional people as NDJSON')
    .requiredOption('--count <count>', 'number of people', asInteger(1, 1_000_000_000))
    .option('--seed <seed>', 'seed; the same count and seed give the same people', asInteger(0, 4_294_967_295), 1)
    .option('--output <file>', 'file to write; default: standard output')
    .action(generate);

  verb(
    command,
    'reindex',
    'rebuild the search index from the stored people; the service keeps working meanwhile',
  ).action(commandAction(reindex, ({ people }) => `Reindexed ${people} people`));

  verb(command, 'remove', 'remove people from the catalog; their unlocks are kept')
    .requiredOption('--id <id>', 'person id; repeatable', asNextUuid)
    .action(commandAction(remove, ({ removed }) => `Removed ${removed} people`));

  verb(command, 'status', 'show the state of the catalog').action(commandAction(status, printStatus));
}

async function importAndReport(file: string, options: ImportOptions & { json?: boolean }): Promise<void> {
  const { bad } = printed(options, await importFile(file, options), printReport);
  if (options.strict && bad > 0) throw new Error(bad === 1 ? 'There was a bad line' : `There were ${bad} bad lines`);
}

interface ImportOptions {
  format?: Format;
  strict?: true;
  restart?: true;
}

async function importFile(file: string, options: ImportOptions): Promise<ImportReport> {
  keepHeapSmall(100);
  const format = options.format ?? formatOfInput(file);
  return closing(await openInput(file), (input) =>
    withProgress(input.size, (progress) =>
      withCatalog(async ({ db, catalog }) => {
        await forgetBefore(db, input, options);
        return importPeople(db, catalog, {
          chunks: input.chunks,
          format,
          source: input.source,
          onBad: (line, fault) => progress.line(`line ${line}: ${fault}`),
          onProgress: ({ loaded, bad, suppressed }) =>
            progress.show(input.read(), `${loaded} loaded, ${bad} bad`, loaded + bad + suppressed),
          // A note that cannot be written ends the process with exit 1, as for any output.
          onNote: (text) => void progress.line(text).catch(() => undefined),
        });
      }),
    ),
  );
}

async function forgetBefore(db: Database, { path, source }: Input, { restart }: ImportOptions): Promise<void> {
  if (path === undefined || source === undefined) return;
  await db.transaction(async (sql) => {
    await dropStaleImports(sql, path, source);
    if (restart) await endImport(sql, source);
  });
}

const formatOfInput = (file: string): Format =>
  file === '-' ? 'ndjson' : formatOf(file.replace(/\.gz$/i, '').replace(/\.jsonl?$/i, '.ndjson'), ['ndjson', 'csv']);

interface Input {
  chunks: AsyncIterable<Buffer>;
  path: string | undefined;
  /** Id of this version of the file, made from its path, size and time of change. Undefined for standard input. */
  source: string | undefined;
  size: number | undefined;
  read: () => number;
  close: () => Promise<void>;
}

async function openInput(file: string): Promise<Input> {
  const nothing = { path: undefined, source: undefined, size: undefined, read: () => 0, close: async () => undefined };
  if (file === '-') return { chunks: gunzipIfPacked(process.stdin), ...nothing };
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
    chunks: ofOneState(gunzipIfPacked(stream), isUnchanged),
    path,
    source: `${path}:${size}:${ctimeMs}`,
    size,
    read: () => stream.bytesRead,
    close: () => handle.close(),
  };
}

/**
 * Yields the chunks of a file. A file that changes meanwhile may yield a mix of old and new content.
 * @throws Error after the last chunk, if the file has changed
 */
async function* ofOneState(chunks: AsyncIterable<Buffer>, isUnchanged: () => Promise<boolean>): AsyncGenerator<Buffer> {
  yield* chunks;
  if (!(await isUnchanged())) throw new Error('The file changed while it was read. Import it again');
}

const printReport = ({ loaded, bad, suppressed, resumed_at_line, people }: ImportReport): string =>
  [
    `Loaded ${loaded} people, ${bad} bad lines`,
    ...(suppressed === 0 ? [] : [`left out ${suppressed} people who are suppressed`]),
    ...(resumed_at_line === null ? [] : [`resumed at line ${resumed_at_line}`]),
    `the catalog holds ${people} people`,
  ].join('; ');

async function generate(options: { count: number; seed: number; output?: string; json?: boolean }): Promise<void> {
  const { count, seed, output, json } = options;
  // With the names of all languages, which no other command needs.
  const { generatePeople, textOf } = await import('./generate-people.ts');
  const sink: Writable = output === undefined ? process.stdout : createWriteStream(output);
  const asArray = json === true && output === undefined;
  const people = generatePeople(count, seed);
  await pipeline(Readable.from(textOf(people, asArray)), sink, { end: output !== undefined }).catch(ignoreQuit);
  if (output === undefined) return;
  process.stdout.write(json ? `${JSON.stringify({ count, seed, output })}\n` : `Wrote ${count} people to ${output}\n`);
}

const reindex = (): Promise<{ people: number }> =>
  withCatalog(({ db, catalog }) =>
    withProgress(undefined, async (progress) => {
      const people = await withImportLock(db, (stillHeld) =>
        catalog.reindex((done, total) => {
          progress.show(done, `${done} of ${total} people`, done, total);
          stillHeld();
        }),
      );
      return { people };
    }),
  );

const remove = ({ id }: { id: string[] }): Promise<{ removed: number }> =>
  withCatalog(({ db, catalog }) =>
    withImportLock(db, async () => {
      const removed = await catalog.remove(id);
      await catalog.finish();
      return { removed };
    }),
  );

const status = () =>
  withCatalog(async ({ db, catalog }) => {
    const stored = await catalog.status();
    const [known, unfinished] = await db.lookup((sql) =>
      Promise.all([findCatalogState(sql, catalog.name), listUnfinishedImports(sql)]),
    );
    // Unlocks that are not yet in the search index; PostgreSQL needs none.
    const unlocks_behind = catalog.engine === 'postgres' ? 0 : await db.search(countUnindexed);
    return { ...stored, imported_at: known?.imported_at ?? null, unfinished_imports: [...unfinished], unlocks_behind };
  });

const printStatus = ({
  engine,
  people,
  suggestions,
  imported_at,
  unfinished_imports,
  unlocks_behind,
  details,
}: Awaited<ReturnType<typeof status>>): string =>
  [
    `engine       ${engine}`,
    `people       ${people}`,
    `suggestions  ${suggestions}`,
    `imported at  ${imported_at ?? 'never'}`,
    ...unfinished_imports.map(
      ({ source, line }) =>
        `unfinished   ${source.replace(/:\d+:[\d.]+$/, '')} at line ${line}; run the same import again to resume`,
    ),
    ...(unlocks_behind > 0 ? [`unlocks not yet indexed: ${unlocks_behind}`] : []),
    ...Object.entries(details).map(([name, value]) => `${name.padEnd(12)} ${value}`),
  ].join('\n');
