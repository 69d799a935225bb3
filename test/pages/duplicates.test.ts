import { expect, test } from 'vitest';
import { contactWrites } from '../../src/queries/crm/record-batches.ts';
import { startApp } from '../setup/app.ts';
import { companyBody, contactBody, grant, make, makeList } from '../setup/factories.ts';
import { somebodyWaitsFor } from '../setup/locks.ts';
import { turnQueues } from '../../src/jobs/workers.ts';
import { contextOf } from '../jobs/working.ts';
import { adminOfEachTest, filledFields, textOf, visitorOf } from './visitor.ts';

const app = await startApp();
const { customer, admin } = adminOfEachTest(app);

const contact = (more: object = {}) => make(customer, '/contacts', contactBody({ work_email: 'a@x.example', ...more }));
const read = async (id: string) => (await customer.get(`/contacts/${id}`)).body;
const compareLink = (body: string) =>
  /href="(\/app\/duplicates\/compare[^"]*)"/.exec(body)![1]!.replaceAll('&#38;', '&').replaceAll('&#61;', '=');

test('a group is compared side by side, and merged with the chosen values into the chosen record', async () => {
  const ids = [await contact({ job_title: 'Analyst', gender: 'f' }), await contact({ job_title: 'Countess' })] as const;
  await contact({ work_email: 'other@x.example' });
  const page = await admin.get('/app/duplicates');
  expect(textOf(page)).toContain('a@x.example 2 Compare');
  const link = compareLink(page.body);
  const compared = await admin.get(link);
  expect(textOf(compared)).toMatch(/Job title Analyst Countess/);
  expect([...compared.body.matchAll(/name="field_(\w+)"/g)].map(([, name]) => name)).toEqual([
    'job_title',
    'job_title',
  ]);
  const form = { ...(await admin.fieldsOf(link, '/app/duplicates/merge')), id: [...ids] };
  const stranger = await visitorOf(app.fastify, (await app.customer()).id);
  expect((await stranger.get(link)).location).toBe('/app/duplicates?by=work_email');
  const chosen = { ...form, keep: ids[1], field_job_title: ids[0] };
  expect((await admin.post('/app/duplicates/merge', chosen)).location).toMatch(
    /^\/app\/duplicates\?by=work_email&done=1&change=[0-9a-f-]{36}$/,
  );
  expect(await read(ids[1])).toMatchObject({ job_title: 'Analyst', gender: 'f' });
  expect((await read(ids[0])).merged_into).toBe(ids[1]);
  // Sent again, as by a second click.
  expect((await admin.post('/app/duplicates/merge', chosen)).location).toBe('/app/duplicates?by=work_email');
  expect(textOf(await admin.get('/app/duplicates'))).toContain('No duplicates');
});

test('of own fields with different values the chosen one stays, and all others are kept', async () => {
  const [oldest, newer] = [
    await contact({ custom_fields: { Notes: 'met in May', Plan: 'gold', 'two\nlines': 'a' } }),
    await contact({ custom_fields: { Notes: 'call in June', Seats: 5, 'two\nlines': 'b' } }),
  ] as const;
  const link = compareLink((await admin.get('/app/duplicates')).body);
  const compared = await admin.get(link);
  const radios = [...compared.body.matchAll(/name="(own_\d)" value="([^"]*)" (checked)?/g)].map(([, ...one]) => one);
  expect(radios).toEqual(
    [0, 1].flatMap((i) => [
      [`own_${i}`, oldest, 'checked'],
      [`own_${i}`, newer, undefined],
    ]),
  );
  const form = { ...filledFields(compared.body, '/app/duplicates/merge'), id: [oldest, newer], keep: oldest };
  expect((await admin.post('/app/duplicates/merge', { ...form, own_0: newer, own_1: oldest })).status).toBe(303);
  expect((await read(oldest)).custom_fields).toEqual({
    Notes: 'call in June',
    Plan: 'gold',
    Seats: 5,
    'two\nlines': 'a',
  });
});

