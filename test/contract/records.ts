import { hashPassword } from '../../src/accounts/users.ts';
import { endpointCreation } from '../../src/accounts/webhooks.ts';
import { createApproval } from '../../src/queries/accounts/approvals.ts';
import { commandLine } from '../../src/schemas/accounts.ts';
import { eventNouns, type EventNoun } from '../../src/schemas/events.ts';
import { mayCall, recordScopes, type Scope } from '../../src/schemas/scopes.ts';
import { startJob, toInputs } from '../../src/jobs/start-job.ts';
import { jobScopes, jobTable, jobTypes, pools, type JobType } from '../../src/schemas/jobs.ts';
import { mintToken, sessionPrefix } from '../../src/access/credentials.ts';
import type { TestApp } from '../setup/app.ts';
import {
  companyBody,
  contactBody,
  dbOf,
  grant,
  make,
  makeUser,
  opportunityBody,
  productBody,
  recordKinds,
  stagesOf,
  unique,
  type TestCustomer,
} from '../setup/factories.ts';
import type { DeclaredRoute } from './declared.ts';
import type { Known } from './positions.ts';

/** A customer with one record of each kind that a request can refer to. */
export interface Records {
  customer: TestCustomer;
  adminEmail: string;
  /** A session of the admin. */
  session: string;
  contact: string;
  company: string;
  /** Further contacts and companies, without anything that refers to them. */
  secondContact: string;
  thirdContact: string;
  secondCompany: string;
  thirdCompany: string;
  list: string;
  user: string;
  apiKey: string;
  webhook: string;
  /** A call of the customer's key that waits for an approval. */
  approval: string;
  /** What a call has changed. */
  change: string;
  /** The customer's pipeline, and its first stage. */
  pipeline: string;
  stage: string;
  /** An opportunity with two products. */
  opportunity: string;
  activity: string;
  product: string;
  secondProduct: string;
  /** Products that are in no opportunity. */
  unusedProduct: string;
  secondUnusedProduct: string;
  /** A pending job that keys with `verify_email:create` can see. */
  job: string;
  /** An import of contacts that waits for its start, and one that waits for its file. */
  import: string;
  newImport: string;
  importKind: ImportKind;
  /** Pending jobs, by the scope of the keys that can see them. */
  jobs: Partial<Record<Scope, string>>;
}

/** What an import does, as its request says. */
interface ImportKind {
  object: string;
  mode: string;
}

/** Returns the kind of import that needs only this scope; where none does, changes of contacts. */
function importKindOf(scope: Scope | undefined): ImportKind {
  const [, object, mode] = /^(contacts|companies|products|opportunities):(create|update)$/.exec(scope ?? '') ?? [];
  return object && mode ? { object, mode } : { object: 'contacts', mode: 'update' };
}

type Kind = Exclude<keyof Records, 'customer' | 'adminEmail' | 'session' | 'jobs' | 'importKind'>;

/**
 * The kind of record that an id refers to: by route for ids in paths (what comes before the id, unless the whole route is
 * listed), by position for ids in bodies. A new route or reference must be added here; otherwise the tests that derive
 * requests from the schemas fail and say so. Where an array must not repeat a record, `/1` after a position gives the kind
 * of its second element.
 */
