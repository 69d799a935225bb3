import postgres from 'postgres';
import { parseConfig } from '../../src/config.ts';
import { openDatabase } from '../../src/db.ts';
import { buildApp } from '../../src/app.ts';
import { openCatalog } from '../../src/catalog/open.ts';
import { openEmbeddedPostgres } from '../../src/embedded-postgres.ts';
import { migrate } from '../../src/migrate.ts';
import { findContact } from '../../src/queries/contacts.ts';
import { contactBody, makeCustomer } from '../setup/factories.ts';
import { fillContacts } from './people.ts';
import { alternate, load, startServer, type Request, type Server } from './run.ts';

const callers = 32;

/**
 * Contacts over HTTP against the same statements in a bare Fastify, and the raw driver in a loop.
 * @param sizes how many contacts the customer has
 */
export async function benchContacts(sizes: number[], rounds: number, seconds: number): Promise<void> {
  for (const size of sizes) await benchAt(size, rounds, seconds);
}

async function benchAt(size: number, rounds: number, seconds: number): Promise<void> {
  const server = await openEmbeddedPostgres('', { throwaway: true });
  await migrate(server.ownerUrl);
  const owner = postgres(server.ownerUrl, { max: 1, onnotice: () => {} });
  const config = parseConfig({ LOG_LEVEL: 'silent' });
  const db = openDatabase(config, server.serviceUrl);
  const app = buildApp({ config, db, catalog: openCatalog(config, db) });
  await app.ready();
  const customer = await makeCustomer(app);
  await fillContacts(owner, customer.id, size);
  await owner`vacuum analyze contacts`;
  const ids = (
    await owner<{ id: string }[]>`select id from contacts tablesample system_rows(200)`.catch(
      () => owner<{ id: string }[]>`select id from contacts limit 200`,
    )
  ).map(({ id }) => id);

  const service = await startServer(['src/cli.ts', 'serve', '--json'], {
    DATABASE_URL: server.serviceUrl,
    PORT: '0',
    LOG_LEVEL: 'warn',
  });
  const bare = await startServer(['test/bench/bare-server.ts', server.serviceUrl, customer.id]);
  const cases: Record<string, Request[]> = {
    'GET /contacts/:id': ids.map((id) => ({ method: 'GET', path: `/contacts/${id}` })),
    'a page of 25': [{ method: 'POST', path: '/contacts/list', body: {} }],
    'a page, three filters': [
      {
        method: 'POST',
        path: '/contacts/list',
        body: { filters: { location_country: 'de', industry: 'software', score: { gte: 50 } } },
      },
    ],
    create: [{ method: 'POST', path: '/contacts', body: contactBody() }],
  };
  const headers = { authorization: `X-API-Key ${customer.key}` };
  const rate = async (target: Server, prefix: string, requests: Request[]) =>
    (await load(`${target.url}${prefix}`, requests, callers, seconds, headers)).rate;

  process.stdout.write(
    `\n${size.toLocaleString('en')} contacts, ${callers} callers: requests/s (median of ${rounds} × ${seconds} s)\n`,
  );
  for (const [name, requests] of Object.entries(cases)) {
    const result = await alternate(rounds, {
      service: () => rate(service, '/api/ext', requests),
      bare: () => rate(bare, '', requests),
    });
    print(name, { ...result, ratio: result.service / result.bare });
  }
  const raw = await alternate(rounds, {
    raw: () => loop(seconds, (i) => db.lookup((sql) => findContact(sql, customer.id, ids[i % ids.length]!))),
  });
  print('findContact in a loop, no HTTP', raw);

  service.stop();
  bare.stop();
  await owner.end({ timeout: 1 });
  await app.close();
  await db.close();
  await server.close();
}

/** Statements a second by as many callers as the load has. */
async function loop(seconds: number, work: (i: number) => Promise<unknown>): Promise<number> {
  const end = performance.now() + seconds * 1000;
  let done = 0;
  const caller = async () => {
    while (performance.now() < end) await work((done += 1));
  };
  await Promise.all(Array.from({ length: callers }, caller));
  return done / seconds;
}

function print(name: string, figures: Record<string, number>): void {
  const shown = Object.entries(figures).map(
    ([what, value]) => `${what} ${what === 'ratio' ? value.toFixed(2) : Math.round(value)}`,
  );
  process.stdout.write(`  ${name.padEnd(34)}${shown.join('   ')}\n`);
}