test('a record that changed after it was compared is not merged before it is shown again', async () => {
  const ids = [await contact({ job_title: 'Analyst' }), await contact({ job_title: 'Analyst' })] as const;
  const link = compareLink((await admin.get('/app/duplicates')).body);
  const form = { ...(await admin.fieldsOf(link, '/app/duplicates/merge')), id: [...ids], keep: ids[0] };
  await customer.patch(`/contacts/${ids[1]}`, { job_title: 'Countess' });
  const refused = await admin.post('/app/duplicates/merge', form);
  expect([refused.status, textOf(refused)]).toEqual([
    412,
    expect.stringMatching(/Somebody changed.* Analyst Countess/),
  ]);
  expect((await read(ids[1])).job_title).toBe('Countess');
  const again = filledFields(refused.body, '/app/duplicates/merge');
  const sent = { ...again, id: [...ids], keep: ids[0], field_job_title: ids[1] };
  expect((await admin.post('/app/duplicates/merge', sent)).location).toContain('done=1');
  expect((await read(ids[0])).job_title).toBe('Countess');
});

test('what one merge cannot hold is said on the form, and nothing is merged', async () => {
  const emails = (name: string) => Array.from({ length: 11 }, (_, i) => `${name}${i}@example.com`);
  const ids = [await contact({ other_emails: emails('a') }), await contact({ other_emails: emails('b') })] as const;
  const link = compareLink((await admin.get('/app/duplicates')).body);
  const form = { ...(await admin.fieldsOf(link, '/app/duplicates/merge')), id: [...ids], keep: ids[0] };
  const refused = await admin.post('/app/duplicates/merge', form);
  expect([refused.status, textOf(refused)]).toEqual([409, expect.stringContaining('Must choose a record')]);
  expect((await read(ids[1])).id).toBe(ids[1]);
});

test('all records that equal an older one are merged at once, and groups in which something differs stay', async () => {
  const equal = [await contact(), await contact(), await contact()] as const;
  const different = [
    await contact({ work_email: 'b@x.example' }),
    await contact({ work_email: 'b@x.example', gender: 'f' }),
  ];
  for (let i = 0; i < 2; i += 1) await make(customer, '/company', companyBody({ company_name: 'Acme' }));
  expect(textOf(await admin.get('/app/duplicates/work_email/equal'))).toContain('In 1 group, 2 contacts');
  const sent = await admin.submit('/app/duplicates/work_email/equal');
  expect(sent.location).toMatch(/^\/app\/duplicates\?by=work_email&done=1&change=[0-9a-f-]{36}$/);
  for (const id of equal.slice(1)) expect((await read(id)).merged_into).toBe(equal[0]);
  for (const id of different) expect((await read(id)).id).toBe(id);
  expect((await admin.get('/app/duplicates/work_email/equal')).location).toContain('done=0');
  await admin.submit('/app/duplicates/name/equal');
  expect((await customer.post('/company/list', {})).body).toHaveLength(1);
});

test('more equal records than one merge takes are merged by several forms, and each says whether some are left', async () => {
  for (let i = 0; i < 22; i += 1) await contact();
  const first = await admin.submit('/app/duplicates/work_email/equal');
  expect(textOf(await admin.get(first.location!))).toContain('1 group is merged. More may be equal: merge them too.');
  const second = await admin.submit('/app/duplicates/work_email/equal');
  expect(second.location).toMatch(/^\/app\/duplicates\?by=work_email&done=1&change=[0-9a-f-]{36}$/);
  expect(textOf(await admin.get('/app/duplicates'))).toContain('No duplicates');
});

test('a record that changes while equal ones are merged stays, with its change', async () => {
  const equal = [await contact(), await contact()] as const;
  const form = await admin.fieldsOf('/app/duplicates/work_email/equal');
  const { sending } = await app.db.for({ customerId: customer.id }, 'api').transaction(async (sql) => {
    await contactWrites.update(sql, customer.id, equal[1], { job_title: 'Countess' });
    const sending = admin.post('/app/duplicates/work_email/equal', form);
    await somebodyWaitsFor(sql, app.owner);
    return { sending };
  });
  const { location } = await sending;
  expect(location).toContain('done=0');
  expect(textOf(await admin.get(location!))).toContain('Nothing was merged: what is equal has just changed');
  expect((await read(equal[1])).job_title).toBe('Countess');
});

