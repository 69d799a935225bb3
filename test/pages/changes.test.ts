import { expect, test } from 'vitest';
import { importFile } from '../jobs/importing.ts';
import { workAtUndos } from '../jobs/working.ts';
import { startApp } from '../setup/app.ts';
import { companyBody, contactBody, make, opportunityBody, productBody, stagesOf } from '../setup/factories.ts';
import { adminOfEachTest, expectPage, textOf, visitorOf } from './visitor.ts';

const app = await startApp();
const { customer, admin } = adminOfEachTest(app);

const undoPath = (html: string): string =>
  /(?:href|action)="(\/app\/changes\/[0-9a-f-]{36}\/undo(\?[^"]*)?)"/.exec(html.replaceAll('&#61;', '='))![1]!;

/** Sends the form of an undo, and works at the job that it starts. Returns the path to which the form leads. */
async function undo(path: string): Promise<string> {
  const sent = admin.submit(path, {}, path);
  const open = () => app.owner`select 1 from jobs where customer_id = ${customer.id} and finished_at is null`;
  await expect.poll(open, { interval: 20 }).toHaveLength(1);
  await workAtUndos(app, customer);
  return (await sent).location!;
}

test("a contact's page tells who changed what, and each change can be taken back", async () => {
  const id = await make(customer, '/contacts', contactBody({ job_title: 'Clerk' }));
  await customer.patch(`/contacts/${id}`, { job_title: 'Baker', custom_fields: { plan: 'gold', start: '2026-11-05' } });
  const page = await admin.get(`/app/contacts/${id}`);
  const history = textOf(page);
  expect(history).toContain('An API key Job title: Clerk → Baker plan: – → gold start: – → 5 Nov 2026');
  const question = textOf(await admin.get(undoPath(page.body)));
  expect(question).toContain('gets back what it had before this change');
  await undo(undoPath(page.body));
  expect((await customer.get(`/contacts/${id}`)).body).toMatchObject({ job_title: 'Clerk', custom_fields: {} });
});

test("a contact's page tells by names which company and country it had and got", async () => {
  const [one, two] = await Promise.all(
    ['Analytical <Engines>', 'Bernoulli Ltd'].map((company_name) =>
      make(customer, '/company', companyBody({ company_name })),
    ),
  );
  const id = await make(customer, '/contacts', contactBody({ company: { id: one }, location_country: 'DE' }));
  await customer.patch(`/contacts/${id}`, { company: { id: two }, location_country: 'FR' });
  const page = await admin.get(`/app/contacts/${id}`);
  expect(textOf(page)).toContain('Country: Germany → France Company: Analytical <Engines> → Bernoulli Ltd');
  await customer.delete(`/company/${one}`);
  expect(textOf(await admin.get(`/app/contacts/${id}`))).toContain('Company: a deleted company → Bernoulli Ltd');
});

test("the undo on a contact's page takes back what a change has done with this contact, and nothing else of it", async () => {
  const ids = [await make(customer, '/contacts', contactBody()), await make(customer, '/contacts', contactBody())];
  await customer.post('/contacts/batch/update', { items: ids.map((id) => ({ id, job_title: 'Baker' })) });
  const path = undoPath((await admin.get(`/app/contacts/${ids[0]}`)).body);
  expect(textOf(await admin.get(path))).toMatch(/^Undo for this contact only .* Undo all of it instead /);
  await undo(path);
  const titles = await Promise.all(ids.map(async (id) => (await customer.get(`/contacts/${id}`)).body.job_title));
  expect(titles).toEqual(['', 'Baker']);
});

test('the question of an undo and its job name the records that stay, and say why', async () => {
  const names = ['Lovelace', 'Turing', 'Benz'];
  const ids = await Promise.all(names.map((last_name) => make(customer, '/contacts', contactBody({ last_name }))));
  await customer.post('/contacts/batch/update', { items: ids.map((id) => ({ id, job_title: 'Baker' })) });
  await customer.patch(`/contacts/${ids[0]}`, { job_title: 'Countess' });
  const path = undoPath((await admin.get(`/app/contacts/${ids[1]}`)).body).replace(/\?.*/, '');
  const question = await admin.get(path);
  expect(textOf(question)).toMatch(
    / Undo This .* takes back 2 of 3 records\. Something stays as it is in 1 record\..* Ada Lovelace : Job title – changed since/,
  );
  expect(question.body).toContain(`<a href="/app/contacts/${ids[0]}">Ada Lovelace</a>`);
  const location = await undo(path);
  const kept = textOf(await admin.get(`${location.split('?')[0]}?outcome=skipped`));
  expect(kept).toMatch(/Ada Lovelace skipped changed since Job title \(An API key\)/);
  expect(kept).not.toContain('Turing');
});

