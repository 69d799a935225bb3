import { hashPassword } from '../../src/passwords.ts';
import { pools } from '../../src/schemas/credits.ts';
import type { Scope } from '../../src/schemas/scopes.ts';
import { mintToken, sessionPrefix } from '../../src/tokens.ts';
import type { TestApp } from '../setup/app.ts';
import {
  contactBody,
  grant,
  make,
  makeUser,
  opportunityBody,
  productBody,
  stagesOf,
  unique,
  type TestCustomer,
} from '../setup/factories.ts';
import type { DeclaredRoute, Json } from './declared.ts';
import type { Known } from './positions.ts';

/** A customer with one record of every kind that a request can refer to. */
export interface Records {
  customer: TestCustomer;
  adminEmail: string;
  contact: string;
  company: string;
  list: string;
  user: string;
  apiKey: string;
  /** Its pipeline, and the first stage of it. */
  pipeline: string;
  stage: string;
  /** An opportunity in which two products stand. */
  opportunity: string;
  product: string;
  secondProduct: string;
  /** Products that stand in no opportunity. */
  unusedProduct: string;
  secondUnusedProduct: string;
  /** A job that waits, seen by keys of `verify_email:create`. */
  job: string;
  /** Such jobs by the scope of keys that see them. */
  jobs: Partial<Record<Scope, string>>;
}

type Kind = Exclude<keyof Records, 'customer' | 'adminEmail' | 'jobs'>;

/**
 * Which kind of record an id refers to: by route for the id of a path, by place for those of a body. A new route or
 * reference is entered here, else the tests that derive their requests from the schemas fail and say so. Where an array
 * may not name the same record twice, `/1` after a place says which one its second element names.
 */
const kinds: Record<string, Kind> = {
  '/api/ext/contacts/:id': 'contact',
  '/api/ext/company/:id': 'company',
  '/api/ext/products/:id': 'product',
  '/api/ext/opportunities/:id': 'opportunity',
  '/api/ext/pipelines/:id': 'pipeline',
  '/api/ext/list-contact/:id': 'list',
  '/api/ext/list-contact/verify-contacts/:id': 'list',
  '/api/ext/service-handler/:id': 'job',
  '/api/ext/service-handler/:id/results': 'job',
  '/api/ext/service-handler/:id/cancel': 'job',
  '/api/api-key/update/:id': 'apiKey',
  '/api/api-key/revoke/:id': 'apiKey',
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
  '/user_id_assigned': 'user',
  '/products/id': 'product',
  '/products/id/1': 'secondProduct',
  '/products/add/id': 'unusedProduct',
  '/products/add/id/1': 'secondUnusedProduct',
  '/products/update/id': 'product',
  '/products/update/id/1': 'secondProduct',
  '/products/remove': 'product',
  '/products/remove/1': 'secondProduct',
};

/** Ids that are taken as they are given, whatever they name. */
export const unchecked = new Set(['/source_id', '/ids']);

/** The record that a path or a place of a body refers to; of an array with distinct ids, that of its second element. */
export function recordAt(records: Records, place: string, isSecond = false): string {
  const kind = (isSecond ? kinds[`${place}/1`] : undefined) ?? kinds[place];
  if (!kind) throw new Error(`${place} takes an id of nothing known: enter it in test/contract/records.ts`);
  return records[kind];
}

/** Every admin's password. */
export const password = 'correct horse battery';
let passwordHash: Promise<string> | undefined;

/** Makes them afresh, since the calls under test change and delete them. */
export async function makeRecords({ app, owner, customer: makeCustomer }: TestApp): Promise<Records> {
  const customer = await makeCustomer();
  const made = await customer.post('/contacts', contactBody({ company: { name: unique('Company') } }));
  const contact = made.body.data.id as string;
  const company = (await customer.get(`/contacts/${contact}`)).body.company.id as string;
  const [list] = await owner<[{ id: string }]>`
    insert into lists (customer_id, name, owner_id)
    values (${customer.id}, 'List', ${customer.adminId})
    returning id`;
  const hash = await (passwordHash ??= hashPassword(password));
  const [admin] = await owner<[{ email: string }]>`
    update users
    set password_hash = ${hash}
    where id = ${customer.adminId}
    returning email`;
  for (const pool of pools) await grant(app, customer.id, pool, 1_000_000);
  const { keyId: apiKey } = await customer.withScopes(['customer:read']);
  const user = await makeUser(app, customer.id);
  const jobs = await startJobs(customer, contact, list.id);
  const crm = { contact, company, list: list.id, user, jobs, job: jobs['verify_email:create'] };
  return { customer, adminEmail: admin.email, ...crm, ...(await makeSales(customer)), apiKey };
}

async function startJobs(customer: TestCustomer, contact: string, list: string) {
  const start = async (path: string, body?: object): Promise<string> => (await customer.post(path, body)).body.id;
  return {
    'payment_prospect:create': await start('/service-handler/unlock-selected-contacts', { ids: [contact] }),
    'verify_email:create': await start('/service-handler/verify-email', { emails: [{ email: 'ada@example.com' }] }),
    'list_contacts:read': (await customer.post(`/list-contact/verify-contacts/${list}`)).body.data.id as string,
  };
}

/** What is sold, and where it stands. */
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
  const [stage] = await stagesOf(customer);
  const ids = { opportunity, product, secondProduct, unusedProduct, secondUnusedProduct };
  return { ...ids, pipeline: stage!.pipeline_id, stage: stage!.id };
}

/** What a body says at places where the schema alone cannot tell: existing records, and the admin's login. */
export const knownOf =
  (records: Records): Known =>
  (place, schema) => {
    if (unchecked.has(place)) return undefined;
    if (schema['format'] === 'uuid') return recordAt(records, place);
    if (place === '/rules/operator') return 'is_empty'; // the one kind of rule that is whole with its required members
    if (place === '/current_password' || place === '/password') return password;
    return place === '/email' ? records.adminEmail : undefined;
  };

/** The path of a route, about the customer's own record unless another id is given. */
export function pathOf(route: DeclaredRoute, records: Records | undefined, id?: string): string {
  return route.url.replace(':id', () => id ?? recordAt(records!, route.url));
}

/** An open session of a user, as a login would have made it. */
export async function openSession({ owner }: TestApp, customerId: string, userId: string): Promise<string> {
  const token = mintToken(sessionPrefix);
  await owner`
    insert into sessions (token_hash, customer_id, user_id, expires_at)
    values (${token.hash()}, ${customerId}, ${userId}, now() + interval '12 hours')`;
  return token.reveal();
}

/** What every table holds, but for the time of a key's last use, which is noted behind the requests' backs. */
export async function snapshot({ owner }: TestApp): Promise<Json> {
  const tables = await owner<{ name: string }[]>`
    select table_name as name
    from information_schema.tables
    where table_schema = 'public'
    order by table_name`;
  const entries = await Promise.all(
    tables.map(async ({ name }) => {
      const [row] = await owner<[{ rows: string[] }]>`
        select coalesce(array_agg(row order by row), '{}') as rows
        from (select (to_jsonb(t) - 'last_used_at')::text as row from ${owner(name)} t) rows`;
      return [name, row.rows] as const;
    }),
  );
  return Object.fromEntries(entries);
}
