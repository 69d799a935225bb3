import { expect, test } from 'vitest';
import { startApp } from '../setup/app.ts';
import { companyBody, contactBody, make, opportunityBody } from '../setup/factories.ts';
import { adminOfEachTest, expectPage, filledFields, textOf } from './visitor.ts';

const app = await startApp();
const { customer, admin } = adminOfEachTest(app);

const makeContact = () => make(customer, '/contacts', contactBody({ first_name: 'Ada', last_name: 'Lovelace' }));
const activitiesOf = async (filters: object) => (await customer.post('/activities/list', { filters })).body;
const write = (page: string, fields: Record<string, string>) => admin.submit(page, fields);

test("a note that is written on a contact's page stands in its timeline, with its author, as plain text", async () => {
  const id = await makeContact();
  const sent = await write(`/app/contacts/${id}`, { type: 'note', body: 'Wants <b>two</b> & more\nSoon' });
  const page = await admin.get(sent.location!);
  expect(textOf(page)).toContain('It is saved.');
  expect(textOf(page)).toMatch(/wrote a note .* Wants <b>two<\/b> & more Soon/);
  expect(page.body).not.toContain('<b>two</b>');
  const [note] = await activitiesOf({ contact_id: id });
  expect(note).toMatchObject({ type: 'note', title: '', created_by: { type: 'user', id: admin.user.userId } });
});

test('a note on the page of a contact that others have merged meanwhile stays in the composer of the one that is left', async () => {
  const [kept, merged] = [await makeContact(), await makeContact()];
  const { form_token = '' } = await admin.fieldsOf(`/app/contacts/${merged}`, `/app/contacts/${merged}`);
  await customer.post('/contacts/merge', { id: kept, merge_ids: [merged] });
  const sent = { form_token, type: 'note', body: 'Wants a demo', contact_id: merged };
  const refused = await admin.post(`/app/contacts/${merged}`, sent);
  expectPage(refused, 409, /Somebody has merged the contact into this one .* Wants a demo/);
  expect(refused.body).toContain(`action="/app/contacts/${kept}"`);
  const again = { ...filledFields(refused.body, `/app/contacts/${kept}`), type: 'note', body: sent.body };
  expect((await admin.post(`/app/contacts/${kept}`, again)).status).toBe(303);
  expect(await activitiesOf({ contact_id: kept })).toMatchObject([{ body: 'Wants a demo' }]);
});

test('a new task from Tasks or Today is about the contact or company that its form names, and asks if several are', async () => {
  const ada = await makeContact();
  await make(customer, '/contacts', contactBody({ first_name: 'Anne', last_name: 'Lovelace' }));
  const path = '/app/activities/new';
  for (const page of ['/app', '/app/activities']) expect((await admin.get(page)).body).toContain(`href="${path}?back`);
  const form = await admin.get(path);
  expect(textOf(form)).toMatch(/^New task .* Create the task/);
  expect(form.body.match(/name="type" value="\w+"/g)).toEqual(['name="type" value="task"']);
  expect(textOf(form)).toMatch(/Contact or company \* .* Title \* /);
  const add = (about: string, title = 'Call') => write(path, { about, type: 'task', title, due_on: '' });
  expect(textOf(await add('Nobody'))).toContain('No contact or company is found by “Nobody”.');
  const several = await add('Lovelace', '');
  expect(textOf(several)).toMatch(/Choose one of those found by “Lovelace”, .* Write what is to be done\./);
  expect(several.body.match(/id="\w+" name="(?:about|which|title)"[^>]*aria-invalid/g)).toHaveLength(2);
  expect((await add('Anne')).status).toBe(303);
  const made = await admin.get((await add('ada lovelace')).location!);
  expect(made.location).toBe(`/app/contacts/${ada}?done=planned`);
  expect(await activitiesOf({ contact_id: ada })).toMatchObject([{ type: 'task', title: 'Call' }]);
});

test('a new task asks which one of several with the same name is meant, and tells them apart', async () => {
  const named = (work_email: string) =>
    make(customer, '/contacts', contactBody({ first_name: 'Ada', last_name: 'Lovelace', work_email }));
  const second = (await Promise.all(['a@x.example', 'b@x.example'].map(named)))[1]!;
  const sent = { about: 'Ada Lovelace', type: 'task', title: 'Call', due_on: '' };
  const asked = await write('/app/activities/new', sent);
  expect(textOf(asked)).toMatch(
    /Which one please choose (?=.*Ada Lovelace · Contact · a@x\.example)(?=.*Ada Lovelace · Contact · b@x\.example)/,
  );
  const made = await write('/app/activities/new', { ...sent, which: second });
  expect((await admin.get(made.location!)).location).toBe(`/app/contacts/${second}?done=planned`);
  const grace = await make(customer, '/contacts', contactBody({ first_name: 'Grace', last_name: 'Hopper' }));
  const corrected = await write('/app/activities/new', { ...sent, about: 'Grace Hopper', which: second });
  expect((await admin.get(corrected.location!)).location).toContain(grace);
});

