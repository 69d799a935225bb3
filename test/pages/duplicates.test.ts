import { expect, test } from 'vitest';
import { startApp } from '../setup/app.ts';
import { companyBody, contactBody, grant, make, makeList } from '../setup/factories.ts';
import { turnQueues } from '../../src/jobs/workers.ts';
import { newestChange, undoChange } from '../jobs/undoing.ts';
import { contextOf } from '../jobs/working.ts';
import { somebodyWaitsFor } from '../setup/locks.ts';
import { adminOfEachTest, expectPage, filledFields, textOf, visitorOf } from './visitor.ts';

const app = await startApp();
const { customer, admin } = adminOfEachTest(app);

const contact = (more: object = {}) => make(customer, '/contacts', contactBody({ work_email: 'a@x.example', ...more }));
const read = async (id: string) => (await customer.get(`/contacts/${id}`)).body;
const compareLink = (body: string) =>
  /href="(\/app\/duplicates\/compare[^"]*)"/.exec(body)![1]!.replaceAll('&#38;', '&').replaceAll('&#61;', '=');

/** Counts duplicates as a worker does. */
const count = () => turnQueues['count-duplicates'].handle(contextOf(app), { customerId: customer.id });

test('a group is compared side by side, and merged with the chosen values into the chosen record', async () => {
  const ids = [await contact({ job_title: 'Analyst', gender: 'f' }), await contact({ job_title: 'Countess' })] as const;
  await contact({ work_email: 'other@x.example' });
  const page = await admin.get('/app/duplicates');
  expect(textOf(page)).toContain('a@x.example Ada Lovelace a@x.example Ada Lovelace a@x.example 2 Compare');
  const link = compareLink(page.body);
  const compared = await admin.get(link);
  expect(textOf(compared)).toMatch(/ notes, tasks, .* Job title Analyst Countess .* \d equal values Field .* Ada /);
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
  await count();
  expect(textOf(await admin.get('/app/duplicates'))).toContain('No contacts with the same work e-mail');
});

test('of own fields with different values the chosen one stays, and all others are kept', async () => {
  const [oldest, newer] = [
    await contact({ custom_fields: { Notes: 'met in May', Plan: 'gold', 'two\nlines': 'a' } }),
    await contact({ custom_fields: { Notes: 'call in June', Seats: 5, 'two\nlines': 'b' } }),
  ] as const;
  const link = compareLink((await admin.get('/app/duplicates')).body);
  const compared = await admin.get(link);
  const radios = [...compared.body.matchAll(/name="(field_[^"]*)" value="([^"]*)" (checked)?/g)].map(
    ([, ...one]) => one,
  );
  const [notes, lines] = ['field_custom_fields.Notes', 'field_custom_fields.two%0Alines'] as const;
  expect(radios).toEqual(
    [notes, lines].flatMap((name) => [
      [name, oldest, 'checked'],
      [name, newer, undefined],
    ]),
  );
  const form = { ...filledFields(compared.body, '/app/duplicates/merge'), id: [oldest, newer], keep: oldest };
  expect((await admin.post('/app/duplicates/merge', { ...form, [notes]: newer, [lines]: oldest })).status).toBe(303);
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
  expectPage(refused, 412, /Somebody changed.* Analyst Countess/);
  expect((await read(ids[1])).job_title).toBe('Countess');
  const again = filledFields(refused.body, '/app/duplicates/merge');
  const sent = { ...again, id: [...ids], keep: ids[0], field_job_title: ids[1] };
  expect((await admin.post('/app/duplicates/merge', sent)).location).toContain('done=1');
  expect((await read(ids[0])).job_title).toBe('Countess');
});

