import { setTimeout as sleep } from 'node:timers/promises';
import { beforeAll, expect, test } from 'vitest';
import { startApp } from '../setup/app.ts';
import {
  companyBody,
  contactBody,
  make,
  makeList,
  makeUser,
  opportunityBody,
  productBody,
} from '../setup/factories.ts';
import { hashPassword } from '../../src/accounts/users.ts';
import { declaredRoutes, statusesOf, type DeclaredRoute, type Json } from './declared.ts';
import { makeRecords, makeWebhook, openSession, password, pathOf, type Records } from './records.ts';

// Every example of a request body in the OpenAPI document is sent to the service as it is. The records that examples
// refer to exist under the ids in the examples.
const app = await startApp();
const document = app.fastify.swagger() as unknown as {
  paths: Record<string, Record<string, { requestBody?: { content: Record<string, { example?: unknown }> } }>>;
};
// What deletes comes last, because it deletes records to which other examples refer.
const deletes = ({ url }: DeclaredRoute): boolean => /\/(batch\/delete|merge)$/.test(url);
const routes = (await declaredRoutes()).documented
  .filter(({ method, body }) => method !== 'HEAD' && Object.keys((body?.['properties'] ?? {}) as Json).length > 0)
  .toSorted((one, other) => Number(deletes(one)) - Number(deletes(other)));

const exampleId = (last: string) => `0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5${last}`;
const hash = hashPassword(password);
let records: Records;

beforeAll(async () => {
  records = await makeRecords(app);
  const { customer } = records;
  const rename = (table: string, id: string, last: string) =>
    app.owner`update ${app.owner(table)} set id = ${exampleId(last)} where id = ${id}`;
  for (const last of ['b', 'c']) await rename('contacts', await make(customer, '/contacts', contactBody()), last);
  for (const last of ['b', 'c', 'e']) await rename('products', await make(customer, '/products', productBody()), last);
  await rename('lists', await makeList(app.fastify, customer), 'b');
  for (const last of ['b', 'd']) await rename('users', await makeUser(app.fastify, customer.id), last);
  await rename('companies', await make(customer, '/company', companyBody()), 'b');
  const opportunity = await make(customer, '/opportunities', await opportunityBody(customer));
  await rename('opportunities', opportunity, 'b');
  const products = { update: [], add: [{ id: exampleId('e'), price: 10, quantity: 1 }] };
  await customer.patch(`/opportunities/${exampleId('b')}`, { products });
  const task = { type: 'task', title: 'Call', opportunity_id: exampleId('b') };
  await rename('activities', await make(customer, '/activities', task), 'b');
  await app.owner`
    insert into pipelines (customer_id, id, name)
    values (${customer.id}, ${exampleId('b')}, 'Sales')`;
  await app.owner`
    insert into stages (customer_id, id, pipeline_id, name, position, probability_percentage)
    values
      (${customer.id}, ${exampleId('b')}, ${exampleId('b')}, 'Lead', 1, 10),
      (${customer.id}, ${exampleId('c')}, ${exampleId('b')}, 'Qualified', 2, 25)`;
});