test('an undo that would take nothing back says so, and has no button', async () => {
  const id = await make(customer, '/contacts', contactBody());
  const { headers } = await customer.patch(`/contacts/${id}`, { job_title: 'Analyst' });
  await customer.patch(`/contacts/${id}`, { job_title: 'Countess' });
  const { body } = await admin.get(`/app/changes/${headers['x-change-id'] as string}/undo`);
  expect(textOf({ body })).toMatch(/takes back 0 of 1 record\. .* Job title – changed since Close/);
  expect(body).not.toContain('>Undo</button>');
});

test('the job of an undo leads back to the page whose message offered it, and to no other site', async () => {
  const id = await make(customer, '/contacts', contactBody());
  const saved = await admin.submit(`/app/contacts/${id}/edit`, { job_title: 'Countess' });
  const path = undoPath((await admin.get(saved.location!)).body);
  const started = await admin.submit(path, {}, path);
  expect((await admin.get(started.location!)).body).toContain(`href="/app/contacts/${id}" >Go back</a>`);
  const elsewhere = (await admin.get(`${started.location!.split('?')[0]}?back=//evil.example`)).body;
  expect(elsewhere).toContain('href="/app" >Go back</a>');
});

test("after the undo of a merge the contact's page tells that it was taken back, and offers no undo of it", async () => {
  const ids = [
    await make(customer, '/contacts', contactBody({ work_email: 'a@x.example' })),
    await make(customer, '/contacts', contactBody({ work_email: 'b@x.example' })),
  ] as const;
  const { headers } = await customer.post('/contacts/merge', { id: ids[0], merge_ids: [ids[1]] });
  const merge = headers['x-change-id'] as string;
  const paths = ids.map((id) => `/app/contacts/${id}`);
  const { location: survivor } = await admin.get(paths[1]!);
  expect(survivor).toBe(`${paths[0]}?done=replaces`);
  expectPage(await admin.get(survivor!), 200, 'The contact that you opened was merged into this one.');
  expect(textOf(await admin.get(paths[0]!))).toMatch(/merged Ada Lovelace into it .* See the change · Undo the merge /);
  await undo(`/app/changes/${merge}/undo`);
  const [kept, merged] = await Promise.all(paths.map((path) => admin.get(path)));
  expect(textOf(kept!)).toMatch(
    /took back the merge: Other e-mails: b@x\.example → – .* → b@x\.example This merge was/,
  );
  expect(textOf(merged!)).toMatch(
    /took back the merge: restored it .* deleted it by a merge This merge was taken back/,
  );
  for (const { body } of [kept!, merged!]) expect(body.split(`data-dialog >Undo</a>`)).toHaveLength(2);
  const page = await admin.get(`/app/changes/${merge}`);
  expect(textOf(page)).toMatch(/^Merged 1 contact into another .* Taken back .* · \S.* · See what that did/);
  expect(page.body).not.toContain('/undo');
  const [, path] = /href="([^"]+)">See what that did/.exec(page.body)!;
  expect(textOf(await admin.get(path!))).toMatch(
    /^Undo: merged 1 contact .* cannot be taken back: merge the records again/,
  );
  const job = textOf(await admin.get(path!.replace('/changes/', '/jobs/')));
  expect(job).toMatch(/Record Outcome Restored (?!Kept)/);
  expect((await admin.get(`/app/changes/${merge}/undo`)).location).toBe(`/app/changes/${merge}`);
  expect(textOf(await admin.get('/app/jobs'))).toContain('Undo: merged 1 contact into another');
});

test('a change that was taken back is offered to be taken back again only after the undo was undone', async () => {
  const id = await make(customer, '/contacts', contactBody({ job_title: 'Clerk' }));
  await customer.patch(`/contacts/${id}`, { job_title: 'Baker' });
  const page = `/app/contacts/${id}`;
  await undo(undoPath((await admin.get(page)).body));
  const taken = await admin.get(page);
  expect(textOf(taken)).toMatch(/took back the change: Job title: Baker → Clerk .* This change was taken back\./);
  await undo(undoPath(taken.body));
  expect(textOf(await admin.get(page))).toMatch(/→ Clerk This change was taken back\. .* Clerk → Baker \S+ .* Undo /);
  const undone = await admin.get(undoPath(taken.body).replace(/\/undo.*/, ''));
  expect(textOf(undone)).toMatch(/^Undo: changed 1 contact .* what it took back Taken back .* See what that did/);
  expect(textOf(await admin.get('/app/jobs'))).toContain('Undo: changed 1 contact: Ada Lovelace');
  expect(undone.body).not.toContain('/undo');
});

