import { readFile } from 'node:fs/promises';
import type postgres from 'postgres';
import { importFile, startService, type ImportCase, type RunningService } from './importing.ts';
import { fileOf } from './questions-file.ts';
import { median, type Server } from './run.ts';

/** Imports, each of a new file: with new records, then the same records again. */
const cases: [name: string, settings: ImportCase][] = [
  ['new', { mode: 'create' }],
  ['unchanged', { mode: 'upsert', match: 'work_email' }],
  ['dry run', { mode: 'upsert', match: 'work_email', dry_run: true }],
];

/**
 * Imports of contacts by one `work` process, against PostgreSQL's `COPY … FROM STDIN` of the same rows into the same table.
 * Each customer has contacts of so many companies, which the first import creates.
 * @param size number of records in a file
 * @param companies numbers of companies; 0 for contacts without companies
 */
export async function benchImports(size: number, companies: readonly number[], rounds: number): Promise<void> {
  const service = await startService();
  process.stdout.write(`\n${size.toLocaleString('en')} records, medians of ${rounds} rounds\n`);
  process.stdout.write(`${''.padEnd(30)}records/s   of COPY   upload s   µs of CPU a record\n`);
  const rates = new Map<string, Measured[]>();
  for (let round = 0; round < rounds; round += 1)
    for (const number of companies)
      for (const [name, measured] of await importAll(service, size, number))
        rates.set(name, [...(rates.get(name) ?? []), measured]);
  for (const [name, all] of rates) print(name, all);
  process.stdout.write(
    `  resident: ${await peakOf(service.serve)} MiB serve, ${await peakOf(service.work)} MiB work\n`,
  );
  await service.stop();
}

interface Measured {
  rate: number;
  ofCopy: number;
  uploadMs: number;
  cpu: number;
}

/** Imports of one new customer. */
async function importAll(service: RunningService, size: number, companies: number): Promise<[string, Measured][]> {
  const { id, key } = await service.customer();
  const people = { contacts: size, companies };
  const [file, changed] = [fileOf(people), fileOf(people).replaceAll(',Berlin,', ',Bremen,')];
  const runs = [...cases, ['changed', { mode: 'upsert', match: 'work_email' }] as const];
  const results: [string, Omit<Measured, 'ofCopy'>][] = [];
  for (const [name, settings] of runs) {
    const before = await service.work.cpu();
    const { uploadMs, workMs } = await importFile(service.serve, key, settings, name === 'changed' ? changed : file);
    const cpu = ((await service.work.cpu()) - before) / size;
    results.push([
      `${name}, ${companies.toLocaleString('en')} companies`,
      { rate: (size * 1_000) / workMs, uploadMs, cpu },
    ]);
  }
  const copied = (size * 1_000) / (await copy(service.owner, id));
  return results.map(([name, measured]) => [name, { ...measured, ofCopy: measured.rate / copied }]);
}

function print(name: string, all: readonly Measured[]): void {
  const of = (column: keyof Measured): number => median(all.map((one) => one[column]));
  const columns = [
    String(Math.round(of('rate'))).padEnd(12),
    of('ofCopy').toFixed(2).padEnd(10),
    (of('uploadMs') / 1_000).toFixed(1).padEnd(11),
    of('cpu').toFixed(1),
  ];
  process.stdout.write(`  ${name.padEnd(28)}${columns.join('')}\n`);
}

/** Returns the most memory that a process has had resident (MiB). */
async function peakOf({ pid }: Server): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8');
  return Math.round(Number(/VmHWM:\s+(\d+)/.exec(status)![1]) / 1024);
}

/** Copies the rows of all contacts into the same table, as another customer's. Returns the duration (ms). */
async function copy(owner: postgres.Sql, customerId: string): Promise<number> {
  const columns = (
    await owner<{ name: string }[]>`
      select column_name as name from information_schema.columns
      where table_name = 'contacts' and is_generated = 'NEVER' and column_name not in ('customer_id', 'company_id')`
  ).map(({ name }) => name);
  const list = columns.map((name) => `"${name}"`).join(', ');
  const source = await owner
    .unsafe(`copy (select ${list} from contacts where customer_id = '${customerId}') to stdout`)
    .readable();
  const pieces: Buffer[] = [];
  for await (const piece of source) pieces.push(piece as Buffer);
  await owner.unsafe(`alter table contacts alter column customer_id set default gen_random_uuid()`);
  const begun = performance.now();
  const target = await owner.unsafe(`copy contacts (${list}) from stdin`).writable();
  await new Promise<void>((resolve, reject) => {
    target.on('error', reject).on('finish', resolve);
    for (const piece of pieces) target.write(piece);
    target.end();
  });
  return performance.now() - begun;
}