test('equal records are found behind any number of groups in which something differs', async () => {
  await app.owner`
    insert into contacts (customer_id, first_name, last_name, work_email, folded)
    select ${customer.id}, 'First' || n, 'Last', email, jsonb_build_object('last_name', 'last', 'work_email', email)
    from generate_series(1, 1200) n, lateral (select 'many' || (n / 2) || '@x.example' as email) given`;
  const equal = [
    await contact({ work_email: 'z@x.example', gender: 'f' }),
    await contact({ work_email: 'z@x.example' }),
    await contact({ work_email: 'z@x.example' }),
  ] as const;
  const sent = await admin.submit('/app/duplicates/work_email/equal');
  expect(sent.location).toMatch(/^\/app\/duplicates\?by=work_email&done=1&change=[0-9a-f-]{36}$/);
  expect((await read(equal[2])).merged_into).toBe(equal[1]);
  expect((await read(equal[0])).id).toBe(equal[0]);
});

test('duplicates that workers count are shown by the names of their records, until they are merged', async () => {
  for (const company_name of ['Weißenböck Ges.m.b.H.', 'Weissenböck GmbH', 'Gray Ltd', 'Gray Inc'])
    await make(customer, '/company', companyBody({ company_name }));
  const page = '/app/duplicates?by=external_name';
  expect(textOf(await admin.get(page))).toContain('are being counted');
  await turnQueues['count-duplicates'].handle(contextOf(app), { customerId: customer.id });
  const counted = await admin.get(page);
  expect(textOf(counted)).toMatch(
    /Gray Ltd · Gray Inc 2 Compare Weißenböck Ges\.m\.b\.H\. · Weissenböck GmbH 2 Compare/,
  );
  const link = compareLink(counted.body);
  const id = [...link.matchAll(/id=([0-9a-f-]{36})/g)].map(([, one]) => one!);
  await admin.submit(link, { id, keep: id[0]! }, '/app/duplicates/merge');
  const merged = textOf(await admin.get(page));
  expect(merged).toContain('Weissenböck GmbH 2 Compare');
  expect(merged).not.toContain('Gray');
});

test('enriching a list shows its price first, and starts one job for at most the given credits', async () => {
  await grant(app.fastify, customer.id, 'subscription', 5);
  const list = await makeList(app.fastify, customer);
  await customer.post('/list-contact-details/add-contacts', {
    list_id: list,
    contact_ids: [await contact(), await contact({ work_email: 'b@x.example' })],
  });
  await contact({ work_email: 'c@x.example' });
  const path = `/app/lists/${list}/enrich`;
  expect(textOf(await admin.get(path))).toMatch(/2 contacts.*At most 2 credits ; 5 are available/);
  const form = await admin.fieldsOf(path);
  expect(form['max_credits']).toBe('2');
  expect((await admin.post(path, { ...form, max_credits: 'x' })).status).toBe(400);
  const started = await admin.post(path, { ...form, max_credits: '1' });
  expect(started.location).toMatch(/^\/app\/jobs\/[0-9a-f-]{36}$/);
  expect((await admin.post(path, { ...form, max_credits: '1' })).location).toBe('/app/jobs?done=sent');
  const jobs = await app.owner`select type, total, reserved::integer from jobs where customer_id = ${customer.id}`;
  expect(jobs).toEqual([{ type: 'enrich_contacts', total: 2, reserved: 1 }]);
  const member = await visitorOf(app.fastify, customer.id, 'member');
  expect((await member.get(path)).status).toBe(403);
  const unknown = await admin.fieldsOf(path);
  expect((await admin.post(`/app/lists/${customer.id}/enrich`, { ...unknown, max_credits: '1' })).status).toBe(404);
  expect(await app.owner`select id from jobs where customer_id = ${customer.id}`).toHaveLength(1);
});

test('a search for duplicates that does not exist is not found, and merges nothing', async () => {
  const form = await admin.fieldsOf('/app/contacts/new');
  expect((await admin.get('/app/duplicates/unknown/equal')).status).toBe(404);
  expect((await admin.post('/app/duplicates/unknown/equal', form)).status).toBe(404);
});

test('Duplicates shows at first what has some', async () => {
  expect(textOf(await admin.get('/app/duplicates'))).toContain('No duplicates');
  for (let i = 0; i < 2; i += 1) await make(customer, '/company', companyBody({ company_name: 'Analytical Engines' }));
  const page = await admin.get('/app/duplicates');
  expect(textOf(page)).toContain('analytical engines 2 Compare');
  expect(page.body).toMatch(/value="name"\s+selected/);
});