test('a change whose undo was undone thousands of times is shown, and as taken back by its last undo', async () => {
  const id = await make(customer, '/contacts', contactBody());
  const { headers } = await customer.patch(`/contacts/${id}`, { job_title: 'Baker' });
  const change = headers['x-change-id'] as string;
  await app.owner`
    with undos as (select n, uuidv7(n * interval '1 ms') as id from generate_series(0, 3000) n)
    insert into jobs
      (customer_id, id, type, status, sync_crm, pool, total, cost, succeeded, reserved, started_at, finished_at, request)
    select ${customer.id}, id, 'undo', 'COMPLETED', true, 'subscription', 1, 0, 1, 0, now(), now(),
      jsonb_build_object('undo_of', coalesce(lag(id) over (order by n), ${change}::uuid))
    from undos`;
  expect(textOf(await admin.get(`/app/changes/${change}`))).toContain('Taken back');
});

test('a change that created more than 100 records is taken back by admins only', async () => {
  const member = await visitorOf(app.fastify, customer.id, 'member');
  const create = async (number: number) => {
    const items = Array.from({ length: number }, () => contactBody());
    await customer.post('/contacts/batch/create', { items });
    const [row] = await app.owner`
      select change_id from journal where customer_id = ${customer.id} order by position desc limit 1`;
    return `/app/changes/${row!['change_id']}/undo`;
  };
  const [few, many] = [await create(100), await create(101)];
  const { form_token = '' } = await member.fieldsOf(few);
  expect(textOf(await member.get(many))).toContain('Only an admin takes back the creation of more than 100 records.');
  expect((await member.post(many, { form_token })).status).toBe(403);
  expect((await member.submit(few)).status).toBe(303);
  expect((await admin.submit(many)).status).toBe(303);
});

test("an opportunity's page tells who moved it, and what else changed", async () => {
  const stages = await stagesOf(customer);
  const product = await make(customer, '/products', productBody({ name: 'Chair' }));
  const body = await opportunityBody(customer, { name: 'Desks', stage_id: stages[0]!.id });
  const id = await make(customer, '/opportunities', body);
  const products = { add: [{ id: product, price: 5, quantity: 2 }] };
  await customer.patch(`/opportunities/${id}`, { name: 'Chairs', stage_id: stages[1]!.id, products });
  const page = await admin.get(`/app/opportunities/${id}`);
  const told = textOf(page);
  expect(told).toContain('Name: Desks → Chairs');
  expect(told).toContain(`Stage: ${stages[0]!.name} → ${stages[1]!.name}`);
  expect(told).toContain('Products: – → 2 × Chair');
  expect(told).toMatch(/ · expected to close (?!.* Close date )/);
  await undo(undoPath(page.body));
  expect((await customer.get(`/opportunities/${id}`)).body).toMatchObject({
    name: 'Desks',
    stage_id: stages[0]!.id,
    details: [],
  });
});

test('what was deleted stands under Deleted, and is restored from there or from the message', async () => {
  const id = await make(customer, '/contacts', contactBody({ first_name: 'Ada', last_name: 'Lovelace' }));
  const page = await admin.get(`/app/contacts/${id}/delete`);
  const etag = /name="etag" value="([^"]*)"/.exec(page.body)![1]!.replaceAll('&#34;', '"').replaceAll('&quot;', '"');
  const gone = await admin.submit(`/app/contacts/${id}/delete`, { etag });
  const after = await admin.get(String(gone.headers['location']));
  expect(textOf(after)).toContain('It is deleted. Undo');
  const deleted = await admin.get('/app/deleted');
  expect(textOf(deleted)).toContain('Ada Lovelace contact');
  const path = undoPath(after.body).replace(/\?.*/, '');
  const restore = `${path}?record=${id}`;
  expect(deleted.body).toContain(`href="${restore}"`);
  expect(textOf(await admin.get(restore))).toContain('Ada Lovelace will be back');
  const back = await admin.get(await undo(undoPath(after.body)));
  expect(textOf(back)).toMatch(/^Contacts .*It is taken back\. .*Ada Lovelace/);
  expect((await customer.get(`/contacts/${id}`)).status).toBe(200);
  expect((await admin.get(`${path}?record=none`)).status).toBe(404);
});

