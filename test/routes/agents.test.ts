import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startWorkers, type Workers } from '../../src/jobs/workers.ts';
import { tools } from '../../src/agents/tools.ts';
import type { Scope } from '../../src/schemas/scopes.ts';
import { person, writePeople } from '../catalog/people.ts';
import { contextOf } from '../jobs/working.ts';
import { startApp } from '../setup/app.ts';
import { makeSession } from '../setup/sessions.ts';
import { contactBody, grant, inject, unique, type TestCustomer } from '../setup/factories.ts';

const app = await startApp({ RATE_LIMIT_DEFAULT: '1000', RATE_LIMIT_PROSPECTS: '1000', RATE_LIMITS: 'on' });
const clients: Client[] = [];
let url: URL;
let customer: TestCustomer;
const people = Array.from({ length: 60 }, (_, i) =>
  person({
    score: i,
    job_title: 'Head of Purchasing',
    location_locality: i < 30 ? 'Lyon' : 'Nantes',
    date_verified: new Date(Date.UTC(2026, 0, 1, 0, i)).toISOString(),
  }),
);

beforeAll(async () => {
  url = new URL('/mcp', await app.fastify.listen({ port: 0, host: '127.0.0.1' }));
  customer = await app.customer();
  await app.catalog.prepare();
  await writePeople(app.catalog, people);
  await app.catalog.finish();
});

afterAll(async () => {
  for (const client of clients) await client.close();
});

/** Connects an assistant that speaks one revision of the protocol. */
async function connect(key: string, era: 'legacy' | 'modern' = 'modern', scheme = 'Bearer'): Promise<Client> {
  const client = new Client(
    { name: 'test', version: '1' },
    era === 'modern' ? { versionNegotiation: { mode: { pin: '2026-07-28' } } } : {},
  );
  const transport = new StreamableHTTPClientTransport(url, {
    requestInit: { headers: { authorization: `${scheme} ${key}` } },
  });
  await client.connect(transport);
  clients.push(client);
  return client;
}

type Result = { text: string; isError: boolean; json: any }; // eslint-disable-line typescript/no-explicit-any -- any result

async function use(client: Client, name: string, args: Record<string, unknown> = {}): Promise<Result> {
  const result = await client.callTool({ name, arguments: args });
  const [content] = result.content as { type: string; text: string }[];
  const isError = result.isError === true;
  return { text: content!.text, isError, json: isError ? undefined : JSON.parse(content!.text) };
}

test('an assistant adds a note, lists the tasks that are to be done, and completes one', async () => {
  const client = await connect(customer.key);
  const { json: made } = await use(client, 'create_contact', {
    first_name: 'Ada',
    last_name: 'Lovelace',
    work_email: `${unique('ada')}@example.com`,
    company: { name: unique('Engines') },
  });
  const contact_id = made.data.id as string;
  const company_id = (await customer.get(`/contacts/${contact_id}`)).body.company.id as string;
  const note = { contact_id, body: 'Wants a second engine', request_id: unique('note') };
  expect((await use(client, 'add_note', note)).json).toMatchObject({ success: true });
  expect((await use(client, 'add_note', note)).json).toMatchObject({ replayed: true });
  const late = { contact_id, type: 'task', title: 'Call back', due_at: '2020-01-01T00:00:00Z' };
  await use(client, 'add_note', { ...late, title: 'Send an offer', due_at: '2100-01-01T00:00:00Z' });
  const { json: added } = await use(client, 'add_note', late);
  const titles = async (args: Record<string, unknown>) =>
    (await use(client, 'list_tasks', args)).json.tasks.map(({ title }: { title: string }) => title);
  expect(await titles({ company_id })).toEqual(['Call back', 'Send an offer']);
  expect(await titles({ contact_id, is_overdue: true })).toEqual(['Call back']);
  expect((await use(client, 'complete_task', { id: added.data.id })).isError).toBe(false);
  const { done_at } = (await customer.get(`/activities/${added.data.id}`)).body;
  expect((await use(client, 'complete_task', { id: added.data.id })).isError).toBe(false);
  expect((await customer.get(`/activities/${added.data.id}`)).body.done_at).toBe(done_at);
  expect(await titles({ contact_id })).toEqual(['Send an offer']);
  expect((await use(client, 'add_note', { body: 'Of nobody' })).isError).toBe(true);
});

