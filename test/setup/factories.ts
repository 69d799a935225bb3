import { randomBytes } from 'node:crypto';
import type { FastifyInstance, LightMyRequestResponse } from 'fastify';
import { noPassword, serviceItself } from '../../src/access/credentials.ts';
import type { Database } from '../../src/database/db.ts';
import { issueKey } from '../../src/queries/accounts/api-keys.ts';
import { grantCredits } from '../../src/queries/jobs/credits.ts';
import { createCustomer } from '../../src/queries/accounts/customers.ts';
import { createUser } from '../../src/queries/accounts/users.ts';
import { type SpendCapChanges, commandLine } from '../../src/schemas/accounts.ts';
import type { Pool } from '../../src/schemas/jobs.ts';
import { scopes, type Scope } from '../../src/schemas/scopes.ts';

type Json = any; // eslint-disable-line typescript/no-explicit-any -- tests read any field of responses

/** A response as a client sees it. */
export interface Answer {
  status: number;
  headers: LightMyRequestResponse['headers'];
  body: Json;
}

/** A customer, with a client that calls the external API with one of its keys. */
export interface TestCustomer {
  id: string;
  adminId: string;
  key: string;
  keyId: string;
  call: (method: string, path: string, body?: unknown, headers?: Record<string, string>) => Promise<Answer>;
  get: (path: string, headers?: Record<string, string>) => Promise<Answer>;
  post: (path: string, body?: unknown, headers?: Record<string, string>) => Promise<Answer>;
  patch: (path: string, body?: unknown, headers?: Record<string, string>) => Promise<Answer>;
  delete: (path: string, headers?: Record<string, string>) => Promise<Answer>;
  /** Creates a client with another key of the same customer, with these scopes. */
  withScopes: (permissions: Scope[]) => Promise<TestCustomer>;
  /** Creates a client with another key of the same customer, with every scope and these spend caps. */
  withCaps: (caps: SpendCapChanges) => Promise<TestCustomer>;
}

/** The app's database, used as the service itself. */
/** The hash of a password that no test needs. */
const someHash = noPassword.replace('$DCK', '$DCL');

export const dbOf = (app: FastifyInstance): Database => app.db.for({ customerId: serviceItself }, 'command');

/** Returns a short text that no other test uses. */
export const unique = (prefix: string): string => `${prefix}-${randomBytes(6).toString('hex')}`;

/** Creates a customer as the command line does, with an admin and a key with every scope. */
export async function makeCustomer(app: FastifyInstance): Promise<TestCustomer> {
  const { id, adminId } = await dbOf(app).transaction(async (sql) => {
    const customer = await createCustomer(sql, { business_name: unique('Customer'), country: null, city: null });
    const admin = {
      email: `${unique('admin')}@example.com`,
      name: 'Admin',
      role: 'admin' as const,
      passwordHash: someHash,
    };
    const user = await createUser(sql, customer.id, admin, commandLine);
    return { id: customer.id, adminId: user.id };
  });
  return clientOf(app, id, adminId, [...scopes]);
}

/** Adds credits to a customer. */
export const grant = (app: FastifyInstance, customerId: string, pool: Pool, amount: number): Promise<void> =>
  dbOf(app).transaction((sql) => grantCredits(sql, customerId, { pool, amount, note: null }));

/** Creates a user of a customer, with an unknown password. */
export async function makeUser(
  app: FastifyInstance,
  customerId: string,
  role: 'admin' | 'member' = 'member',
): Promise<string> {
  const given = { email: `${unique('user')}@example.com`, name: 'User', role, passwordHash: someHash };
  return (await dbOf(app).transaction((sql) => createUser(sql, customerId, given, commandLine))).id;
}

/** Creates an empty list of a customer. */
export async function makeList(
  app: FastifyInstance,
  { id, adminId }: { id: string; adminId: string },
): Promise<string> {
  const [list] = await dbOf(app).transaction(
    (sql) => sql<{ id: string }[]>`
      insert into lists (customer_id, name, owner_id)
      values (${id}, ${unique('List')}, ${adminId})
      returning id`,
  );
  return list!.id;
}