const kinds: Record<string, Kind> = {
  '/api/ext/contacts': 'contact',
  '/api/ext/company': 'company',
  '/api/ext/products': 'product',
  '/api/ext/opportunities': 'opportunity',
  '/api/ext/activities': 'activity',
  '/api/ext/pipelines': 'pipeline',
  '/api/ext/list-contact': 'list',
  '/api/ext/list-contact/verify-contacts': 'list',
  '/api/ext/service-handler': 'job',
  '/api/ext/imports': 'import',
  '/api/ext/imports/:id/file': 'newImport',
  '/api/api-key/update': 'apiKey',
  '/api/api-key/spend-caps': 'apiKey',
  '/api/api-key/revoke': 'apiKey',
  '/api/ext/changes': 'change',
  '/api/ext/service-handler/:id/undo': 'change',
  '/api/ext/imports/:id/undo': 'change',
  '/api/approval': 'approval',
  '/api/ext/approval': 'approval',
  '/api/webhook': 'webhook',
  '/api/ext/webhooks': 'webhook',
  '/assigned_to': 'user',
  '/company/id': 'company',
  '/emails/contact_id': 'contact',
  '/list_ids': 'list',
  '/list_id': 'list',
  '/contact_ids': 'contact',
  '/pipeline_id': 'pipeline',
  '/stage_id': 'stage',
  '/company_id': 'company',
  '/contacts_ids': 'contact',
  '/contact_id': 'contact',
  '/opportunity_id': 'opportunity',
  '/filters/stage_id': 'stage',
  '/filters/company_id': 'company',
  '/filters/contact_id': 'contact',
  '/user_id_assigned': 'user',
  '/products/id': 'product',
  '/products/id/1': 'secondProduct',
  '/products/add/id': 'unusedProduct',
  '/products/add/id/1': 'secondUnusedProduct',
  '/products/update/id': 'product',
  '/products/update/id/1': 'secondProduct',
  '/products/remove': 'product',
  '/products/remove/1': 'secondProduct',
  '/api/ext/contacts/merge/id': 'contact',
  '/api/ext/contacts/merge/merge_ids': 'secondContact',
  '/api/ext/contacts/merge/merge_ids/1': 'thirdContact',
  '/api/ext/company/merge/id': 'company',
  '/api/ext/company/merge/merge_ids': 'secondCompany',
  '/api/ext/company/merge/merge_ids/1': 'thirdCompany',
};

/** Returns a position in the body of a route, with the route if the same position of others has another kind of record. */
export const placeAt = (url: string, place: string): string => (`${url}${place}` in kinds ? `${url}${place}` : place);

/** Positions whose ids are accepted whatever they refer to. */
const filtered = ['stage_id', 'company_id', 'contact_id', 'record_id', 'change_id', 'actor_id'].map(
  (name) => `/filters/${name}`,
);
export const unchecked = new Set(['/source_id', '/ids', ...filtered]);

/**
 * Returns the record that a path or a position of a body refers to; for an array with distinct ids, that of its second
 * element.
 */
export function recordAt(records: Records, place: string, isSecond = false): string {
  const kind = (isSecond ? kinds[`${place}/1`] : undefined) ?? kinds[place] ?? kinds[place.replace(/\/:id.*/, '')];
  if (!kind) throw new Error(`${place} has an id of an unknown kind: add it to test/contract/records.ts`);
  return records[kind];
}

/** Whether another call may not find the records, or the session, that a call of the route has named. */
export const usesUp = ({ name }: Pick<DeclaredRoute, 'name'>): boolean =>
  /^DELETE|^PATCH|batch.delete|merge|imports.+(undo|start|cancel|file)|replay|logout|password$/.test(name);

/** A field that contacts and companies of every customer have. */
const declaredKey = 'plan';

/** The password of every admin. */
export const password = 'correct horse battery';
let passwordHash: Promise<string> | undefined;

/**
 * Creates new records, because the calls under test change and delete them.
 * @param scope a scope that alone gives access to the imports; by default `contacts:update`
 */
export async function makeRecords(testApp: TestApp, scope?: Scope): Promise<Records> {
  const { fastify: app, owner, customer: makeCustomer } = testApp;
  const customer = await makeCustomer();
  const made = await customer.post('/contacts', contactBody({ company: { name: unique('Company') } }));
  const contact = made.body.data.id as string;
  const company = (await customer.get(`/contacts/${contact}`)).body.company.id as string;
  const more = {
    secondContact: await make(customer, '/contacts', contactBody()),
    thirdContact: await make(customer, '/contacts', contactBody()),
    secondCompany: await make(customer, '/company', companyBody()),
    thirdCompany: await make(customer, '/company', companyBody()),
  };
  const { body: list } = await customer.post('/list-contact', { name: 'List' });
  for (const object of ['contacts', 'company'])
    await customer.call('PUT', `/fields/${object}/${declaredKey}`, { type: 'text' });
  const hash = await (passwordHash ??= hashPassword(password));
  const [admin] = await owner<[{ email: string }]>`
    update users
    set password_hash = ${hash}
    where id = ${customer.adminId}
    returning email`;
  for (const pool of pools) await grant(app, customer.id, pool, 1_000_000);
  const { keyId: apiKey } = await customer.withScopes(['customer:read']);
  const user = await makeUser(app, customer.id);
  const jobs = await startJobs(app, customer);
  const crm = { contact, company, ...more, list: list.id, user, jobs, job: jobs['verify_email:create']! };
  const imports = await makeImports(customer, importKindOf(scope));
  const webhook = await makeWebhook(app, customer);
  const approval = await makeApproval(app, customer);
  const sales = await makeSales(customer);
  const change = await makeChange(customer);
  const by = { adminEmail: admin.email, session: await openSession(testApp, customer.id, customer.adminId) };
  return { customer, ...by, ...crm, ...imports, ...sales, apiKey, webhook, approval, change };
}

