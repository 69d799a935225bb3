import { beforeAll, expect, test } from 'vitest';
import { jobBatches } from '../../src/jobs/workers.ts';
import { takeTurn } from '../../src/jobs/turns.ts';
import { person, writePeople } from '../catalog/people.ts';
import { creditsOf, customerWith } from '../jobs/calls.ts';
import { contextOf } from '../jobs/working.ts';
import { startApp } from '../setup/app.ts';
import { runCommand } from '../setup/cli.ts';
import { companyBody, contactBody, make, makeList, unique } from '../setup/factories.ts';
import { readJournal } from '../setup/journal.ts';

const app = await startApp();
beforeAll(async () => {
  await app.catalog.prepare();
});

async function run(line: string, customerId: string) {
  const words = [...line.split(' '), '--customer', customerId, '--json'];
  const { code, stdout, stderr } = await runCommand(words, { DATABASE_URL: app.url });
  return { code, stderr, result: stdout === '' ? undefined : JSON.parse(stdout) };
}

test('duplicates are listed and merged, each change with its event, and only of the customer', async () => {
  const [customer, other] = [await app.customer(), await app.customer()];
  const contact = (more: object = {}) =>
    make(customer, '/contacts', contactBody({ work_email: 'a@x.example', ...more }));
  const [kept, merged] = [await contact({ job_title: 'Analyst' }), await contact({ job_title: 'Countess' })];
  const company = () => make(customer, '/company', companyBody({ company_name: 'Acme' }));
  const companies = [await company(), await company()] as const;
  const group = { value: 'a@x.example', count: 2, ids: [kept, merged] };
  expect(await run('contacts duplicates', customer.id)).toMatchObject({ code: 0, result: [group] });
  expect((await run('contacts duplicates', other.id)).result).toEqual([]);
  expect((await run('companies duplicates --by name', customer.id)).result).toMatchObject([{ ids: companies }]);

  const merge = `contacts merge --id ${kept} --merge-ids ${merged.toUpperCase()} --field job_title=${merged}`;
  expect((await run(merge, other.id)).code).toBe(1);
  expect((await run(`${merge} --field score=${kept}`, customer.id)).code).toBe(1);
  expect(await run(merge, customer.id)).toMatchObject({ code: 0, result: { id: kept, merged: [merged] } });
  expect((await customer.get(`/contacts/${kept}`)).body.job_title).toBe('Countess');
  expect((await readJournal(app.owner, customer.id, 'command')).map(({ type }) => type)).toEqual([
    'contact.updated',
    'contact.deleted',
  ]);
});

test('an enrichment says its price first, and starts only with --yes and a limit', async () => {
  const customer = await customerWith(app, { subscription: 5 });
  const email = `${unique('ada')}@x.example`;
  await writePeople(app.catalog, [person({ work_email: email, emails: [], job_title: 'Countess' })]);
  const listed = await make(customer, '/contacts', contactBody({ work_email: email, job_title: '' }));
  await make(customer, '/contacts', contactBody({ work_email: 'nobody@x.example' }));
  const list = await makeList(app.fastify, customer);
  await customer.post('/list-contact-details/add-contacts', { list_id: list, contact_ids: [listed] });
  const enrich = `contacts enrich --list ${list} --fields job_title`;
  expect(await run(enrich, customer.id)).toMatchObject({ code: 0, result: { contacts: 1, cost: 1, available: 5 } });
  expect((await run('contacts enrich', customer.id)).result).toMatchObject({ contacts: 2, cost: 2 });
  expect((await run(`${enrich} --yes`, customer.id)).code).toBe(2);
  expect(await creditsOf(customer)).toMatchObject({ subscription: { balance: 5, reserved: 0 } });

  const { code, result } = await run(`${enrich} --max-credits 3 --yes`, customer.id);
  expect([code, result]).toMatchObject([0, { id: expect.any(String), status: 'PENDING' }]);
  await takeTurn('unlock', jobBatches)(contextOf(app), { customerId: customer.id });
  expect((await customer.get(`/contacts/${listed}`)).body.job_title).toBe('Countess');
  expect(await creditsOf(customer)).toMatchObject({ subscription: { balance: 4, reserved: 0 } });
});