test('records whose values do not differ are merged by one click, and all such groups of the page by another', async () => {
  const group = async (mail: string, ...more: object[]) =>
    (await Promise.all(more.map((one) => contact({ work_email: `${mail}@x.example`, ...one })))).toSorted();
  const first = await group('a', {}, { gender: 'f' }, { custom_fields: { Plan: 'gold' } });
  const phones = [{ mobile_phone: '+4915112345678' }, { mobile_phone: '+49 1511 2345678' }];
  const others = [...(await group('b', {}, {})), ...(await group('c', ...phones))];
  const words = [{ mobile_phone: '+49 30 1234567' }, { mobile_phone: 'Office: +49 30 1234567' }];
  const different = [...(await group('d', { gender: 'm' }, { gender: 'f' })), ...(await group('f', ...words))];
  const page = await admin.get('/app/duplicates');
  expect(textOf(page)).toMatch(
    /Merge 3 equal groups .* 5 groups \. .* a@x\.example .* 3 Compare Merge .* d@x\.example .* 2 Compare .* 2 Compare$/,
  );
  const button = `name="group" value="${first.join('.')}"`;
  expect(page.body.split(button)).toHaveLength(3);
  const [, form = ''] = /<td[^]*?(<form[^>]* data-once>[^]*?<\/form>)/.exec(page.body)!;
  const { form_token = '' } = filledFields(form, '/app/duplicates/equal');
  const send = (...ids: string[][]) =>
    admin.post('/app/duplicates/equal', { form_token, by: 'work_email', group: ids.map((one) => one.join('.')) });
  const sent = await send(first);
  expect(textOf(await admin.get(sent.location!))).toMatch(/They are merged\. Undo .* 4 groups/);
  expect(await read(first[0]!)).toMatchObject({ gender: 'f', custom_fields: { Plan: 'gold' } });
  expect(
    textOf(
      await admin.get(
        (await send(others.slice(0, 2), others.slice(2), different.slice(0, 2), different.slice(2))).location!,
      ),
    ),
  ).toContain('2 groups are merged. Undo');
  for (const id of different) expect((await read(id)).id).toBe(id);
  const [x, y, z] = (await group('e', {}, {}, {})) as [string, string, string];
  expect((await send([z, y], [x, z])).location, 'an undo takes back one merge of a record').toContain('done=1&');
});

test('contacts of two companies of one name are not equal, and their companies are told apart side by side', async () => {
  const company = (more: object) => make(customer, '/company', companyBody(more));
  const companies = [await company({ domain: 'ada.example' }), await company({ location_locality: 'Turin' })] as const;
  const ids = [
    await contact({ company: { id: companies[0] } }),
    await contact({ company: { id: companies[1] } }),
  ] as const;
  const page = await admin.get('/app/duplicates');
  expect(page.body).not.toContain('/app/duplicates/equal');
  const compared = await admin.get(compareLink(page.body));
  expect(textOf(compared)).toMatch(/Company Analytical Engines ada\.example Analytical Engines Turin/);
  const form = { ...filledFields(compared.body, '/app/duplicates/merge'), id: [...ids], keep: ids[0] };
  await admin.post('/app/duplicates/merge', { ...form, field_company: ids[1] });
  expect((await read(ids[0])).company.id).toBe(companies[1]);
});

test('a count of duplicates says when it was made, and leaves out what is merged since', async () => {
  for (const company_name of ['Weißenböck Ges.m.b.H.', 'Weissenböck GmbH', 'Gray Ltd', 'Gray Inc'])
    await make(customer, '/company', companyBody({ company_name }));
  const page = '/app/duplicates?by=external_name';
  expect(textOf(await admin.get(page))).toContain('are being counted');
  await count();
  const counted = await admin.get(page);
  expect(textOf(counted)).toMatch(/ Same names were counted .* UTC \. Count again /);
  expect(textOf(counted)).toMatch(/Gray Ltd Gray Inc 2 Compare Weißenböck Ges\.m\.b\.H\. Weissenböck GmbH 2 Compare/);
  const link = compareLink(counted.body);
  const id = [...link.matchAll(/id=([0-9a-f-]{36})/g)].map(([, one]) => one!);
  await admin.submit(link, { id, keep: id[0]! }, '/app/duplicates/merge');
  const merged = textOf(await admin.get(page));
  expect(merged).toMatch(/ 1 group \. .* Weissenböck GmbH 2 Compare/);
  expect(merged).toContain('Same names are being counted.');
  expect(merged).not.toContain('Gray');
  await count();
  expect(textOf(await admin.get(page))).toMatch(/ counted .* Count again 1 group \. /);
  await undoChange(app, customer, await newestChange(customer));
  expect(textOf(await admin.get(page))).toContain('Same names are being counted.');
  await count();
  expect(textOf(await admin.get(page))).toContain('2 groups');
  expect(textOf(await admin.get('/app/duplicates?by=work_email'))).toContain('Count again');
});

test('the page shows the first duplicates that there are, and counts same names again after a minute', async () => {
  const page = '/app/duplicates';
  await admin.get(page);
  await count();
  expect(textOf(await admin.get(page))).toContain('No contacts with the same work e-mail');
  const company = { name: 'Navy' };
  for (const work_email of ['a@x.example', 'b@x.example']) await contact({ work_email, company });
  await app.owner`
    update duplicate_counts set counted_at = now() - interval '2 minutes' where customer_id = ${customer.id}`;
  const counting = textOf(await admin.get(page));
  expect(counting).toMatch(/ name and company being counted .* Same names are being counted\. /);
  expect(counting).not.toContain('No contacts');
  await count();
  expect(textOf(await admin.get(page))).toMatch(/ work e-mail 0 .* Count again 1 group .* a@x\.example .* 2 Compare/);
  const again = (path: string) => admin.submit(path, {}, '/app/duplicates/count');
  expect((await again(page)).location).toBe(page);
  await count();
  expect((await again(`${page}?by=work_email`)).location).toBe(`${page}?by=work_email`);
});

