import { setTimeout as sleep } from 'node:timers/promises';
import postgres from 'postgres';
import { parseConfig } from '../src/process/config.ts';
import { openDatabase } from '../src/database/db.ts';
import { migrate } from '../src/database/migrate.ts';
import { openEmbeddedPostgres } from '../src/embedded-postgres/server.ts';
import { fillLists } from '../src/jobs/fill-lists.ts';
import type { JobContext } from '../src/jobs/handler.ts';
import {
  updateContact,
  countContacts,
  deleteContact,
  findContacts,
  listContacts,
} from '../src/queries/crm/contacts.ts';
import { createList, deleteList, duplicateList, findList, listLists } from '../src/queries/crm/lists.ts';
import { createPipeline, salesStages } from '../src/queries/sales/pipelines.ts';
import { updateProduct, createProduct, deleteProduct, listProducts } from '../src/queries/sales/products.ts';
import { listStages } from '../src/queries/sales/stages.ts';
import { makeCustomer, milliseconds, print, watched } from './companies.ts';

/** Deletions and copies of what very many records refer to, and what others notice of them. */
export async function benchDependants(members: number, opportunities: number): Promise<void> {
  const server = await openEmbeddedPostgres('', { throwaway: true });
  await migrate(server.ownerUrl);
  const owner = postgres(server.ownerUrl, { max: 1, onnotice: () => {} });
  const db = openDatabase(parseConfig({ LOG_LEVEL: 'silent' }), server.serviceUrl);
  const made = await makeCustomer(db, owner, members);
  const bench = { db, owner, ...made };
  const { customerId, userId } = made;
  const context = { db, stopping: new AbortController().signal } as unknown as JobContext;

  const { id: list } = await db.transaction((sql) => createList(sql, customerId, userId, { name: 'All' }));
  await owner`
    insert into list_members (customer_id, list_id, contact_id, by_hand, by_rule)
    select customer_id, ${list}, id, true, false from contacts where customer_id = ${customerId}`;
  await owner`insert into counters values (${customerId}, ${list}, 0, ${members})`;
  await owner`vacuum analyze`;
  print('undisturbed', await watched(bench, async () => sleep(3_000)));

  const reads = async (what: string, id: string) => {
    const filters = { list_id: id };
    const [{ id: contact }] = await owner<[{ id: string }]>`
      select id from contacts where customer_id = ${customerId} order by id limit 1`;
    const all: Record<string, () => Promise<unknown>> = {
      'a page of it': () => listContacts(db, customerId, { filters }),
      'its members counted': () => countContacts(db, customerId, { filters }),
      'that list': () => findList(db, customerId, id),
      'a page of lists': () => listLists(db, customerId, {}),
      'in no list': () => listContacts(db, customerId, { filters: { list_id: null } }),
      'a contact': () => db.lookup((sql) => findContacts(sql, customerId, [contact])),
    };
    for (const [read, work] of Object.entries(all)) print(`${what}: ${read}`, { ms: await milliseconds(work) });
  };
  const work = async (what: string) =>
    print(`${what}: done by a worker`, await watched(bench, () => fillLists(600)(context, { customerId })));
  let copy = '';
  print(
    'a list copied',
    await watched(bench, async () => {
      copy = await db.transaction((sql) => duplicateList(sql, customerId, userId, { list_id: list, new_name: 'Copy' }));
    }),
  );
  await reads('copy, not written', copy);
  await work('a list copied');
  await reads('copy, written', copy);
  print('a list deleted', await watched(bench, () => db.transaction((sql) => deleteList(sql, customerId, copy))));
  await reads('list deleted, not emptied', list);
  await work('a list deleted');

  const product = await db.transaction((sql) => createProduct(sql, customerId, { name: 'P', price: 1, unit: 'piece' }));
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
  print('a page of products', { ms: await milliseconds(() => db.search((sql) => listProducts(sql, customerId))) });
  print('the stages', {
    ms: await milliseconds(() => listStages(db, customerId, { pipeline_id: pipeline })),
  });
  print(
    'a product changed',
    await watched(bench, () => db.transaction((sql) => updateProduct(sql, customerId, product, { name: 'Q' }))),
  );
  print(
    'a product deleted',
    await watched(bench, () => db.transaction((sql) => deleteProduct(sql, customerId, product))),
  );
  print(
    'a contact of many opportunities changed',
    await watched(bench, () => db.transaction((sql) => updateContact(sql, customerId, contact, { gender: 'x' }))),
  );
  print(
    'a contact of many opportunities deleted',
    await watched(bench, () => db.transaction((sql) => deleteContact(sql, customerId, contact))),
  );
  await owner.end({ timeout: 1 });
  await db.close();
  await server.close();
}
