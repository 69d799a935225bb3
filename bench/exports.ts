import postgres from 'postgres';
import { buildApp } from '../src/app.ts';
import { openCatalog } from '../src/catalog/open.ts';
import { parseConfig } from '../src/process/config.ts';
import { openDatabase } from '../src/database/db.ts';
import { migrate } from '../src/database/migrate.ts';
import { openThrowawayPostgres } from '../test/setup/throwaway-postgres.ts';
import { exportContacts } from '../src/queries/crm/contacts.ts';
import { dbOf, makeCustomer } from '../test/setup/factories.ts';
import { fillContacts } from './people.ts';
import { inTurn, median, startServer, type Server } from './run.ts';

/**
 * Exports of contacts over HTTP, against PostgreSQL's `COPY … TO STDOUT` of the same rows in the same order.
 * @param size how many contacts the customer has
 */
export async function benchExports(size: number, rounds: number): Promise<void> {
  const server = await openThrowawayPostgres();
  await migrate(server.ownerUrl);
  const config = parseConfig({ LOG_LEVEL: 'silent' });
  const db = openDatabase(config, server.serviceUrl);
  const app = buildApp({ config, db, catalog: openCatalog(config, db) });
  await app.ready();
  const { id, key } = await makeCustomer(app);
  const owner = postgres(server.ownerUrl, { max: 1, onnotice: () => {} });
  await fillContacts(owner, id, size);
  await owner`vacuum analyze contacts`;
  const environment = { DATABASE_URL: server.serviceUrl, PORT: '0', LOG_LEVEL: 'warn', OVERLOAD_MS: '0' };
  const service = await startServer(['src/cli.ts', 'serve', '--json'], environment);

  const results = await inTurn(rounds, {
    'COPY … TO STDOUT': () => timed(() => copy(owner, id)),
    'the pages alone': () => timed(() => readPages(dbOf(app), id)),
    'CSV, importable': () => figures(service, key, { format: 'csv' }),
    'CSV, all': () => figures(service, key, { format: 'csv', fields: 'all' }),
    'NDJSON, importable': () => figures(service, key, { format: 'ndjson' }),
    'CSV, by last name': () => figures(service, key, { format: 'csv', order_by: { last_name: 'ASC' } }),
  });
  const copied = median(results['COPY … TO STDOUT'].map(({ ms }) => ms));
  process.stdout.write(`\n${size.toLocaleString('en')} contacts, ${rounds} rounds\n`);
  process.stdout.write(`${''.padEnd(22)}records/s   time of COPY   µs of CPU a record\n`);
  for (const [name, all] of Object.entries(results)) {
    const ms = median(all.map((one) => one.ms));
    const cpu = all[0]!.cpu === undefined ? '' : (median(all.map((one) => one.cpu!)) / size).toFixed(1);
    const columns = [
      Math.round((size / ms) * 1_000)
        .toString()
        .padEnd(12),
      (ms / copied).toFixed(2).padEnd(15),
      cpu,
    ];
    process.stdout.write(`  ${name.padEnd(20)}${columns.join('')}\n`);
  }

  await service.stop();
  await owner.end({ timeout: 1 });
  await app.close();
  await db.close();
  await server.close();
}

/** Milliseconds, and the server's processor time (µs) if it was measured. */
export interface Figures {
  ms: number;
  cpu?: number;
}

export async function timed(work: () => Promise<unknown>): Promise<Figures> {
  const start = performance.now();
  await work();
  return { ms: performance.now() - start };
}

export async function figures(service: Server, key: string, body: object): Promise<Figures> {
  const before = await service.cpu();
  const { ms } = await timed(async () => {
    const answer = await fetch(`${service.url}/api/ext/contacts/export`, {
      method: 'POST',
      headers: { authorization: `X-API-Key ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    if (!answer.ok) throw new Error(`the export was answered with ${answer.status}`);
    for await (const _ of answer.body!);
  });
  return { ms, cpu: (await service.cpu()) - before };
}

export async function readPages(...given: [Parameters<typeof exportContacts>[0], string]): Promise<void> {
  for await (const _ of await exportContacts(...given, {}).read(false));
}

/** Reads the rows of all contacts with their companies, as the export does, by one COPY. */
export async function copy(owner: postgres.Sql, customerId: string): Promise<void> {
  const rows = await owner
    .unsafe(
      `copy (
        select c.*, co.id, co.company_name, co.industry
        from contacts c
        left join companies co on co.customer_id = c.customer_id and co.id = c.company_id
        where c.customer_id = '${customerId}'
        order by c.id desc
      ) to stdout (format csv)`,
    )
    .readable();
  for await (const _ of rows);
}
