import { expect, test } from 'vitest';
import { beginImport, sendFile, workAtAll } from '../jobs/importing.ts';
import { startApp } from '../setup/app.ts';
import { companyBody, contactBody, make, opportunityBody, productBody, stagesOf } from '../setup/factories.ts';
import { crawl, kindOf } from './crawl.ts';
import { visitorOf } from './visitor.ts';

/** HTML of a page (bytes). */
const largest = { contacts: 60_000, any: 150_000 };

const words =
  '<b>Internationale Entwicklungsgesellschaft für nachhaltige Wärme- und Antriebstechnik, Niederlassung Süd';
const text = (length: number, i = 0): string => `${i} ${words}`.slice(0, length);
const numbers = (count: number): number[] => Array.from({ length: count }, (_, i) => i);
const address = (i: number): string => `maximiliane-charlotte.hohenstein-wittgenstein.${i}@international.example`;
const ownFields = Object.fromEntries(numbers(100).map((i) => [`own_field_number_${i}`, text(60, i)]));

const app = await startApp();
const customer = await app.customer();
const admin = await visitorOf(app.fastify, customer.id);

const longContact = (i: number) =>
  contactBody({
    first_name: 'Maximiliane-Charlotte Friederike',
    last_name: `von Hohenstein-Wittgenstein ${i % 2}`,
    job_title: text(90),
    industry: text(60),
    company: { name: text(90) },
    work_email: address(i % 30),
    other_emails: numbers(10).map((j) => address(100 * i + j)),
    phone_numbers: numbers(10).map((j) => ({ country_code: '+49', number: `511 123456${j}` })),
    location_locality: 'Garmisch-Partenkirchen',
    location_country: 'GB',
    profnet_url: `https://profnet.example/${'x'.repeat(80)}${i}`,
    custom_fields: ownFields,
  });

/** Creates contacts, companies, and lists by hand and with many rules. Returns the ids of the contacts. */
async function fillRecords(): Promise<string[]> {
  const contacts: string[] = [];
  for (const i of numbers(60)) contacts.push(await make(customer, '/contacts', longContact(i)));
  for (const i of numbers(60))
    await make(customer, '/company', companyBody({ company_name: text(90, i % 30), custom_fields: ownFields }));
  const rules = numbers(50).map((i) => ({ field: 'job_title', operator: 'contains', value: text(60, i) }));
  for (const i of numbers(100))
    await customer.post('/list-contact', {
      name: text(100, i),
      description: text(100),
      rules: i >= 70 ? rules : [],
    });
  await app.owner`
    insert into list_members (customer_id, list_id, contact_id)
    select customer_id, lists.id, contact_id
    from lists, unnest(${contacts}::uuid[]) contact_id
    where customer_id = ${customer.id} and rule_count = 0`;
  return contacts;
}

async function fillBoard(contacts_ids: string[]): Promise<void> {
  const products: object[] = [];
  for (const i of numbers(100)) {
    const id = await make(customer, '/products', productBody({ name: text(90, i) }));
    products.push({ id, price: 19.99, quantity: 3 });
  }
  const more = { contacts_ids, products: products.slice(0, 30), description: text(100).repeat(40) };
  for (const { id: stage_id } of await stagesOf(customer))
    for (const i of numbers(25)) {
      const body = await opportunityBody(customer, { ...more, stage_id, name: text(90, i) });
      await make(customer, '/opportunities', body);
    }
}

async function fillAccess(): Promise<void> {
  await app.owner`
    insert into users (customer_id, email, email_folded, name, role, password_hash)
    select ${customer.id}, mail, mail, ${text(40)} || n, 'member', 'none'
    from generate_series(1, 300) n, concat('colleague-', n, '@international.example') mail`;
  await app.owner`
    insert into api_keys
      (customer_id, name, key_hash, start, permissions, duration_days, expires_at, created_by, revoked_at)
    select
      customer_id, 'key ' || n, sha256(n::text::bytea), start, permissions, duration_days, expires_at, created_by,
      case when n > 300 then now() end
    from api_keys, generate_series(1, 600) n
    where customer_id = ${customer.id}`;
}

/** Creates an import with failures, and one that waits for its start. Returns the paths of their pages. */
async function fillImports(): Promise<string[]> {
  const header = numbers(120).map((i) => `Eigene Spalte Nummer ${i}`);
  const lines = numbers(60).map((i) => [`no address ${i}`, ...header.map((_, j) => text(50, j))].join(';'));
  const own = Object.fromEntries(header.map((one) => [one, `custom_fields.${one}`]));
  const settings = { object: 'contacts', mode: 'create', format: 'csv', mapping: { 'E-Mail': 'work_email', ...own } };
  const paths: string[] = [];
  for (const start of [true, false]) {
    const id = await beginImport(customer, { ...settings, start });
    await sendFile(customer, id, [['E-Mail', ...header].join(';'), ...lines].join('\n'));
    if (start) await workAtAll(app, customer);
    paths.push(`/app/imports/${id}`);
  }
  return paths;
}

test('no page of a customer with much of everything is larger than 150 KB of HTML, the contacts 60 KB, or shows a text as HTML', async () => {
  const contacts = await fillRecords();
  await fillBoard(contacts);
  await fillAccess();
  const others = [
    ...(await fillImports()),
    `/app/duplicates/compare?by=work_email&id=${contacts.slice(0, 21).join('&id=')}`,
    '/app/contacts/chosen?all=1&do=list',
  ];
  const pages = await crawl((path) => admin.get(path));
  for (const path of others) pages.push({ path, ...(await admin.get(path)) });
  const sizes = pages.map(({ path, body }) => [kindOf(path), Buffer.byteLength(body)] as const);
  expect(Object.fromEntries(sizes)['/app/contacts']).toBeLessThan(largest.contacts);
  expect(sizes.filter(([, bytes]) => bytes > largest.any)).toEqual([]);
  expect(pages.filter(({ body }) => body.includes('<b>')).map(({ path }) => path)).toEqual([]);

  for (const [path, wanted] of [
    ['/app/keys?', />key \d+</g],
    ['/app/keys?ended=1&', />key \d+</g],
    ['/app/users?', />colleague-\d+@/g],
  ] as const) {
    const bodies = await Promise.all(numbers(20).map((i) => admin.get(`${path}page=${i + 1}`)));
    const found = bodies.flatMap(({ body }) => body.match(wanted) ?? []);
    expect([found.length, new Set(found).size], path).toEqual([300, 300]);
  }
}, 180_000);
