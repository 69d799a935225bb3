import { expect, test } from 'vitest';
import { insertUnlocks } from '../../src/queries/jobs/unlocks.ts';
import { person, writePeople } from '../catalog/people.ts';
import { workAtUndos } from '../jobs/working.ts';
import { startSelected } from '../jobs/spending.ts';
import { startApp } from '../setup/app.ts';
import { contactBody, grant, make, makeList } from '../setup/factories.ts';
import { expectPage, filledFields, textOf, visitorOf } from './visitor.ts';
const people = ['Ada', 'Grace', 'Edith'].map((first_name) =>
  person({
    first_name,
    last_name: 'Stone',
    job_title: 'Sales Manager',
    job_company_name: first_name === 'Ada' ? 'Stone Works' : 'Others',
    location_country: 'Germany',
    work_email: `${first_name.toLowerCase()}@example.com`,
  }),
);

const app = await startApp();
await app.catalog.prepare();
await writePeople(app.catalog, people);
await app.catalog.finish();

test('prospects are searched with suggestions, masked, and unlocked by admins with the price first', async () => {
  const customer = await app.customer();
  const admin = await visitorOf(app.fastify, customer.id);
  const page = await admin.get('/app/prospects?job_title=manager');
  expect(textOf(page)).toMatch(/3 match, of which you have unlocked 0/);
  expect(page.body).not.toContain('ada@example.com');
  expect(textOf(page)).toMatch(/Job title Company E-mail status Mobile phone Work e-mail Place .* …\d\d /);
  expect(textOf(await admin.get('/app/prospects?job_title=nobody'))).toContain('Nobody matches');
  const suggested = await admin.get('/app/prospects/suggest?source=job_title&q=sal&has_email=1');
  expect(suggested.body).toMatch(/<a\s+href="[^"]*has_email[^"]*"\s+data-value\s*>Sales Manager/);
  expect((await admin.get('/app/prospects/suggest?source=work_email')).status).toBe(404);

  const question = '/app/prospects/unlock?job_title=manager&do=first&number=2';
  expect(textOf(await admin.get(question))).toMatch(
    /Unlocks 2 prospects.* Job title: manager At most 2 credits ?; 0 are available. That is 2 too few/,
  );
  await app.owner`update credit_balances set available = 5 where customer_id = ${customer.id}`;
  const sent = filledFields((await admin.get(question)).body, '/app/prospects/unlock');
  const dearer = await admin.post('/app/prospects/unlock', { ...sent, price: '1' });
  expectPage(dearer, 402, /would cost more.*At most 2 credits/);
  // Asked again, it still has what the user chose: here that no contacts are made.
  const contactsBox = /<input[^>]*name="sync_crm"[^>]*>/;
  const asked = await admin.get('/app/prospects/unlock?do=first&number=2');
  expect([asked, dearer].map(({ body }) => contactsBox.exec(body)![0].includes('checked'))).toEqual([true, false]);
  expect((await admin.post('/app/prospects/unlock', sent)).location).toMatch(/^\/app\/jobs\/[0-9a-f-]{36}$/);
  expect((await admin.post('/app/prospects/unlock', sent)).location).toBe('/app/jobs?done=sent');
  const [job] = await app.owner`select type, request from jobs where customer_id = ${customer.id}`;
  expect(job).toEqual({ type: 'unlock_contacts', request: { filters: { job_title: ['manager'] }, total_records: 2 } });

  expect(textOf(await admin.get('/app/jobs'))).toContain('Unlock prospects by filter Job title: manager ');
  const none = { last_name: [], date_verified: { gte: null, lte: null } };
  const filters = { job_title: ['{a: true}', 'b'], ...none, score: { gte: 5, lte: 9 }, has_email: true };
  await customer.post('/service-handler/unlock-contacts', { filters, total_records: 1, sync_crm: false });
  expect(textOf(await admin.get('/app/jobs'))).toMatch(
    /by filter Score: at least 5, at most 9 · Has an e-mail · Job title: {a: true}, b (?!·)/,
  );
  const nameless = filledFields((await admin.get(question)).body, '/app/prospects/unlock');
  expect((await admin.post('/app/prospects/unlock', { ...nameless, list_id: 'new', name: '' })).status).toBe(400);
  const listed = await admin.post('/app/prospects/unlock', { ...nameless, list_id: '', name: 'From the catalog' });
  const [, list] = /^\/app\/jobs\/[0-9a-f-]{36}\?list=(.*)$/.exec(listed.location!)!;
  expect(textOf(await admin.get(listed.location!))).toContain('See the list');
  const [last] =
    await app.owner`select sync_crm, request from jobs where customer_id = ${customer.id} order by id desc`;
  expect(last).toMatchObject({ sync_crm: true, request: { list_ids: [list] } });
  expect((await customer.get(`/list-contact/${list}`)).body).toMatchObject({
    name: 'From the catalog',
    source: 'PROSPECT',
  });

  for (const [wrong, message] of [
    [`job_company_name=${'a'.repeat(257)}`, 'Company can have at most 256 characters.'],
    ['score=high', 'Score must be a whole number.'],
  ] as const) {
    expectPage(await admin.get(`/app/prospects?${wrong}`), 400, message);
  }
  expect(textOf(await admin.get('/app/prospects?location_country=Deutschland'))).toMatch(/^.* 3 match/);

  const chosen = `/app/prospects/unlock?do=chosen&id=${people[0]!._id}`;
  expect(textOf(await admin.get(chosen))).toContain('Unlocks 1 prospect.');
  expect((await admin.get('/app/prospects/unlock?do=chosen')).status).toBe(400);
  await app.db.transaction((sql) => insertUnlocks(sql, customer.id, [people[0]!._id]));
  const some = await admin.get('/app/prospects?job_title=manager');
  expect(textOf(some)).toMatch(/3 match, of which you have unlocked 1/);
  expect(some.body.match(/name="id"/g)).toHaveLength(2);

  const member = await visitorOf(app.fastify, customer.id, 'member');
  expect((await member.get(chosen)).status).toBe(403);
  const read = await member.get('/app/prospects');
  expect(read.body).not.toMatch(/Unlock the chosen|name="id"/);
  expect(textOf(read)).toContain('An admin can unlock them');
});

test('a list leads to the other people of the companies of its contacts', async () => {
  const customer = await app.customer();
  const admin = await visitorOf(app.fastify, customer.id);
  const list = await makeList(app.fastify, customer);
  await make(customer, '/contacts', contactBody({ company: { name: 'Stone Works' }, list_ids: [list] }));
  const [link] = /\/app\/lists\/[0-9a-f-]+\/people/.exec((await admin.get(`/app/contacts?list=${list}`)).body)!;
  const { location } = await admin.get(link);
  expect(textOf(await admin.get(location!))).toContain('1 match, of which you have unlocked 0');
});

test('the page of an unlock says why a person cost nothing', async () => {
  const customer = await app.customer();
  const admin = await visitorOf(app.fastify, customer.id);
  await grant(app.fastify, customer.id, 'subscription', 5);
  const bare = person({ first_name: 'Una', last_name: 'Bare', work_email: '', emails: [] });
  await writePeople(app.catalog, [bare]);
  await app.catalog.finish();
  const unlock = async () => {
    const job = await startSelected(customer, [bare._id]);
    await workAtUndos(app, customer);
    return textOf(await admin.get(`/app/jobs/${job}`));
  };
  expect(await unlock()).toMatch(/spent of at most \d+ · 1 free .* Una Bare no valid e-mail, free .* 0/);
  expect(await unlock()).toMatch(/Una Bare skipped already unlocked .* 0$/);
});
