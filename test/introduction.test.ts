import { describe, expect, test } from 'vitest';
import { scopes } from '../src/schemas/scopes.ts';
import { appWithoutDatabase } from './contract/declared.ts';
import { startApp } from './setup/app.ts';
import { contactBody, inject, make, type Answer, type TestCustomer } from './setup/factories.ts';
import { readPage, tables } from './setup/generated-tables.ts';

// docs/api.md is the introduction of /docs. What it claims is true of the service.
const { is: text } = await readPage(tables.filters);
// No search cluster listens on this port.
const limits = { RATE_LIMITS: 'on', RATE_LIMIT_DEFAULT: '100', ELASTICSEARCH_URL: 'http://127.0.0.1:9' };
const app = await startApp(limits);

test.each(Object.entries(tables))('the table of %s is up to date (else run `npm run contract`)', async (_, table) => {
  const { is, shouldBe } = await readPage(table);
  expect(is).toBe(shouldBe);
});

test('names every scope', () => {
  expect(scopes.filter((scope) => !text.includes(`\`${scope}\``))).toEqual([]);
});

test('the OpenAPI document begins with it', async () => {
  const { info } = (await app.fastify.inject('/openapi.json')).json<{ info: { description: string } }>();
  expect(info.description).toBe(text);
});

test.each([
  [{ PUBLIC_URL: 'https://api.example.com/' }, 'API=https://api.example.com/api/ext;'],
  [{ PORT: '8080' }, 'API=http://127.0.0.1:8080/api/ext;'],
])('its examples call the address of the service: %j', async (environment, address) => {
  const other = appWithoutDatabase(environment);
  await other.ready();
  const { description } = other.swagger().info;
  await other.close();
  expect(description).toContain(address);
  expect(description).not.toContain('127.0.0.1:3000');
});

test('the examples of filters and orders are accepted', async () => {
  const customer = await app.customer();
  const conditions = [...text.matchAll(/^\| `(\{.*\})` \|/gm)].map(([, json]) => JSON.parse(json!) as object);
  const orders = [...text.matchAll(/`(\{"score": "DESC"\}|\[\{"field".*?\])`/g)].map(
    ([, json]) => JSON.parse(json!) as object,
  );
  expect([conditions.length, orders.length]).toEqual([7, 2]);
  for (const filters of conditions) expect((await customer.post('/contacts/list', { filters })).status).toBe(200);
  for (const order_by of orders) expect((await customer.post('/contacts/list', { order_by })).status).toBe(200);
});

/** Returns the body that the introduction sends to a path with curl. */
const bodySentTo = (path: string): object => {
  const [call] = text.split(`$API${path} `).slice(1);
  return JSON.parse(/-d '([^']*)'/.exec(call!)![1]!) as object;
};

test('the example of a batch creates one contact and changes another one', async () => {
  const customer = await app.customer();
  await make(customer, '/contacts', contactBody({ external_id: 'crm-2' }));
  const { body } = await customer.post('/contacts/batch/upsert', bodySentTo('/contacts/batch/upsert'));
  expect(body.data.results).toMatchObject([{ status: 'created' }, { status: 'updated' }]);
});

test('the example of an import is accepted, and its file starts it', async () => {
  const customer = await app.customer();
  const { id } = (await customer.post('/imports', bodySentTo('/imports'))).body.data;
  const file = 'first_name,last_name,work_email\nAda,Lovelace,ada@example.com\n';
  const sent = await customer.call('PUT', `/imports/${id}/file`, file, { 'content-type': 'text/csv' });
  expect(sent).toMatchObject({ status: 200, body: { status: 'PENDING' } });
});

/** The examples of error bodies, by status. */
const examples = new Map(
  [...text.matchAll(/```json\n([\s\S]*?)```/g)].flatMap(([, json]) => {
    const body = JSON.parse(json!) as { statusCode?: number };
    return body.statusCode === undefined ? [] : [[body.statusCode, body] as const];
  }),
);

/** For each status, a call that fails with it. */
const failures: Record<number, (customer: TestCustomer) => Promise<Answer>> = {
  400: (customer) => customer.post('/contacts/list', { paginate: { limit: 101 } }),
  401: (customer) => customer.get('/customer/summary', { authorization: 'X-API-Key sda_unknown' }),
  402: (customer) => customer.post('/service-handler/verify-email', { emails: [{ email: 'ada@example.com' }] }),
  403: async (customer) => (await customer.withScopes(['products:read'])).get('/customer/summary'),
  404: (customer) => customer.get('/contacts/0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b'),
  405: (customer) => customer.get('/contacts/list'),
  409: async (customer) => {
    const body = contactBody({ external_id: 'crm-4711' });
    await make(customer, '/contacts', body);
    return customer.post('/contacts', body);
  },
  412: async (customer) => {
    const id = await make(customer, '/contacts', contactBody());
    return customer.call('PATCH', `/contacts/${id}`, {}, { 'if-match': '"old"' });
  },
  413: (customer) => customer.post('/contacts', contactBody({ job_title: 'x'.repeat(1024 * 1024) })),
  415: (customer) => customer.post('/contacts', '<contact/>', { 'content-type': 'application/xml' }),
  422: async (customer) => {
    const key = { 'idempotency-key': 'a' };
    await customer.post('/contacts', contactBody(), key);
    return customer.post('/contacts', contactBody({ first_name: 'Grace' }), key);
  },
  429: async (customer) => {
    for (;;) {
      const answer = await customer.get('/customer/summary');
      if (answer.status !== 200) return answer;
    }
  },
  500: async ({ key }) => {
    const broken = appWithoutDatabase(); // its database throws an unexpected error
    const answer = await inject(broken, 'GET', '/api/ext/customer/summary', undefined, {
      authorization: `X-API-Key ${key}`,
    });
    await broken.close();
    return answer;
  },
  503: (customer) => customer.post('/prospect/list', {}),
};

describe('the example of an error', () => {
  test.each(Object.keys(failures).map(Number))('%i is what the service sends', async (status) => {
    const answer = await failures[status]!(await app.customer());
    expect(answer.status).toBe(status);
    expect(answer.body).toEqual(examples.get(status));
  });

  test('is there for every status', () => {
    expect([...examples.keys()]).toEqual(Object.keys(failures).map(Number));
  });
});