/** Returns a header with a credential of the customer that the route accepts. */
export const credentialOf = ({ access }: Pick<DeclaredRoute, 'access'>, { customer, session }: Records) => ({
  authorization: 'session' in access ? `Bearer ${session}` : `X-API-Key ${customer.key}`,
});

/** The paths of the records that events tell of. */
const pathsOf: Record<EventNoun, string> = {
  contact: '/contacts',
  company: '/company',
  list: '/list-contact',
  product: '/products',
  opportunity: '/opportunities',
  activity: '/activities',
};

/** Makes a change that a key with the scope alone may read, or undo. Returns its id. */
export async function makeChange(customer: TestCustomer, scope?: Scope): Promise<string> {
  const [record, verb] = (scope ?? 'contacts:read').split(':');
  const noun = eventNouns.find((one) => recordScopes[one] === record) ?? 'contact';
  const path = pathsOf[noun];
  const list = { bodyOf: async () => ({ name: unique('List') }), text: 'description' };
  const { bodyOf, text } = recordKinds.find((one) => one.path === path) ?? list;
  const made = await customer.post(path, await bodyOf(customer));
  const id = made.body.data?.id ?? made.body.id;
  if (verb === 'update') await customer.patch(`${path}/${id}`, { [text]: 'Changed' });
  if (verb === 'create') await customer.delete(`${path}/${id}`);
  const { body: changes } = await customer.post('/changes/list', { filters: { record_id: id } });
  return changes[0].change_id;
}

/** Creates an endpoint at a name that is never looked up, and whose address no webhook is sent to. */
export async function makeWebhook(app: TestApp['fastify'], { id }: TestCustomer): Promise<string> {
  const db = dbOf(app);
  const management = { db, config: app.config, customerId: id, by: commandLine };
  const create = await endpointCreation(management, { url: 'https://localhost/webhooks', types: ['contact.created'] });
  return (await db.transaction(create)).id;
}

/** Lets a call of a key, by default of the customer's own, wait for an approval. */
export function makeApproval(app: TestApp['fastify'], { id, keyId }: TestCustomer, apiKeyId = keyId): Promise<string> {
  const body = Buffer.from(JSON.stringify({ items: [contactBody()] }));
  const call = { apiKeyId, url: '/api/ext/contacts/batch/create', body, credits: 0, records: 1 };
  return dbOf(app).transaction((sql) => createApproval(sql, id, call));
}

/** Starts a job for each scope that alone lets a key see it. */
async function startJobs(app: TestApp['fastify'], { id }: TestCustomer): Promise<Partial<Record<Scope, string>>> {
  const inputs = toInputs(['no address'], (item) => ({ item }));
  const rest = { sync_crm: false, request: {}, cost: 0, reserved: 0, total: 1, inputs };
  const start = (type: JobType) =>
    dbOf(app).transaction((sql) => startJob(sql, { customerId: id, apiKeyId: null }, { type, ...rest }));
  const jobs: Partial<Record<Scope, string>> = {};
  for (const scope of jobScopes) {
    const type = jobTypes.find((one) => mayCall([scope], jobTable[one].access));
    if (type) jobs[scope] = (await start(type)).id;
  }
  return jobs;
}

/** Creates an import that has its file, and one that waits for it. */
async function makeImports(customer: TestCustomer, kind: ImportKind) {
  const begin = async (): Promise<string> => {
    const body = { ...kind, format: 'csv', start: false };
    return (await customer.post('/imports', body)).body.data.id;
  };
  const [uploaded, newImport] = [await begin(), await begin()];
  await customer.call('PUT', `/imports/${uploaded}/file`, 'first_name', { 'content-type': 'text/csv' });
  return { import: uploaded, newImport, importKind: kind };
}

