import { Readable } from 'node:stream';
import { parse } from 'csv-parse';
import { stringify } from 'csv-stringify/sync';
import { toDocument } from '../src/catalog/document.ts';
import { importPeople } from '../src/catalog/import-people.ts';
import { parsePerson, readerOf, PersonIds } from '../src/catalog/parse-records.ts';
import { openCatalog } from '../src/catalog/open.ts';
import { parseConfig } from '../src/process/config.ts';
import { openDatabase } from '../src/database/db.ts';
import { migrate } from '../src/database/migrate.ts';
import { generatePeople } from '../src/commands/generate-people.ts';
import { openThrowawayPostgres } from '../test/setup/throwaway-postgres.ts';
import { csvFormat } from '../src/files/record-formats.ts';
import { scanRecords } from '../src/files/record-scanner.ts';
import { textBlocks } from '../src/files/encodings.ts';
import { alternate } from './run.ts';

const context = { importedAt: '2026-01-01T00:00:00.000Z', ids: new PersonIds(Buffer.alloc(32)) };

/**
 * Our own CSV reader against csv-parse with byte positions: cells alone, and up to documents for the catalog.
 * Beside them, a whole import into PostgreSQL. Figures are processor time of this process for one record.
 */
export async function benchCsv(count: number, rounds: number): Promise<void> {
  const chunks = chunksOf(csvOf(count));
  const server = await openThrowawayPostgres();
  await migrate(server.ownerUrl);
  const config = parseConfig({ LOG_LEVEL: 'silent', STATEMENT_TIMEOUT_MS: '60000' });
  const db = openDatabase(config, server.serviceUrl);
  const catalog = openCatalog(config, db);
  const nothing = () => undefined;
  const results = await alternate(rounds, {
    'cells, own': () => cpuOf(count, () => ownCells(chunks)),
    'cells, csv-parse': () => cpuOf(count, () => libraryCells(chunks)),
    'documents, own': () => cpuOf(count, () => ownDocuments(chunks)),
    'documents, csv-parse': () => cpuOf(count, () => libraryDocuments(chunks)),
    'import, own': () =>
      cpuOf(count, () =>
        importPeople(db, catalog, {
          chunks: Readable.from(chunks),
          format: 'csv',
          onBad: nothing,
          onProgress: nothing,
        }),
      ),
  });
  process.stdout.write(`\n${count.toLocaleString('en')} people, ${rounds} rounds: µs of CPU a record\n`);
  for (const [name, value] of Object.entries(results))
    process.stdout.write(`  ${name.padEnd(22)}${value.toFixed(1)}\n`);
  const more = results['documents, csv-parse'] - results['documents, own'];
  const ratios = [
    ['cells', results['cells, csv-parse'] / results['cells, own']],
    ['documents', results['documents, csv-parse'] / results['documents, own']],
    ['import', (results['import, own'] + more) / results['import, own']],
  ] as const;
  for (const [name, ratio] of ratios) process.stdout.write(`  csv-parse / own, ${name}: ${ratio.toFixed(2)}\n`);
  await catalog.close();
  await db.close();
  await server.close();
}

function csvOf(count: number): Buffer {
  const people = [...generatePeople(count, 1)];
  const columns = Object.keys(people[0]!) as (keyof (typeof people)[number])[];
  const cells = people.map((person) => columns.map((name) => [person[name] ?? ''].flat().join(';')));
  return Buffer.from(stringify([columns, ...cells]));
}

const chunksOf = (bytes: Buffer): Buffer[] =>
  Array.from({ length: Math.ceil(bytes.length / 262_144) }, (_, i) => bytes.subarray(i * 262_144, (i + 1) * 262_144));

async function cpuOf(count: number, work: () => Promise<unknown>): Promise<number> {
  const before = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / count;
}

const ownRecords = (chunks: Buffer[]) => scanRecords(textBlocks(Readable.from(chunks)), csvFormat(',', Infinity));

async function ownCells(chunks: Buffer[]): Promise<void> {
  for await (const _ of ownRecords(chunks));
}

async function ownDocuments(chunks: Buffer[]): Promise<void> {
  const reader = readerOf('csv', context);
  for await (const records of ownRecords(chunks)) for (const record of records) reader.read(record);
}

/** Reads with the tolerance of our own reader: quotes within a cell, and records of any length. */
const library = (chunks: Buffer[]): AsyncIterable<{ record: string[]; info: { bytes: number } }> =>
  Readable.from(chunks).pipe(parse({ bom: true, info: true, relax_quotes: true, relax_column_count: true }));

async function libraryCells(chunks: Buffer[]): Promise<void> {
  for await (const _ of library(chunks));
}

async function libraryDocuments(chunks: Buffer[]): Promise<void> {
  let columns: string[] | undefined;
  for await (const { record } of library(chunks)) {
    if (columns)
      toDocument(parsePerson(Object.fromEntries(columns.map((name, i) => [name, record[i]])), context).prospect);
    else columns = record;
  }
}