describe.each(['legacy', 'modern'] as const)('an assistant of the %s protocol', (era) => {
  test('creates, finds, changes and reads a contact, and adds it to a list', async () => {
    const client = await connect(customer.key, era, era === 'legacy' ? 'X-API-Key' : 'Bearer');
    const last_name = unique('Lovelace');
    const made = await use(client, 'create_contact', {
      first_name: 'Ada',
      last_name,
      work_email: 'ada@example.com',
      company: { name: 'Analytical Engines' },
    });
    const { id } = made.json.data;
    const found = await use(client, 'search_contacts', { search: last_name });
    expect(found.json.contacts).toMatchObject([{ id, name: `Ada ${last_name}`, company: 'Analytical Engines' }]);
    await use(client, 'update_contact', { id: id.toUpperCase(), job_title: 'Countess' });
    expect((await use(client, 'get_contact', { id })).json).toMatchObject({ id, job_title: 'Countess' });
    const list = await customer.post('/list-contact', { name: unique('Engines') });
    expect((await use(client, 'add_to_list', { list_id: list.body.id, contact_ids: [id] })).json.data.added).toBe(1);
    expect((await use(client, 'list_lists', { limit: 1 })).json.lists).toMatchObject([{ contacts_count: 1 }]);
    expect((await use(client, 'search_companies', { search: 'analytical' })).json.companies).toHaveLength(1);
  });
});

test('tools are offered, and exist, as far as the scopes of the key allow, with honest hints, in at most 12 KB', async () => {
  const all = await (await connect(customer.key)).listTools();
  expect(all.tools.map(({ name }) => name)).toEqual(Object.keys(tools));
  expect(Buffer.byteLength(JSON.stringify(all))).toBeLessThanOrEqual(12 * 1024);
  for (const { name, annotations, description } of all.tools) {
    const { effect } = tools[name as keyof typeof tools];
    expect(annotations!.readOnlyHint ?? false, name).toBe(effect === 'reads');
    expect(annotations!.destructiveHint ?? false, name).toBe(effect === 'overwrites');
    expect(description, name).toMatch(/^[A-Z].*\.$/s);
  }
  for (const scope of new Set(Object.values(tools).flatMap((tool) => tool.scopes as readonly Scope[]))) {
    const { key } = await customer.withScopes([scope]);
    const offered = (await (await connect(key)).listTools()).tools.map(({ name }) => name);
    const expected = Object.entries(tools).filter(([, tool]) => (tool.scopes as readonly Scope[]).includes(scope));
    expect(offered, scope).toEqual(expected.map(([name]) => name));
  }
  const { key } = await customer.withScopes(['products:read']);
  for (const era of ['legacy', 'modern'] as const) {
    const client = await connect(key, era);
    expect(client.getServerCapabilities()).toEqual({ tools: { listChanged: false } });
    expect((await client.listTools()).tools).toEqual([]);
    await expect(client.callTool({ name: 'credits', arguments: {} })).rejects.toThrow(/credits/);
  }
});

test('tools return pages of at most 16 KB that together hold every record once', async () => {
  const other = await app.customer();
  const long = { first_name: '漢'.repeat(200), job_title: '\u0001'.repeat(255), mobile_phone: '\u0001'.repeat(100) };
  const items = Array.from({ length: 60 }, (_, i) => contactBody({ ...long, last_name: `${i}` }));
  await other.post('/contacts/batch/create', { items });
  const client = await connect(other.key);
  const seen: string[] = [];
  for (let more: { cursor?: string } | undefined = {}; more;) {
    const { text, json } = await use(client, 'search_contacts', { limit: 50, ...more });
    expect(Buffer.byteLength(text)).toBeLessThanOrEqual(16 * 1024);
    seen.push(...json.contacts.map(({ id }: { id: string }) => id));
    more = json.next_cursor && { cursor: json.next_cursor };
  }
  expect([seen.length, new Set(seen).size]).toEqual([60, 60]);
});

