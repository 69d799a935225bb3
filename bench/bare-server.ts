import { hash, randomUUID } from 'node:crypto';
import fastify from 'fastify';
import postgres from 'postgres';
import { batchLookups, type Database, type Sql, Transactions } from '../src/database/db.ts';
import { registerArrays, wireTypes } from '../src/database/connection.ts';
import { findKeyStates } from '../src/queries/accounts/api-keys.ts';
import { findContacts, listContacts } from '../src/queries/crm/contacts.ts';
import { contactWrites } from '../src/queries/crm/record-batches.ts';
import { Contact, ContactDetail, type ContactCreate, type ContactQuery } from '../src/schemas/contacts.ts';
import { done, DoneWithId } from '../src/schemas/wire.ts';
import type { TokenHash } from '../src/access/credentials.ts';

// The ceiling: the same statements through the same driver, answered with the same schemas by a bare Fastify. No key, no
// validation, no log, no gate, no limit. With a third argument it also looks up the key of every request, and does nothing
// with it: what no service that is protected by keys can beat.
const [url, customerId, withKeys] = process.argv.slice(2) as [string, string, string?];
const connect = (max: number, planner = {}): Sql => {
  const connection = { role: 'sales_data_api', TimeZone: 'UTC', ...planner };
  const sql = postgres(url, { max, types: wireTypes, fetch_types: false, connection }) as unknown as Sql;
  registerArrays(sql);
  return sql;
};
// The service's settings for look-ups. Without them PostgreSQL plans the statement for a contact again each time.
const [reads, writes] = [connect(2, { plan_cache_mode: 'force_generic_plan', enable_seqscan: 'off' }), connect(10)];
const transactions = new Transactions();
const db: Database = {
  lookup: (work) => work(reads),
  search: (work) => work(writes),
  transaction: (work) =>
    transactions.run(writes, { source: 'api', actor: { type: 'key' }, changeId: randomUUID() }, work),
};

const findKey = batchLookups(
  (keyHash: TokenHash) => keyHash.toString('latin1'),
  (hashes) => findKeyStates(reads, hashes),
  (key) => key.key_hash,
);

const app = fastify();
if (withKeys)
  app.addHook('onRequest', async ({ headers }) => {
    const key = headers.authorization!.split(' ')[1]!;
    if (!(await findKey(hash('sha256', key, 'buffer') as TokenHash))) throw new Error('There is no such key');
  });
app.get<{ Params: { id: string } }>('/contacts/:id', { schema: { response: { 200: ContactDetail } } }, (request) =>
  db.lookup(async (sql) => (await findContacts(sql, customerId, [request.params.id]))[0]),
);
app.post<{ Body: ContactQuery }>(
  '/contacts/list',
  { schema: { response: { 200: { type: 'array', items: Contact } } } },
  async (request) => (await listContacts(db, customerId, request.body)).rows,
);
app.post<{ Body: ContactCreate; Headers: { 'x-customer': string } }>(
  '/contacts',
  { schema: { response: { 201: DoneWithId } } },
  async (request, reply) =>
    reply
      .code(201)
      .send(
        done(
          'Contact created',
          await db.transaction((sql) => contactWrites.create(sql, request.headers['x-customer'], request.body)),
        ),
      ),
);
process.stdout.write(`${JSON.stringify({ url: await app.listen({ port: 0, host: '127.0.0.1' }) })}\n`);