/** Creates products, and an opportunity with an activity in the customer's first pipeline stage. Returns their ids. */
async function makeSales(customer: TestCustomer) {
  const products = Array.from({ length: 4 }, () => make(customer, '/products', productBody()));
  const [product, secondProduct, unusedProduct, secondUnusedProduct] = (await Promise.all(products)) as [
    string,
    string,
    string,
    string,
  ];
  const lines = [product, secondProduct].map((id) => ({ id, price: 1, quantity: 1 }));
  const body = await opportunityBody(customer, { products: lines });
  const opportunity = await make(customer, '/opportunities', body);
  const activity = await make(customer, '/activities', { opportunity_id: opportunity, body: 'They hesitate' });
  const [stage] = await stagesOf(customer);
  const ids = { opportunity, activity, product, secondProduct, unusedProduct, secondUnusedProduct };
  return { ...ids, pipeline: stage!.pipeline_id, stage: stage!.id };
}

/** Values of body positions where the schema alone is not enough: ids of existing records, and the admin's login. */
export const knownOf =
  (records: Records, { url }: Pick<DeclaredRoute, 'url'>): Known =>
  (place, schema) => {
    if (unchecked.has(place)) return undefined;
    if (schema['format'] === 'uuid') return recordAt(records, placeAt(url, place));
    if (place === '/people') return [{ profnet_url: 'https://profnet.example/in/ada' }];
    if (place === '/type' && url.includes('/activities')) return 'task'; // only a task has a value in each field
    if (place === '/object') return records.importKind.object;
    if (place === '/mode') return records.importKind.mode;
    if (place === '/rules/operator') return 'is_empty'; // the only kind of rule that is complete with its required fields
    if (place === '/current_password' || place === '/password') return password;
    return place === '/email' ? records.adminEmail : undefined;
  };

/** Returns the path of a route with the id of the customer's own record, or with another id. */
export function pathOf(route: DeclaredRoute, records: Records | undefined, id?: string): string {
  return route.url.replace(':key', declaredKey).replace(':id', () => id ?? recordAt(records!, route.url));
}

/** Creates a session of a user, as a login does. */
export async function openSession({ owner }: TestApp, customerId: string, userId: string): Promise<string> {
  const token = mintToken(sessionPrefix);
  await owner`
    insert into sessions (token_hash, customer_id, user_id, expires_at)
    values (${token.hash()}, ${customerId}, ${userId}, now() + interval '12 hours')`;
  return token.reveal();
}

/**
 * Returns a hash of the rows of each table, or of those of one customer, then without what the service itself writes about
 * refused logins and its own work. Leaves out the time of a key's last use, which is written in the background.
 */
export async function snapshot(app: TestApp, customerId?: string): Promise<Record<string, unknown>> {
  const kind = `${app.url} ${customerId === undefined}`;
  const statement = statements.get(kind) ?? snapshotStatement(app, customerId !== undefined);
  statements.set(kind, statement);
  const [row] = await app.owner.unsafe(await statement, customerId ? [customerId] : [], { prepare: true });
  return row!;
}

/** The statements of `snapshot`: tables do not change during a test file. */
const statements = new Map<string, Promise<string>>();

async function snapshotStatement({ owner }: TestApp, isOfOne: boolean): Promise<string> {
  const left = isOfOne ? ['country_codes', 'failed_logins', 'audit_events', 'duplicate_counts'] : [];
  const tables = await owner<{ name: string; isOfCustomers: boolean }[]>`
    select t.table_name as name, c.column_name is not null as "isOfCustomers"
    from information_schema.tables t
    left join information_schema.columns c
      on c.table_schema = t.table_schema and c.table_name = t.table_name and c.column_name = 'customer_id'
    where t.table_schema = 'public'
      and t.table_type = 'BASE TABLE'
      and t.table_name <> all(${left})`;
  const hashes = tables.map(({ name, isOfCustomers }) => {
    const chosen = isOfCustomers ? 'customer_id = $1::uuid' : '$1::uuid is not null';
    return `
    (
      select sum(hashtextextended((to_jsonb(t) - 'last_used_at')::text, 0))::text
      from ${name} t
      where ${isOfOne ? chosen : 'true'}
    ) as ${name}`;
  });
  return `select ${hashes.join(', ')}`;
}