test('what was written while duplicates were counted is counted after that, if somebody asks meanwhile', async () => {
  const page = '/app/duplicates?by=external_name';
  await admin.get(page);
  await count();
  expect(textOf(await admin.get(page))).toMatch(
    / counted .* UTC \. .* No companies with the same name, apart from legal forms /,
  );
  const again = await admin.fieldsOf(page, '/app/duplicates/count');
  const addCompany = () => make(customer, '/company', companyBody({ company_name: 'Gray Ltd' }));
  for (const _ of [1, 2]) await addCompany();
  await admin.post('/app/duplicates/count', again);
  expect(textOf(await admin.get(page))).toContain('Same names are being counted.');
  let counted: Promise<unknown> | undefined;
  await app.owner.begin(async (sql) => {
    await sql`insert into duplicate_groups values (${customer.id}, 'external_name', 0, 'x', 2, '{}')`;
    counted = Promise.resolve(count());
    await somebodyWaitsFor(sql, app.owner);
    await addCompany();
    await admin.post('/app/duplicates/count', again);
    await sql`delete from duplicate_groups where customer_id = ${customer.id}`;
  });
  await counted;
  await count();
  expect(textOf(await admin.get(page))).toMatch(/Gray Ltd Gray Ltd Gray Ltd 3 Compare/);
});

const tickedOn = async (path: string) =>
  [...(await admin.get(path)).body.matchAll(/name="id" value="(.{36})" [^>]*checked/g)].map(([, id]) => id!);

test('a record is merged from its page with those of the same last name, e-mail or phone, and is chosen already', async () => {
  const phone = (number: string) => ({ phone_numbers: [{ country_code: '+1', number }] });
  const add = (last_name: string, work_email: string, more: object) => contact({ last_name, work_email, ...more });
  const ada = await add('Lovelace', 'ada@x.example', phone('2125552368'));
  await add('King', 'other@x.example', phone('2125552368'));
  await add('Byron', 'ada@x.example', phone('2125550000'));
  await add('Lovelace', 'third@x.example', { phone_numbers: [] });
  await add('Noether', 'grace@x.example', { first_name: 'Grace', ...phone('2125551111') });
  const [, link] = /href="([^"]+)"[^>]*>\s*Merge</.exec((await admin.get(`/app/contacts/${ada}`)).body)!;
  const path = link!.replaceAll(/&#(\d+);/g, (_entity, code) => String.fromCodePoint(Number(code)));
  const found = textOf(await admin.get(path));
  expect(found).toMatch(/Lovelace .* Lovelace .* Byron .* King /);
  expect(found).not.toContain('Noether');
  expect(await tickedOn(path)).toEqual([ada]);
  expect(await tickedOn(`/app/contacts?search=noether&id=${ada}`)).toEqual([ada]);
});

test('two to five chosen records are merged, and the page of the one that stays offers to undo it', async () => {
  const company = (company_name: string) => make(customer, '/company', companyBody({ company_name }));
  const ids = [await company('Navy GmbH'), await company('Navy')] as const;
  const chosen = (...some: string[]) =>
    admin.get(`/app/companies/chosen?do=merge&search=Navy${some.map((id) => `&id=${id}`).join('')}`);
  const few = (await chosen(ids[0])).location!;
  expect(few).toBe(`/app/companies?search=Navy&id=${ids[0]}&done=few`);
  expect(textOf(await admin.get(few))).toContain('Tick two to five companies, then press Merge.');
  const link = (await chosen(...ids)).location!;
  const back = new URL(link, 'https://x.example').searchParams.get('back')!;
  expect([back.split('&')[0], (await tickedOn(back)).toSorted()]).toEqual([
    '/app/companies?search=Navy',
    ids.toSorted(),
  ]);
  const action = `/app/duplicates/merge?${new URLSearchParams({ back }).toString()}`;
  const merged = await admin.submit(link, { id: [...ids], keep: ids[1] }, action);
  expect(textOf(await admin.get(merged.location!))).toMatch(/They are merged\. Undo .* merged Navy GmbH into it /);
  expect((await customer.get(`/company/${ids[0]}`)).body).toBeNull();
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
  const unknown = await admin.fieldsOf(path);
  expect((await admin.post(`/app/lists/${customer.id}/enrich`, { ...unknown, max_credits: '1' })).status).toBe(404);
  expect(await app.owner`select id from jobs where customer_id = ${customer.id}`).toHaveLength(1);
});