/** Sends a body to a route, with a credential that the route accepts and a record that it can act on. */
async function send(route: DeclaredRoute, payload: unknown) {
  const { customer } = records;
  // The examples of all bodies have the same external_id.
  for (const table of ['contacts', 'companies', 'products', 'opportunities', 'activities'])
    await app.owner`update ${app.owner(table)} set external_id = null`;
  // A customer has at most three imports that have not ended. Two are those of `records`.
  if (route.url.endsWith('/imports'))
    await app.owner`
      update imports
      set status = 'CANCELLED', finished_at = now()
      where status = 'UPLOADING'
        and id <> ${records.newImport}`;
  if (route.url.startsWith('/api/auth'))
    await app.owner`
      update users
      set email = 'ada.lovelace@example.com', email_folded = 'ada.lovelace@example.com', password_hash = ${await hash}
      where id = ${customer.adminId}`;
  if (route.url.endsWith('/opportunities/:id')) {
    const lines = [{ id: exampleId('e'), price: 10, quantity: 1 }];
    records.opportunity = await make(customer, '/opportunities', await opportunityBody(customer, { products: lines }));
  }
  if (route.url.endsWith('/activities/:id'))
    records.activity = await make(customer, '/activities', {
      type: 'task',
      title: 'Call',
      company_id: records.company,
    });
  // Those of the other examples went with the records that were deleted before.
  if (route.url.endsWith('/activities/batch/delete')) {
    await app.owner`delete from activities where id = ${exampleId('b')}`;
    const id = await make(customer, '/activities', { title: 'Call', company_id: records.company });
    await app.owner`update activities set id = ${exampleId('b')} where id = ${id}`;
  }
  if (route.url.endsWith('/merge')) {
    const { id, merge_ids } = payload as { id: string; merge_ids: string[] };
    for (const wanted of [id, ...merge_ids]) await provide(route, wanted);
  }
  // One at a time, and at most ten.
  if (route.url.endsWith('/replay')) {
    await app.owner`delete from webhook_endpoints where customer_id = ${customer.id}`;
    records.webhook = await makeWebhook(app.fastify, customer);
  }
  if (route.url.startsWith('/api/api-key/update'))
    records.apiKey = (await customer.withScopes(['customer:read'])).keyId;
  const bearer = 'session' in route.access && (await openSession(app, customer.id, customer.adminId));
  const answer = app.fastify.inject({
    method: route.method as 'GET',
    url: pathOf(route, records),
    headers: { authorization: bearer ? `Bearer ${bearer}` : `X-API-Key ${customer.key}` },
    payload: payload as object,
  });
  if ('wait' in (payload as object)) await makeEvents(answer);
  return answer;
}

/** Makes events until a request that waits for one is answered. */
async function makeEvents(answer: Promise<unknown>): Promise<void> {
  const answered = new AbortController();
  const noted = answer.finally(() => answered.abort());
  while (!answered.signal.aborted) {
    await make(records.customer, '/contacts', contactBody());
    await Promise.race([noted, sleep(100)]);
  }
}

/** Creates the record with this id if there is none. */
async function provide(route: DeclaredRoute, id: string): Promise<void> {
  const [path, table, body] = route.url.includes('/contacts/')
    ? ['/contacts', 'contacts', contactBody()]
    : ['/company', 'companies', companyBody()];
  const [found] =
    table === 'companies'
      ? await app.owner`select from companies where id = ${id} and deleted_at is null`
      : await app.owner`select from contacts where id = ${id}`;
  if (found) return;
  await app.owner`delete from merged_records where id = ${id}`; // no other record ever gets the id of a merged one
  // A deleted company keeps its row for a while.
  const back = table === 'companies' && (await app.owner`update companies set deleted_at = null where id = ${id}`);
  if (back && back.count > 0) return;
  const made = await make(records.customer, path, body);
  await app.owner`update ${app.owner(table)} set id = ${id} where id = ${made}`;
}

test.each(routes)('the examples of $name run as they are', async (route) => {
  const path = route.url.replace(/:(\w+)/g, '{$1}');
  const media = Object.values(document.paths[path]![route.method.toLowerCase()]!.requestBody!.content);
  const whole = media.map(({ example }) => example as Json);
  expect(whole).not.toHaveLength(0);
  const fields = Object.entries(route.body!['properties'] as Record<string, { examples?: unknown[] }>);
  const partly = fields.flatMap(([name, { examples = [] }]) => examples.map((one) => ({ ...whole[0], [name]: one })));
  // One of the two, not both.
  if (route.url.endsWith('/enrich-contacts')) for (const one of partly) if ('filters' in one) delete one['contact_ids'];
  for (const example of [...whole, ...partly]) {
    const { statusCode, body } = await send(route, example);
    expect(`${statusCode}`, `${JSON.stringify(example)} ${body}`).toBe(statusesOf(route).success[0]);
    // A batch is 200 although its items fail.
    const isDone = !route.url.includes('/batch/') || (JSON.parse(body) as { success: boolean }).success;
    expect(isDone, body).toBe(true);
  }
});