test('a new task leads back to the page of tasks that it came from, which names its record and offers an undo', async () => {
  const ada = await makeContact();
  const back = '/app/activities?who=all';
  const [, form] = /href="([^"]+)"[^>]*>New task/.exec((await admin.get(back)).body)!;
  const path = form!.replaceAll('&#61;', '=');
  const sent = { about: 'Ada', type: 'task', title: 'Call', due_on: '' };
  const made = await admin.submit(path, sent, path);
  expect(made.location).toMatch(/^\/app\/activities\?who=all&done=created&made=/);
  const page = await admin.get(made.location!);
  expect(textOf(page)).toMatch(/“Call” is created, about Ada Lovelace\s?\. Undo /);
  expect(page.body).toContain(`href="/app/contacts/${ada}"`);
  const [{ id }] = await activitiesOf({ contact_id: ada });
  const edit = textOf(await admin.get(`/app/activities/${id}/edit`));
  expect(edit).toMatch(/^Change Call .* Ada Lovelace .* Save the task Cancel$/);
  expect(edit).not.toContain('Meeting');
});

test('a task has a day and a person, stands above the timeline, is completed by a box once, and is opened again', async () => {
  const id = await makeContact();
  const page = `/app/contacts/${id}`;
  await write(page, { type: 'task', title: 'Call back', due_at: '2020-02-29', assigned_to: admin.user.userId });
  const [task] = await activitiesOf({ contact_id: id });
  expect(task).toMatchObject({ assigned_to: admin.user.userId, due_at: '2020-02-29T23:59:59.999Z', done_at: null });
  const open = await admin.get(page);
  expect(textOf(open)).toMatch(/To do Call back due 29 Feb 2020/);
  expect(open.body).toContain('class="late"');
  const path = `/app/activities/${task.id}/done`;
  const box = await admin.fieldsOf(page, path);
  const clicks = await Promise.all([box, box, box].map((one) => admin.post(path, one)));
  const [done, ...others] = clicks.filter(({ location }) => location?.includes('change='));
  expect(others).toEqual([]);
  const { done_at } = (await activitiesOf({ contact_id: id }))[0];
  const again = await admin.post(path, box);
  expect([again.location, (await activitiesOf({ contact_id: id }))[0].done_at]).toEqual([
    `${page}?done=completed`,
    done_at,
  ]);
  const after = await admin.get(done!.location!);
  expect(textOf(after)).toMatch(/The task is done\..*Undo/);
  expect(textOf(after)).not.toContain('To do');
  expect(textOf(after)).toMatch(/set a task · \S+ \S+ · done \d+ \w+ \d+, .* UTC \d+ \w+ \d+, /);
  expect((await activitiesOf({ contact_id: id }))[0].done_at).not.toBeNull();
  await admin.submit(page, {}, path);
  expect(textOf(await admin.get(page))).toContain('To do Call back');
});

test("a company's page shows what happened with its contacts, and what was written at its opportunities", async () => {
  const company = await make(customer, '/company', companyBody());
  const contact = await make(customer, '/contacts', contactBody({ last_name: 'Lovelace', company: { id: company } }));
  const body = await opportunityBody(customer, { company_id: company, contacts_ids: [contact] });
  const deal = await make(customer, '/opportunities', body);
  await write(`/app/contacts/${contact}`, { type: 'call', body: 'No answer' });
  await write(`/app/opportunities/${deal}`, { type: 'meeting', body: 'Liked the engine' });
  const page = textOf(await admin.get(`/app/companies/${company}`));
  expect(page).toMatch(/had a call · \S* ?Lovelace/);
  expect(page).toContain('Liked the engine');
  expect(textOf(await admin.get(`/app/contacts/${contact}`))).toContain('Liked the engine');
});

test('a form changes no text and no time that its user has not changed', async () => {
  const id = await makeContact();
  const times = { due_at: '2026-03-31T08:15:00.000Z' };
  const task = await make(customer, '/activities', {
    type: 'task',
    title: 'Call',
    body: 'a\r\nb',
    contact_id: id,
    ...times,
  });
  const form = `/app/activities/${task}/edit`;
  await admin.submit(form, { type: 'task', title: 'Call back', body: 'a\r\nb' });
  expect((await customer.get(`/activities/${task}`)).body).toMatchObject({
    title: 'Call back',
    body: 'a\r\nb',
    ...times,
  });
  await admin.submit(form, { type: 'task', title: 'Call back', body: 'a\r\nb', due_at: '' });
  expect((await customer.get(`/activities/${task}`)).body.due_at).toBeNull();
});

