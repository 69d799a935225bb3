import { expect, test } from 'vitest';
import { auditEvents } from '../../src/schemas/accounts.ts';
import { begin } from '../jobs/working.ts';
import { startApp } from '../setup/app.ts';
import { grant } from '../setup/factories.ts';
import { adminOfEachTest, textOf, visitorOf } from './visitor.ts';

const app = await startApp();
const { customer, admin: visitor } = adminOfEachTest(app);

/** Adds an entry that a job caused some days ago. Ids begin with their time. */
const charge = (jobId: string, number: number, amount: number, daysAgo: number) => app.owner`
  insert into credit_entries (customer_id, id, pool, number, kind, amount, balance_after, reserved_after, job_id)
  values (${customer.id}, uuidv7(make_interval(hours => -24 * ${daysAgo}::int)), 'verification', ${number}, 'charge',
    ${amount}, 0, 0, ${jobId})`;

test('the page of credits shows balances, what was added and spent, what was held if asked, and what was spent in the last 30 days', async () => {
  await grant(app.fastify, customer.id, 'subscription', 12_345);
  const job = await begin(app, customer, 3);
  await charge(job, 101, 2, 0);
  await charge(job, 102, 40, 29);
  await charge(job, 103, 500, 30);
  const member = await visitorOf(app.fastify, customer.id, 'member');
  const text = textOf(await member.get('/app/credits'));
  expect(text).toContain('12,345 available to unlock prospects');
  expect(text).toContain('0 available to verify e-mail addresses; 3 more are held for jobs');
  expect(text).toContain('42 spent in the last 30 days');
  expect(text).toContain('added Prospects +12,345 12,345');
  expect(text).toContain('spent Verify e-mail addresses Verification −2 0');
  expect(text).not.toContain('held Verify');
  expect(textOf(await visitor.get('/app/credits?show=all'))).toContain('held Verify e-mail addresses Verification 3 3');
});

test('the pages of jobs show the progress of a job, its results and its end', async () => {
  expect(textOf(await visitor.get('/app/jobs'))).toContain('No jobs yet');
  const id = await begin(app, customer, 30);
  const page = `/app/jobs/${id}`;
  expect(textOf(await visitor.get('/app/jobs?status=PENDING&type=verify_email'))).toMatch(
    /Verify e-mail addresses pending 0 of 30/,
  );
  for (const query of ['status=COMPLETED', 'type=unlock_contacts', 'by=me'])
    expect((await visitor.get(`/app/jobs?${query}`)).body).not.toContain(id);
  const running = await visitor.get(page);
  expect(running.body).toMatch(/data-live[\s\S]*<progress/);
  expect(running.body).toContain('http-equiv="refresh"');
  expect((await visitor.submit(`${page}/cancel`)).location).toBe(page);
  const ended = await visitor.get(page);
  expect(ended.body).not.toMatch(/data-live|http-equiv="refresh"|\/cancel"/);
  expect(textOf(ended)).toMatch(/cancelled .* 0 addresses checked 30 left out · 0 credits spent of at most 30/);
  expect(textOf(ended)).toContain('0@example.com');
  const next = /href="(\/app\/jobs\/[^"]+\?cursor[^"]+)"/.exec(ended.body)![1]!.replaceAll('&#61;', '=');
  expect(textOf(await visitor.get(next))).toContain('29@example.com');
  expect((await visitor.submit(`${page}/cancel`)).status).toBe(409);
});

test('the page of the audit log shows admins who did what', async () => {
  await visitor.submit(`/app/keys/${customer.keyId}/revoke`);
  const text = textOf(await visitor.get('/app/audit'));
  expect(text).toMatch(new RegExp(`API key revoked API key test ${visitor.user.email} 127.0.0.1 begins with`));
  expect(text).toContain('They are kept for good; the newest 1,000 are here.');
  expect(text).toContain(`User logged in ${visitor.user.email} ${visitor.user.email} 127.0.0.1`);
});

test('the page of the audit log shows calls, keys, fields and limits in words, and no ids', async () => {
  const url = '/api/ext/contacts/merge';
  const limits = {
    name: 'Old',
    spend_caps: 'subscription 9/day, verification none',
    approve_over: 'credits any, records 5',
  };
  await app.owner`
      insert into audit_events (customer_id, event, actor, details)
      values
        (${customer.id}, 'approval.approved', 'x', jsonb_build_object('approval', uuidv7(), 'url', ${url}::text)),
        (${customer.id}, 'webhook.disabled', 'service', jsonb_build_object('webhook', uuidv7(), 'host', 'h', 'reason', 'gone')),
        (${customer.id}, 'field.declared', 'x', '{"object": "contacts", "key": "since", "type": "boolean"}'),
        (${customer.id}, 'api_key.spend_caps_changed', 'x', ${app.owner.json(limits)}),
        (${customer.id}, 'webhook.created', ${`key ${customer.keyId}`}, jsonb_build_object('webhook', uuidv7(), 'host', 'h'))`;
  const text = textOf(await visitor.get('/app/audit'));
  expect(text).toMatch(
    /Webhook created h API key test – .* API key limits changed Old x – Prospects: at most 9 credits per day \(UTC\), Verification: no cap · approval above 5 records .* Type of a field set since x – of contacts: Yes or no .* Webhook disabled h the service – It answered 410 \(gone\) .* Approval approved your company x – Merge contacts/,
  );
  expect(text).not.toMatch(/[0-9a-f]{8}-/);
});

test('the page of the audit log can be limited to what one person or key did, and to one kind of event', async () => {
  await app.owner`
      insert into audit_events (customer_id, event, actor, details)
      values (${customer.id}, 'webhook.created', ${`key ${customer.keyId}`}, '{}'), (${customer.id}, 'webhook.deleted', 'x', '{}')`;
  const eventsOf = async (query: string) =>
    (await visitor.get(`/app/audit?${query}`)).body
      .match(/<span class="line">[^<]+/g)!
      .map((one) => one.slice(19))
      .toSorted();
  expect(await eventsOf('by=API+key+test')).toEqual(['Webhook created']);
  expect(await eventsOf('what=Webhook+deleted')).toEqual(['Webhook deleted']);
  expect(textOf(await visitor.get('/app/audit?what=Webhook+deleted&by=API+key+test'))).toContain('No event matches');
  expect((await visitor.get('/app/audit')).body).toContain('<option value="API key test"');
});

test('the page of the audit log has words for every event', async () => {
  for (const event of auditEvents)
    await app.owner`insert into audit_events (customer_id, event, actor, details) values (${customer.id}, ${event}, 'x', '{}')`.catch(
      () => undefined,
    );
  expect(textOf(await visitor.get('/app/audit'))).not.toMatch(/undefined|\w+\.\w+_\w+/);
});