test('Deleted offers only the last deletion of a record', async () => {
  const id = await make(customer, '/contacts', contactBody({ last_name: 'Lovelace' }));
  await customer.delete(`/contacts/${id}`);
  await undo(undoPath((await admin.get('/app/deleted')).body));
  expect(textOf(await admin.get('/app/deleted'))).toMatch(/Lovelace contact .* restored since/);
  await customer.delete(`/contacts/${id}`);
  const again = await admin.get('/app/deleted');
  expect(textOf(again)).toMatch(/Lovelace contact .* Restore .*Lovelace contact .* restored since/);
  await undo(undoPath(again.body));
  expect((await customer.get(`/contacts/${id}`)).status).toBe(200);
});

test('an import is taken back from its page', async () => {
  const settings = { object: 'contacts', mode: 'create', format: 'csv' };
  const csv = 'external_id,last_name\nx1,One\nx2,Two\n';
  const { id } = await importFile(app, customer, settings, csv);
  const page = await admin.get(`/app/imports/${id}`);
  expect(textOf(page)).toContain('Undo this import');
  expect(textOf(await admin.get(undoPath(page.body)))).toContain(
    'This created 2 contacts. The undo takes back all of it.',
  );
  await undo(undoPath(page.body));
  expect((await customer.post('/contacts/metadata', {})).body.pagination.total_records).toBe(0);
  const taken = await admin.get(`/app/imports/${id}`);
  expect(textOf(taken)).toMatch(/Taken back by .* See what that did/);
  expect(taken.body).not.toContain('/undo');
});

test("a change's page shows contacts first, and for each note whose it is", async () => {
  const settings = { object: 'contacts', mode: 'create', format: 'csv', guess: true };
  const csv =
    'last_name,work_email,company_name,note\nOne,one@x.example,Navy,Met at the fair\nTwo,two@x.example,Navy,\n';
  const { id } = await importFile(app, customer, settings, csv);
  const path = `/app/changes/${id}`;
  const first = textOf(await admin.get(path));
  expect(first).toMatch(/^Created 4 records .* 2 contacts 1 company 1 activity .* Two created .* One created/);
  expect(first).not.toContain('Met at the fair');
  const notes = await admin.get(`${path}?object=activity`);
  expect(textOf(notes)).toContain('Met at the fair created · One');
  const [one, two] = (await customer.post('/contacts/list', { order_by: { last_name: 'ASC' } })).body;
  expect(notes.body).toContain(`href="/app/contacts/${one.id}"`);
  const { headers } = await customer.post('/contacts/merge', { id: two.id, merge_ids: [one.id] });
  expect(textOf(await admin.get(`/app/changes/${headers['x-change-id'] as string}?object=activity`))).toContain(
    'Met at the fair Contact: a deleted contact → Two',
  );
});

test("a change's page links to its records, all or those of one kind, and tells what an undo gave back", async () => {
  const items = [
    contactBody({ last_name: 'One', company: { name: 'Navy' } }),
    contactBody({ last_name: 'Two', company: { name: 'Army' } }),
  ];
  const { headers } = await customer.post('/contacts/batch/create', { items });
  const path = `/app/changes/${headers['x-change-id'] as string}`;
  const page = await admin.get(path);
  expect(textOf(page)).toMatch(/Created 2 contacts and 2 companies .* 2 contacts 2 companies .* Ada One created/);
  expect(page.body).toMatch(/<a href="\/app\/contacts\/[0-9a-f-]{36}">Ada One<\/a>/);
  const companies = textOf(await admin.get(`${path}?object=company`));
  expect(companies).toMatch(/ 2 contacts 2 companies .* Army created/);
  expect(companies).not.toContain('Ada One');
  const contact = await make(customer, '/contacts', contactBody({ job_title: 'Clerk' }));
  await customer.patch(`/contacts/${contact}`, { job_title: 'Baker' });
  await undo(undoPath((await admin.get(`/app/contacts/${contact}`)).body));
  const [job] = await app.owner`select id from jobs where customer_id = ${customer.id} and type = 'undo'`;
  expect(textOf(await admin.get(`/app/changes/${job!['id']}`))).toMatch(
    /Undo: changed 1 contact .* Ada Lovelace Job title: Baker → Clerk/,
  );
});
