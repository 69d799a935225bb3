import { expect, test } from 'vitest';
import { startApp } from '../setup/app.ts';
import { contactBody, make, opportunityBody, stagesOf } from '../setup/factories.ts';
import { adminOfEachTest, textOf, visitorOf } from './visitor.ts';

const app = await startApp();
const { customer, admin } = adminOfEachTest(app);

const today = async () => textOf(await admin.get('/app'));
const dayMs = 24 * 60 * 60 * 1000;
const inDays = (days: number) => new Date(Date.now() + days * dayMs).toISOString();

test('Today shows my tasks that are due, come within a week or have no day, and a box completes them there', async () => {
  const phone_numbers = [{ country_code: '+44', number: '20 7946 0000' }];
  const contact_id = await make(customer, '/contacts', contactBody({ last_name: 'Lovelace', phone_numbers }));
  const assigned_to = admin.user.userId;
  const task = (more: object) => make(customer, '/activities', { type: 'task', contact_id, assigned_to, ...more });
  const late = await task({ title: 'Late call', due_at: inDays(-3) });
  await task({ title: 'Undated letter' });
  await task({ title: 'Coming demo', due_at: inDays(3) });
  await task({ title: 'Later demo', due_at: inDays(9) });
  await task({ title: 'Of somebody else', due_at: inDays(-3), assigned_to: customer.adminId });
  await task({ title: 'Done before', due_at: inDays(-3), done_at: inDays(-4) });
  const text = (await today()).split('Latest')[0]!;
  expect(text).toMatch(
    /Overdue Late call due .* Lovelace · \+44 20 7946 0000 .*In the next seven days Coming demo due .*Without a day Undated letter/,
  );
  for (const other of ['Later demo', 'Done before', 'Of somebody else']) expect(text).not.toContain(other);
  expect((await admin.get('/app')).body).toContain('href="tel:+442079460000"');
  const done = await admin.submit('/app', {}, `/app/activities/${late}/done`);
  expect(done.location).toMatch(/^\/app\?done=completed&change=/);
  expect((await today()).split('Latest')[0]).not.toContain('Late call');
});

test('Today shows my open opportunities that close in the next 30 days or should have, and no others', async () => {
  const stages = await stagesOf(customer);
  const add = async (name: string, more: object) => {
    const mine = { name, user_id_assigned: admin.user.userId, estimated_closing_date: inDays(-1), ...more };
    await make(customer, '/opportunities', await opportunityBody(customer, mine));
  };
  await make(customer, '/contacts', contactBody());
  await add('Overdue engine', {});
  await add('Won engine', { stage_id: stages[4]!.id });
  await add('Next engine', { estimated_closing_date: inDays(30) });
  await add('Distant engine', { estimated_closing_date: inDays(32) });
  await add('Foreign engine', { user_id_assigned: customer.adminId });
  const text = (await today()).split('Latest')[0]!;
  expect(text).toContain('My opportunities that close in the next 30 days Overdue engine Lead');
  expect(text).toContain('Next engine');
  for (const other of ['Won', 'Distant', 'Foreign']) expect(text).not.toContain(`${other} engine`);
});

test('Today tells what others did last, in a line for each person and record, and what needs a look until it is dismissed', async () => {
  const items = [1, 2, 3].map((i) => contactBody({ last_name: `No ${i}` }));
  await customer.post('/contacts/batch/create', { items });
  const id = await make(customer, '/contacts', contactBody({ first_name: 'Ada', last_name: '<i>Lovelace' }));
  await admin.submit(`/app/contacts/${id}/edit`, { job_title: 'Countess' });
  const deal = await make(customer, '/opportunities', await opportunityBody(customer, { name: 'Engine' }));
  const colleague = await visitorOf(app.fastify, customer.id);
  for (const change of [{ priority: 'LOW' }, { priority: 'HIGHT' }, { name: 'Two engines' }])
    await colleague.submit(`/app/opportunities/${deal}/edit`, change);
  const page = await admin.get('/app');
  expect(textOf(page).match(/ changed Two engines : Name, Priority \d/g)).toHaveLength(1);
  expect(textOf(page)).toMatch(/ An API key created Ada <i>Lovelace .* An API key created 3 contacts/);
  expect(page.body).not.toContain('<i>Lovelace');
  await app.owner`update api_keys set expires_at = now() + interval '3 days' where customer_id = ${customer.id}`;
  expect(await today()).toMatch(/Nothing is due\..* Needs a look The key test ends on .* My opportunities/);
  expect((await admin.submit('/app', {}, '/app/dismiss')).location).toBe('/app');
  expect(await today()).not.toContain('The key test ends on');
  expect(textOf(await colleague.get('/app'))).toContain('The key test ends on');
});