test('Tasks shows mine or those of everybody in parts by their days, and each part alone', async () => {
  const contact_id = await makeContact();
  const due = (days: number) => new Date(Date.now() + days * 24 * 60 * 60 * 1000).toISOString();
  const assigned_to = admin.user.userId;
  const task = (title: string, more: object) =>
    make(customer, '/activities', { type: 'task', title, contact_id, assigned_to, ...more });
  await task('Much later', { due_at: due(30) });
  await task('Undated', {});
  await task('Soon', { due_at: due(3) });
  await task('Foreign', { due_at: due(-2), assigned_to: customer.adminId });
  for (let i = 0; i < 16; i += 1) await task('Late', { due_at: due(-i - 1) });
  await task('Finished', { done_at: due(0) });
  const mine = textOf(await admin.get('/app/activities'));
  expect(mine).toMatch(/ Overdue Late .* All of these .*seven days Soon .* Later Much later .* Without a day Undated /);
  expect(mine.match(/ Late due /g)).toHaveLength(15);
  for (const other of ['Foreign', 'Finished']) expect(mine).not.toContain(other);
  const all = textOf(await admin.get('/app/activities?who=all&show=overdue'));
  expect(all.match(/ Late due /g)).toHaveLength(16);
  expect(all).toMatch(/ Foreign due /);
  expect(textOf(await admin.get(`/app/activities?who=${customer.adminId}`))).toMatch(/ Overdue Foreign [^]* Edit$/);
  expect(textOf(await admin.get('/app/activities?show=done'))).toMatch(/ Done ✓ Finished [^]* Edit$/);
});

test('a task is due tomorrow or on another quick day, and is moved by one click, which can be undone', async () => {
  const id = await makeContact();
  const tomorrow = new Date(Date.now() + 24 * 60 * 60 * 1000).toISOString().slice(0, 10);
  const page = `/app/contacts/${id}`;
  expect((await admin.get(page)).body).toMatch(new RegExp(`name="due_on"\\s+value="${tomorrow}"\\s+checked`));
  await write(page, { type: 'task', title: 'Chosen', due_on: tomorrow });
  await write(page, { type: 'task', title: 'Typed', due_on: tomorrow, due_at: '2020-02-29' });
  await write(page, { type: 'task', title: 'Undated', due_on: '' });
  const dueOf = async () =>
    Object.fromEntries(
      (await activitiesOf({ contact_id: id })).map(({ title, due_at }: Record<string, string>) => [title, due_at]),
    );
  const end = 'T23:59:59.999Z';
  expect(await dueOf()).toEqual({ Chosen: `${tomorrow}${end}`, Typed: `2020-02-29${end}`, Undated: null });
  const [late] = await activitiesOf({ contact_id: id, title: 'Typed' });
  const path = `/app/activities/${late.id}/move`;
  const moved = await admin.submit(page, { day: tomorrow }, path);
  expect(textOf(await admin.get(moved.location!))).toContain('It is moved. Undo');
  expect((await admin.submit(page, { day: tomorrow }, path)).location).toBe(`${page}?done=moved`);
  expect((await dueOf())['Typed']).toBe(`${tomorrow}${end}`);
  const [mark, monday] = /name="day" value="([\d-]+)"[^>]*aria-label="Next week \(Mon \d+ \w+\): Typed"/.exec(
    (await admin.get(page)).body,
  )!;
  expect([mark !== '', new Date(monday!).getUTCDay(), monday! > tomorrow]).toEqual([true, 1, true]);
  expect((await admin.submit(page, { day: 'x' }, path)).location).toBe(page);
});

test('the pages of a timeline show each activity and each change once, also if many happened at one time', async () => {
  const id = await makeContact();
  for (let i = 0; i < 30; i += 1) await customer.patch(`/contacts/${id}`, { job_title: `Title${i}.` });
  const occurred_at = '2020-01-01T00:00:00.000Z';
  const items = Array.from({ length: 60 }, (_, i) => ({ body: `Note${i}.`, contact_id: id, occurred_at }));
  await customer.post('/activities/batch/create', { items });
  const found: string[] = [];
  for (let path: string | undefined = `/app/contacts/${id}`; path !== undefined;) {
    const { body } = await admin.get(path);
    found.push(...(textOf({ body }).match(/→ Title\d+\.|Note\d+\./g) ?? []));
    path = /href="([^"]+)" rel="next"/.exec(body)?.[1]!.replaceAll('&#61;', '=').replaceAll('&#35;', '#').split('#')[0];
  }
  expect(found).toHaveLength(90);
  expect(new Set(found).size).toBe(90);
  expect((await admin.get(`/app/contacts/${id}?older=made-up`)).status).toBe(400);
});
