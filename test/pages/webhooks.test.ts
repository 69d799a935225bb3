import { expect, test } from 'vitest';
import { loopback } from '../jobs/webhooks/receivers.ts';
import { startApp } from '../setup/app.ts';
import { adminOfEachTest, textOf } from './visitor.ts';

const app = await startApp(loopback);
const { customer, admin: visitor } = adminOfEachTest(app);

const wanted = {
  url: 'https://receiver.example.com/hook',
  types: ['contact.created', 'job.ended'],
  description: 'CRM',
};
const secretIn = (body: string) =>
  /whsec_[A-Za-z0-9+/]{43}=/.exec(body.replaceAll('&#43;', '+').replaceAll('&#61;', '='))?.[0];

/** Creates an endpoint on the page. Returns its path, id and secret. */
async function create() {
  const { status: code, body } = await visitor.submit('/app/webhooks/new', wanted);
  expect(code).toBe(200);
  const [path, id] = /\/app\/webhooks\/([0-9a-f-]{36})/.exec(body)!;
  return { path, id: id!, secret: secretIn(body)! };
}

const rows = () => app.owner`
  select id, url, types, bulk, description, active, secret, replay_end
  from webhook_endpoints where customer_id = ${customer.id} order by id`;

test('an admin creates an endpoint, and its secret is shown once, however often the form is sent', async () => {
  expect(textOf(await visitor.get('/app/webhooks'))).toContain('No endpoints yet');
  const fields = { ...(await visitor.fieldsOf('/app/webhooks/new')), ...wanted };
  const made = await visitor.post('/app/webhooks/new', fields);
  expect([made.status, made.headers['cache-control']]).toEqual([200, 'no-store']);
  const secret = secretIn(made.body);
  expect(secret).toBeDefined();
  const again = await visitor.post('/app/webhooks/new', fields);
  expect([again.status, secretIn(again.body)]).toEqual([409, undefined]);
  expect(await rows()).toMatchObject([{ ...wanted, bulk: false, active: true }]);
  const ticked = /value="([a-z.]+)" checked/g;
  const first = [...(await visitor.get('/app/webhooks/new')).body.matchAll(ticked)].map(([, type]) => type);
  expect(first).toEqual(expect.arrayContaining(['contact.created', 'company.updated', 'opportunity.deleted']));
  expect((await visitor.get('/app/webhooks')).body).not.toContain('whsec_');
});

test('shows how an endpoint is, and what was delivered', async () => {
  const { path, id } = await create();
  await app.owner`
      update webhook_endpoints set failures_in_row = 2, failing_since = now(), last_failure_at = now() where id = ${id}`;
  await app.owner`
      insert into webhook_deliveries (customer_id, endpoint_id, event_id, type, attempt, ok, status, error, ms, sent_at)
      select ${customer.id}, ${id}, uuidv7(), 'contact.created', n, n > 2, case when n > 2 then 204 else 500 end,
        case when n <= 2 then 'status' end, 12, now()
      from generate_series(1, 30) n`;
  const page = textOf(await visitor.get(path));
  expect(page).toContain('failing It has failed since');
  expect(page).toContain('delivered Delivered, status 204, 12 ms');
  const failed = textOf(await visitor.get(`${path}?ok=false`));
  expect(failed).toContain('failed Refused, status 500, 12 ms');
  expect(failed).not.toContain('status 204');
  expect(textOf(await visitor.get(`${path}?page=2`))).toContain('Refused, status 500');
  expect(textOf(await visitor.get('/app/webhooks'))).toContain('It has failed since');
});

test('the page of an endpoint shows its usual acts, and the others behind “More”', async () => {
  const { path } = await create();
  const actsOf = async () => /Send a test.* Deliveries/.exec(textOf(await visitor.get(path)))![0];
  expect(await actsOf()).toMatch(/^Send a test Change More Send again Rotate the secret Disable Delete /);
  await visitor.submit(path, {}, `${path}/disable`);
  expect(await actsOf()).toMatch(/^Send a test Change Enable More /);
});

test('an endpoint is changed, disabled, enabled, replayed, rotated and deleted', async () => {
  const { path, secret } = await create();
  const row = async () => (await rows())[0]!;
  const changed = await visitor.submit(`${path}/edit`, { url: wanted.url, types: ['list.created'], bulk: 'on' });
  expect([changed.status, changed.location]).toEqual([303, `${path}?done=changed`]);
  expect(await row()).toMatchObject({ types: ['list.created'], bulk: true });
  for (const [verb, active] of [
    ['disable', false],
    ['enable', true],
  ] as const) {
    expect((await visitor.submit(path, {}, `${path}/${verb}`)).status).toBe(303);
    expect((await row())['active']).toBe(active);
  }
  expect((await visitor.submit(`${path}/replay`, { from: 'yesterday' })).status).toBe(400);
  expect((await visitor.submit(`${path}/replay`, { from: '2026-01-01T10:00' })).status).toBe(303);
  const rotated = await visitor.submit(`${path}/rotate`);
  expect(secretIn(rotated.body)).not.toBe(secret);
  expect((await visitor.submit(`${path}/delete`)).location).toBe('/app/webhooks?done=deleted');
  expect(await rows()).toHaveLength(0);
  expect((await visitor.get(path)).status).toBe(404);
});
