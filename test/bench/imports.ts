import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import postgres from 'postgres';
import { buildApp } from '../../src/app.ts';
import { openCatalog } from '../../src/catalog/open.ts';
import { parseConfig } from '../../src/config.ts';
import { openDatabase } from '../../src/database/db.ts';
import { migrate } from '../../src/database/migrate.ts';
import { openEmbeddedPostgres } from '../../src/embedded-postgres/server.ts';
import type { Import } from '../../src/schemas/imports.ts';
import { makeCustomer } from '../setup/factories.ts';
import { startServer, type Server } from './run.ts';

/** The import that is measured: its name, its settings, and how many records its file has. */
type Case = [name: string, settings: { mode: string; match?: string; dry_run?: boolean }];

type Json = any; // eslint-disable-line typescript/no-explicit-any -- bodies of responses

const cases: Case[] = [
  ['create', { mode: 'create' }],
  ['upsert, unchanged', { mode: 'upsert', match: 'work_email' }],
  ['upsert, dry run', { mode: 'upsert', match: 'work_email', dry_run: true }],
];

/**
 * Imports of contacts by one `work` process, against PostgreSQL's `COPY … FROM STDIN` of the same rows into the same table.
 * @param size number of records in the file
 */
export async function benchImports(size: number): Promise<void> {
  const server = await openEmbeddedPostgres('', { throwaway: true });
  await migrate(server.ownerUrl);
  const config = parseConfig({ LOG_LEVEL: 'silent' });
  const db = openDatabase(config, server.serviceUrl);
  const app = buildApp({ config, db, catalog: openCatalog(config, db) });
  await app.ready();
  const customer = await makeCustomer(app);
  const owner = postgres(server.ownerUrl, { max: 1, onnotice: () => {} });
  const environment = {
    DATABASE_URL: server.serviceUrl,
    PORT: '0',
    LOG_LEVEL: 'warn',
    OVERLOAD_MS: '0',
    RATE_LIMITS: 'off',
  };
  const service = await startServer(['src/cli.ts', 'serve', '--json'], environment);
  const worker = await startServer(['src/cli.ts', 'work', '--json'], environment);
  const file = fileOf(size);

  process.stdout.write(`\n${size.toLocaleString('en')} records, ${Math.round(file.length / 2 ** 20)} MiB\n`);
  process.stdout.write(`${''.padEnd(20)}records/s   upload s   µs of CPU a record   resident MiB (serve, work)\n`);
  for (const [name, settings] of cases) {
    const before = await worker.cpu();
    const { uploadMs, workMs } = await importFile(service, customer.key, settings, file);
    const columns = [
      Math.round((size / workMs) * 1_000)
        .toString()
        .padEnd(12),
      (uploadMs / 1_000).toFixed(1).padEnd(11),
      (((await worker.cpu()) - before) / size).toFixed(1).padEnd(21),
      `${await peakOf(service)}, ${await peakOf(worker)}`,
    ];
    process.stdout.write(`  ${name.padEnd(18)}${columns.join('')}\n`);
  }
  const copiedMs = await copy(owner, customer.id);
  process.stdout.write(`  ${'COPY'.padEnd(18)}${Math.round((size / copiedMs) * 1_000)}\n`);

  await worker.stop();
  await service.stop();
  await owner.end({ timeout: 1 });
  await app.close();
  await db.close();
  await server.close();
}

/** Returns a CSV file of contacts with twelve columns. */
function fileOf(size: number): string {
  const header =
    'first_name,last_name,work_email,job_title,industry,location_country,location_locality,profnet_url,phone_numbers,other_emails,company.name,custom_fields.plan';
  const lines = Array.from(
    { length: size },
    (_, n) =>
      `First${n % 977},Last${n % 7919},person${n}@company${n % 4001}.example,Engineer,Software,DE,Berlin,https://example.com/in/${n},+49 30${n},,Company ${n % 400},gold`,
  );
  return [header, ...lines].join('\n');
}

/** Imports a file. Returns the durations of its upload and of the work after it. */
async function importFile(
  { url }: Server,
  key: string,
  settings: Case[1],
  file: string,
): Promise<{ uploadMs: number; workMs: number }> {
  const call = async (method: string, path: string, body?: string): Promise<Json> => {
    const headers = { authorization: `X-API-Key ${key}`, ...(body && { 'content-type': 'application/json' }) };
    const answer = await fetch(`${url}/api/ext${path}`, { method, headers, ...(body && { body }) });
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
    return answer.json();
  };
  const { data } = await call('POST', '/imports', JSON.stringify({ object: 'contacts', format: 'csv', ...settings }));
  const begun = performance.now();
  await call('PUT', `/imports/${data.id}/file`, file);
  const uploaded = performance.now();
  for (;;) {
    const { status, failed, error }: Import = await call('GET', `/imports/${data.id}`);
    if (status === 'COMPLETED' && failed === 0)
      return { uploadMs: uploaded - begun, workMs: performance.now() - uploaded };
    if (status === 'COMPLETED' || status === 'FAILED') throw new Error(`${status}, ${failed} failed: ${error}`);
    await sleep(100);
  }
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