test('tools say what to change when an argument is wrong, or the record is unknown', async () => {
  const client = await connect(customer.key);
  const wrong = await use(client, 'search_contacts', { filters: { job: 'x' } });
  expect(wrong).toMatchObject({ isError: true, text: expect.stringMatching(/^\/filters\/job: [^\n]*$/) });
  const stale = await use(client, 'search_contacts', { cursor: 'x' });
  expect(stale).toMatchObject({ isError: true, text: expect.stringMatching(/^\/cursor: [^\n]*$/) });
  const unknown = await use(client, 'get_contact', { id: '0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b' });
  expect(unknown).toMatchObject({ isError: true, text: expect.stringMatching(/No such contact[^]*Search/) });
  const more = await use(client, 'list_lists', { page: 2 });
  expect(more).toMatchObject({ isError: true, text: expect.stringMatching(/page.*allowed: limit, cursor/) });
});

test('tools count once toward the rate limit `default`, and toward that of their route', async () => {
  const other = await app.customer();
  const left = async () => {
    const { headers } = await other.post('/prospect/list', {});
    const [, all, prospects] = /"default";r=(\d+).*"prospects";r=(\d+)/.exec(headers['ratelimit'] as string)!;
    return { all: Number(all), prospects: Number(prospects) };
  };
  const before = await left();
  const call = rpc('tools/call', { name: 'search_prospects', arguments: {} });
  expect((await send(call, { authorization: `Bearer ${other.key}` })).body).toContain('prospects');
  const after = await left();
  expect(before.all - after.all).toBe(2);
  expect(before.prospects - after.prospects).toBe(2);
});

