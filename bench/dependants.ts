import { setTimeout as sleep } from 'node:timers/promises';
import postgres from 'postgres';
import { parseConfig } from '../src/process/config.ts';
import { openDatabase, type Database } from '../src/database/db.ts';
import { migrate } from '../src/database/migrate.ts';
import { openThrowawayPostgres } from '../test/setup/throwaway-postgres.ts';
import { createCustomer } from '../src/queries/accounts/customers.ts';
import { createUser } from '../src/queries/accounts/users.ts';
import { contactWrites } from '../src/queries/crm/record-batches.ts';
import { commandLine } from '../src/schemas/accounts.ts';
import { createPipeline, salesStages, listStages } from '../src/queries/crm/pipelines.ts';
import { listProducts, productWrites } from '../src/queries/crm/products.ts';
import { fillContacts } from './people.ts';

/** Changes and deletions of what very many opportunities refer to, and what others notice of them. */
export async function benchDependants(contacts: number, opportunities: number): Promise<void> {
  const server = await openThrowawayPostgres();
  await migrate(server.ownerUrl);
  const owner = postgres(server.ownerUrl, { max: 1, onnotice: () => {} });
  const db = openDatabase(parseConfig({ LOG_LEVEL: 'silent' }), server.serviceUrl);
  const made = await makeCustomer(db, owner, contacts);
  const bench = { db, owner, ...made };
  const { customerId, userId } = made;

  print('undisturbed', await watched(bench, async () => sleep(3_000)));
  const product = await db.transaction((sql) =>
    productWrites.create(sql, customerId, { name: 'P', price: 1, unit: 'piece' }),
  );
  const pipeline = await db.transaction((sql) =>
    createPipeline(sql, customerId, {
      name: 'S',
      description: '',
      currency: 'USD',
      visibility: 'PUBLIC',
      stages: salesStages,
    }),
  );
  const [{ id: contact }] = await owner<[{ id: string }]>`
    select id from contacts where customer_id = ${customerId} order by id limit 1`;
  await owner`
    with made as (
      insert into opportunities (customer_id, name, priority, stage_id, user_id_assigned, estimated_closing_date, close_date)
      select ${customerId}, 'O', 'NONE', (select id from stages where customer_id = ${customerId} and pipeline_id = ${pipeline} limit 1), ${userId}, now(), now()
      from generate_series(1, ${opportunities}::int)
      returning id
    ),
    lines as (
      insert into opportunity_lines (customer_id, opportunity_id, product_id, pipeline_id, position, price, quantity)
      select ${customerId}, id, ${product}, ${pipeline}, 1, 1, 1 from made
    )
    insert into opportunity_contacts (customer_id, opportunity_id, contact_id, position)
    select ${customerId}, id, ${contact}, 1 from made`;
  await owner`vacuum analyze`;
  print('a page of products', { ms: await milliseconds(() => listProducts(db, customerId, {})) });
  print('the stages', {
    ms: await milliseconds(() => listStages(db, customerId, { pipeline_id: pipeline })),
  });
  print(
    'a product changed',
    await watched(bench, () => db.transaction((sql) => productWrites.update(sql, customerId, product, { name: 'Q' }))),
  );
  print(
    'a product deleted',
    await watched(bench, () => db.transaction((sql) => productWrites.remove(sql, customerId, product))),
  );
  print(
    'a contact of many opportunities changed',
    await watched(bench, () =>
      db.transaction((sql) => contactWrites.update(sql, customerId, contact, { gender: 'x' })),
    ),
  );
  print(
    'a contact of many opportunities deleted',
    await watched(bench, () => db.transaction((sql) => contactWrites.remove(sql, customerId, contact))),
  );
  await owner.end({ timeout: 1 });
  await db.close();
  await server.close();
}

async function makeCustomer(db: Database, owner: postgres.Sql, contacts: number) {
  const { customerId, userId } = await db.transaction(async (sql) => {
    const { id } = await createCustomer(sql, { business_name: 'Bench', country: null, city: null });
    const user = { email: `${id}@example.com`, name: 'Bench', role: 'admin' as const, passwordHash: 'none' };
    return { customerId: id, userId: (await createUser(sql, id, user, commandLine)).id };
  });
  await fillContacts(owner, customerId, contacts);
  return { customerId, userId };
}

interface Bench {
  db: Database;
  owner: postgres.Sql;
  customerId: string;
}

/** Milliseconds of what lasts and, at the same time, of the slowest writes of contacts, one after the other. */
async function watched({ db, owner, customerId }: Bench, work: () => Promise<void>) {
  const ids = (
    await owner`select id from contacts where customer_id = ${customerId} order by hashtext(id::text || 'x') limit 2000`
  ).map(({ id }) => id as string);
  const done = new AbortController();
  let [slowestChange, slowestCreate, writes] = [0, 0, 0];
  const writer = async (offset: number) => {
    for (let i = offset; !done.signal.aborted; i += 2, writes += 1) {
      const id = ids[i % ids.length]!;
      const change = () => db.transaction((sql) => contactWrites.update(sql, customerId, id, { gender: `${i}` }));
      slowestChange = Math.max(slowestChange, await milliseconds(change));
      const body = { first_name: 'A', last_name: 'B', work_email: 'a@b.example', phone_numbers: [] } as never;
      const create = () => db.transaction((sql) => contactWrites.create(sql, customerId, body));
      if (i % 5 === 0) slowestCreate = Math.max(slowestCreate, await milliseconds(create));
    }
  };
  const writers = [writer(0), writer(1)];
  await sleep(50);
  const ms = await milliseconds(work);
  done.abort();
  await Promise.all(writers);
  return { ms, 'slowest PATCH of a contact': slowestChange, 'slowest POST': slowestCreate, writes };
}

/** How long something takes. */
export async function milliseconds(work: () => Promise<unknown>): Promise<number> {
  const start = performance.now();
  await work();
  return performance.now() - start;
}

/** Prints a line of figures. */
function print(what: string, figures: Record<string, number>): void {
  const shown = Object.entries(figures).map(
    ([name, value]) => `${name} ${value < 10 ? value.toFixed(1) : Math.round(value)}`,
  );
  process.stdout.write(`  ${what.padEnd(58)}${shown.join('  ')}\n`);
}