/** Creates a new key with these scopes, and a client that calls the app with it. */
export async function clientOf(
  app: FastifyInstance,
  id: string,
  adminId: string,
  permissions: Scope[],
  caps: SpendCapChanges = {},
): Promise<TestCustomer> {
  const given = { name: 'test', expiration: 7 as const, permissions, spend_caps: caps };
  const owner = { customerId: id, userId: adminId };
  const { id: keyId, key } = await dbOf(app).transaction((sql) => issueKey(sql, owner, given, 'sda', commandLine));
  const call: TestCustomer['call'] = (method, path, body, headers) =>
    inject(app, method, `/api/ext${path}`, body, { authorization: `X-API-Key ${key}`, ...headers });
  return {
    id,
    adminId,
    key,
    keyId,
    call,
    get: (path, headers) => call('GET', path, undefined, headers),
    post: (path, body, headers) => call('POST', path, body, headers),
    patch: (path, body, headers) => call('PATCH', path, body, headers),
    delete: (path, headers) => call('DELETE', path, undefined, headers),
    withScopes: (wanted) => clientOf(app, id, adminId, wanted),
    withCaps: (wanted) => clientOf(app, id, adminId, [...scopes], wanted),
  };
}

/** Sends a request to the app without a socket. A string or bytes are sent unchanged, another body as JSON. */
export async function inject(
  app: FastifyInstance,
  method: string,
  url: string,
  body?: unknown,
  headers: Record<string, string> = {},
): Promise<Answer> {
  const answer = await app.inject({
    method: method as 'GET',
    url,
    headers: { ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers },
    ...(body === undefined
      ? {}
      : { payload: typeof body === 'string' || Buffer.isBuffer(body) ? body : JSON.stringify(body) }),
  });
  const type = `${answer.headers['content-type']}`;
  const text = type.includes('application/json') && answer.body !== '' ? answer.json() : answer.body;
  const isWorkbook = type.includes('spreadsheetml');
  return { status: answer.statusCode, headers: answer.headers, body: isWorkbook ? answer.rawPayload : text };
}

/** Returns the smallest body that creates a contact. */
export const contactBody = (more: object = {}): Record<string, unknown> => ({
  first_name: 'Ada',
  last_name: 'Lovelace',
  work_email: 'ada@example.com',
  phone_numbers: [],
  ...more,
});

/** Returns the smallest body that creates a company. */
export const companyBody = (more: object = {}): Record<string, unknown> => ({
  type: 'customer',
  company_name: 'Analytical Engines',
  ...more,
});

/** Returns the smallest body that creates a product. */
export const productBody = (more: object = {}): Record<string, unknown> => ({
  name: 'Engine',
  price: 19.99,
  unit: 'piece',
  ...more,
});

/** Returns a body that creates an empty opportunity in the first stage of the customer's pipeline. */
export async function opportunityBody(customer: TestCustomer, more: object = {}): Promise<Record<string, unknown>> {
  const [stage] = await stagesOf(customer);
  return {
    name: 'Deal',
    contacts_ids: [],
    stage_id: stage!.id,
    user_id_assigned: customer.adminId,
    products: [],
    estimated_closing_date: '2026-03-14T09:26:53.589Z',
    close_date: '2026-06-30T00:00:00.000Z',
    priority: 'MEDIUM',
    ...more,
  };
}

/** Returns a body that creates a note about a new contact. */
export const activityBody = async (customer: TestCustomer, more: object = {}): Promise<Record<string, unknown>> => ({
  body: 'Wants a second engine',
  contact_id: await make(customer, '/contacts', contactBody()),
  ...more,
});

/** A kind of record with an own id. */
export interface RecordKind {
  path: string;
  /** Returns a body that creates one. */
  bodyOf: (customer: TestCustomer, more?: object) => Promise<Record<string, unknown>>;
  /** A text that a change may give it. */
  text: string;
}

export const recordKinds: RecordKind[] = [
  { path: '/contacts', bodyOf: async (_, more) => contactBody(more), text: 'job_title' },
  { path: '/company', bodyOf: async (_, more) => companyBody(more), text: 'size' },
  { path: '/products', bodyOf: async (_, more) => productBody(more), text: 'unit' },
  { path: '/opportunities', bodyOf: opportunityBody, text: 'description' },
  { path: '/activities', bodyOf: activityBody, text: 'body' },
];

/** Returns the stages of a customer's initial pipeline, in order. */
export async function stagesOf(customer: TestCustomer): Promise<{ id: string; name: string; pipeline_id: string }[]> {
  const { body: pipelines } = await customer.get('/pipelines');
  return (await customer.get(`/pipelines/${pipelines.at(-1).id}`)).body.stages;
}

/** Creates a record by POST and returns its id. */
export async function make(customer: TestCustomer, path: string, body: unknown): Promise<string> {
  const answer = await customer.post(path, body);
  if (answer.status !== 201) throw new Error(`POST ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
  return answer.body.data.id;
}
