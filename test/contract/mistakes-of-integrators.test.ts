import { beforeAll, expect, test } from 'vitest';
import { startApp } from '../setup/app.ts';
import { contactBody, make, opportunityBody, type TestCustomer } from '../setup/factories.ts';

const app = await startApp();
let customer: TestCustomer;
let contact: string;
let deal: Record<string, unknown>;

beforeAll(async () => {
  customer = await app.customer();
  contact = await make(customer, '/contacts', contactBody({ external_id: 'crm-1' }));
  deal = await opportunityBody(customer);
});

type Call = [method: string, path: string, body?: unknown, headers?: Record<string, string>];
const list = (body: object): Call => ['POST', '/contacts/list', body];
const create = (more: object): Call => ['POST', '/contacts', contactBody(more)];

/** What somebody does wrong, the call, and what the response says to change. */
const mistakes: [what: string, call: () => Call, status: number, says: string[]][] = [
  ['GET of a list', () => ['GET', '/contacts/list'], 405, ['Allow: POST']],
  ['a path in the plural', () => ['POST', '/companies/list', {}], 404, ['/docs']],
  [
    'a form instead of JSON',
    () => ['POST', '/contacts', 'a=b', { 'content-type': 'application/x-www-form-urlencoded' }],
    415,
    ['application/json'],
  ],
  ['no key', () => ['GET', '/customer/summary', undefined, { authorization: '' }], 401, ['X-API-Key']],
  [
    'the key as a bearer token',
    () => ['GET', '/customer/summary', undefined, { authorization: `Bearer ${customer.key}` }],
    401,
    ['X-API-Key'],
  ],
  [
    'broken JSON',
    () => ['POST', '/contacts', '{"first_name": ', { 'content-type': 'application/json' }],
    400,
    ['JSON'],
  ],
  ['an unknown field', () => create({ email: 'a@b.example' }), 400, ['/email', 'work_email']],
  ['a number as a text', () => list({ paginate: { page: '1' } }), 400, ['/paginate/page', 'must be a whole number']],
  ['page 0', () => list({ paginate: { page: 0 } }), 400, ['/paginate/page', '>= 1']],
  ['limit 1000', () => list({ paginate: { limit: 1000 } }), 400, ['/paginate/limit', '<= 100']],
  ['page beside a cursor', () => list({ paginate: { page: 2, cursor: 'x' } }), 400, ['cursor']],
  ['a cursor of something else', () => list({ paginate: { cursor: 'x' } }), 400, ['/paginate/cursor']],
  ['an unknown filter', () => list({ filters: { email: 'x' } }), 400, ['/filters/email', 'work_email']],
  [
    'an unknown operator',
    () => list({ filters: { first_name: { like: 'A%' } } }),
    400,
    ['/filters/first_name/like', 'contains'],
  ],
  [
    'a bare date',
    () => list({ filters: { created_at: { gte: '2026-01-31' } } }),
    400,
    ['/filters/created_at', 'such as 2026-'],
  ],
  ['a country by its name', () => create({ location_country: 'Germany' }), 400, ['/location_country', 'DE']],
  ['an address that is none', () => create({ work_email: 'ada' }), 400, ['/work_email', 'e-mail']],
  [
    'a phone number as a text',
    () => create({ phone_numbers: ['+4930123456'] }),
    400,
    ['/phone_numbers/0', 'country_code'],
  ],
  ['a company by its name as a text', () => create({ company: 'Acme' }), 400, ['/company', 'name']],
  ['an own id as an id', () => ['GET', '/contacts/crm-1'], 400, ['/id', 'UUID']],
  ['the same own id again', () => create({ external_id: 'crm-1' }), 409, ['/external_id']],
  ['null for a name', () => ['PATCH', `/contacts/${contact}`, { first_name: null }], 400, ['/first_name']],
  [
    'a batch without match',
    () => ['POST', '/contacts/batch/upsert', { items: [{ work_email: 'a@b.example' }] }],
    400,
    ['/match', 'required'],
  ],
  [
    'a batch of 1,001',
    () => ['POST', '/contacts/batch/create', { items: Array.from({ length: 1001 }, () => ({})) }],
    400,
    ['/items', '1000'],
  ],
  ['HIGH for HIGHT', () => ['POST', '/opportunities', { ...deal, priority: 'HIGH' }], 400, ['/priority', 'HIGHT']],
  ['a stage by its name', () => ['POST', '/opportunities', { ...deal, stage_id: 'Lead' }], 400, ['/stage_id', 'UUID']],
  [
    'unlocking without a number',
    () => ['POST', '/service-handler/unlock-contacts', { filters: {} }],
    400,
    ['/total_records', 'required'],
  ],
  [
    'a multipart upload',
    () => ['PUT', `/imports/${contact}/file`, 'x', { 'content-type': 'multipart/form-data; boundary=x' }],
    415,
    ['body'],
  ],
];

test.each(mistakes)('%s: the response says what to change', async (_, call, status, says) => {
  const answer = await customer.call(...call());
  const text = `${JSON.stringify(answer.body)} ${Object.entries(answer.headers)
    .map(([name, value]) => `${name}: ${String(value)}`)
    .join('\n')}`;
  expect(answer.status, text).toBe(status);
  for (const said of says) expect(text.toLowerCase()).toContain(said.toLowerCase());
});