describe('an agent that spends', () => {
  const buyers = { filters: { job_title: ['head of purchasing'], location_locality: ['Lyon'] } };
  let workers: Workers;
  beforeAll(async () => {
    workers = await startWorkers({ ...contextOf(app), url: app.url });
  });
  afterAll(() => workers.stop());

  /** Connects an agent whose key may spend `amount` subscription credits a day. */
  async function capped(amount: number): Promise<{ client: Client; by: TestCustomer }> {
    const by = await app.customer();
    await grant(app.fastify, by.id, 'subscription', 1000);
    await grant(app.fastify, by.id, 'verification', 1000);
    const caps = { subscription: { amount, per: 'day' }, verification: null };
    await app.owner`update api_keys set spend_caps = ${app.owner.json(caps)} where id = ${by.keyId}`;
    return { client: await connect(by.key), by };
  }

  const balance = async (by: TestCustomer): Promise<number> =>
    (await by.get('/customer/credits')).body.subscription.balance;

  test('finds, prices, unlocks and lists prospects, is refused beyond its cap, and spends nothing by asking twice', async () => {
    const { client, by } = await capped(5);
    expect((await use(client, 'search_prospects', { ...buyers, limit: 10 })).json.prospects).toHaveLength(10);
    const estimate = await use(client, 'estimate_unlock', { ...buyers, total_records: 5 });
    expect(estimate.json).toEqual({ matches: 30, cost: 5, available: 5 });
    const order = { ...buyers, total_records: 5, max_credits: 5, request_id: 'ÄÖ lyon' };
    const started = await use(client, 'unlock_prospects', order);
    const { id } = started.json;
    await expect.poll(async () => (await use(client, 'job_status', { id })).json.status).toBe('COMPLETED');
    const done = await use(client, 'job_status', { id, results: true });
    expect(done.json.job.credits.charged).toBe(5);
    expect(done.json.results).toHaveLength(5);
    expect(done.json.results[0].prospect.work_email).not.toContain('•');
    const again = await use(client, 'unlock_prospects', {
      request_id: 'ÄÖ lyon',
      max_credits: 5,
      total_records: 5,
      ...buyers,
    });
    expect(again.json).toEqual({ ...started.json, replayed: true });
    const more = await use(client, 'unlock_prospects', { ...order, total_records: 1, request_id: 'more' });
    expect(more).toMatchObject({
      isError: true,
      text: expect.stringMatching(/spend cap of the API key leaves 0[^]*Nothing was spent/),
    });
    expect(await balance(by)).toBe(995);
  });

  test('that waits for an approval can be asked for: first the approval, then its job', async () => {
    const { client, by } = await capped(50);
    await app.owner`update api_keys set approve_over = '{"credits": 1, "records": null}' where id = ${by.keyId}`;
    const order = { ...buyers, total_records: 2, max_credits: 2, request_id: 'waits' };
    const { id: waits } = (await use(client, 'unlock_prospects', order)).json.approval;
    const status = async (id: string) => (await use(client, 'job_status', { id })).json;
    expect(await status(waits)).toMatchObject({ status: 'pending', answer: null });
    const session = await makeSession(app.fastify, by.id);
    expect(await session.call('PATCH', `/api/approval/${waits}`, { approve: true })).toMatchObject({ status: 200 });
    const { answer } = await status(waits);
    expect(await status(answer.id)).toMatchObject({ id: answer.id, type: 'unlock_contacts' });
  });

  test('spends nothing if the call could cost more than max_credits, or its request_id had other arguments', async () => {
    const { client, by } = await capped(100);
    const order = { ...buyers, total_records: 5, max_credits: 4, request_id: 'a' };
    for (const wrong of [order, { ids: people.slice(0, 5).map(({ _id }) => _id), max_credits: 4, request_id: 'b' }])
      expect(await use(client, 'unlock_prospects', wrong)).toMatchObject({
        isError: true,
        text: expect.stringMatching(/needs 5 subscription credits, and the request allows 4/),
      });
    const emails = [{ email: 'ada@example.com' }, { email: 'Ada@example.com' }];
    expect((await use(client, 'verify_emails', { emails, max_credits: 0, request_id: 'c' })).isError).toBe(true);
    expect(await balance(by)).toBe(1000);
    expect((await use(client, 'verify_emails', { emails, max_credits: 1, request_id: 'c' })).json.status).toBe(
      'PENDING',
    );
    const others = await use(client, 'verify_emails', {
      emails: [{ email: 'bob@example.com' }],
      max_credits: 1,
      request_id: 'c',
    });
    expect(others).toMatchObject({ isError: true, text: expect.stringContaining('Choose a new one') });
    expect((await use(client, 'unlock_prospects', { ids: [], ...order })).isError).toBe(true);
  });
});

const rpc = (method: string, params = {}) => ({ jsonrpc: '2.0', id: 1, method, params });
const send = (body: unknown, headers: Record<string, string>) =>
  inject(app.fastify, 'POST', '/mcp', body, { accept: 'application/json, text/event-stream', ...headers });

test('POST /mcp refuses what is no key of the API, a session too, and pages of other sites', async () => {
  const key = { authorization: `Bearer ${customer.key}` };
  for (const headers of [{}, { authorization: 'Bearer sda_x' }, { authorization: customer.key }])
    expect((await send(rpc('tools/list'), headers as Record<string, string>)).status).toBe(401);
  for (const origin of ['http://evil.example', 'null', 'http://127.0.0.1:1'])
    expect((await send(rpc('tools/list'), { ...key, origin })).status, origin).toBe(403);
  expect((await send(rpc('tools/list'), { ...key, origin: 'http://127.0.0.1:3000' })).status).toBe(200);
  expect((await send(rpc('tools/list'), key)).status).toBe(200);
});

test('POST /mcp takes one message at a time, and ends each: nothing can be left open', async () => {
  const key = { authorization: `Bearer ${customer.key}` };
  expect((await send([rpc('tools/list'), rpc('tools/list')], key)).status).toBe(400);
  expect((await send(rpc('subscriptions/listen'), key)).status).toBe(400);
  for (const method of ['GET', 'DELETE']) {
    const answer = await inject(app.fastify, method, '/mcp', undefined, key);
    expect([answer.status, answer.headers['allow']]).toEqual([405, 'POST']);
  }
  expect((await send('{"a":'.repeat(100), key)).status).toBe(400);
});
