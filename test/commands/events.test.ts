import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { expect, onTestFinished, test } from 'vitest';
import { loopback, startReceiver, verify } from '../jobs/webhooks/receivers.ts';
import { startApp } from '../setup/app.ts';
import { nodeEnvironment, operatorWith, unknownId, words } from '../setup/cli.ts';
import { workAtUndos } from '../jobs/working.ts';
import { contactBody, make, productBody } from '../setup/factories.ts';

const app = await startApp(loopback);
const root = join(import.meta.dirname, '..', '..');
const environment = { ...loopback, DATABASE_URL: app.url, WEBHOOK_SECRET_KEY: app.config.WEBHOOK_SECRET_KEY! };
const { run, json } = operatorWith(environment);

/** Starts `events tail`. Returns its lines, one after another. */
function tail(...words: string[]) {
  const child = spawn(process.execPath, ['src/cli.ts', 'events', 'tail', ...words], {
    cwd: root,
    env: { ...nodeEnvironment, PATH: process.env['PATH'], ...environment },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]();
  const next = async () => (await lines.next()).value as string;
  const kill = async () => {
    child.kill('SIGKILL');
    await once(child, 'exit');
  };
  return { next, kill };
}

test('events tail prints each change once, as a line or as JSON, and continues after the cursor of one', async () => {
  const [customer, other] = [await app.customer(), await app.customer()];
  const { id } = customer;
  const contact = await make(customer, '/contacts', contactBody({ external_id: 'crm-1' }));
  const { headers } = await customer.post('/events/list', {});
  const cursor = headers['x-next-cursor'] as string;
  const first = tail('--customer', id, '--cursor', cursor, '--json');
  await customer.patch(`/contacts/${contact}`, { job_title: 'Countess' });
  const product = await make(customer, '/products', productBody());
  const update = JSON.parse(await first.next());
  expect(update).toEqual({
    id: expect.any(String),
    type: 'contact.updated',
    occurred_at: expect.any(String),
    data: {
      id: contact,
      external_id: 'crm-1',
      changed: ['job_title'],
      source: 'api',
      actor: { type: 'key', id: customer.keyId },
      change_id: expect.any(String),
    },
    cursor: expect.any(String),
  });
  expect(JSON.parse(await first.next())).toMatchObject({ type: 'product.created', data: { id: product } });
  await first.kill();
  const second = tail('--customer', id, '--cursor', update.cursor);
  expect(await second.next()).toMatch(new RegExp(`^\\S+Z  product.created +api +${product}  by=key$`));
  for (const options of [
    words`--customer ${other.id} --cursor ${cursor}`,
    words`--customer ${id} --cursor ${`${cursor}x`}`,
    words`--customer ${id} --types contact.renamed`,
    words`--customer ${unknownId}`,
  ]) {
    const refused = await run(words`events tail ${options}`);
    expect([refused.code === 0, refused.stdout]).toEqual([false, '']);
    expect(refused.stderr).not.toBe('');
  }
});

test('webhook create, list, test, disable, enable, rotate and delete', async () => {
  const { id: customer } = await app.customer();
  const receiver = await startReceiver();
  const made = await json(words`webhook create --customer ${customer} --url ${receiver.url} --types contact.created`);
  expect(made).toMatchObject({ url: receiver.url, types: ['contact.created'], bulk: false, active: true });
  const own = ['--webhook', made.id] as const;
  const listed = () => json(words`webhook list --customer ${customer}`);
  expect(await listed()).toMatchObject([{ id: made.id, waiting: 0, given_up: 0 }]);
  expect(JSON.stringify(await listed())).not.toContain('whsec_');
  expect(await json(words`webhook test ${own}`)).toMatchObject({ ok: true, status: 200 });
  verify(made.secret, receiver.received.at(-1)!);
  expect(await json(words`webhook disable ${own}`)).toMatchObject({ active: false });
  expect((await run(words`webhook enable ${own}`)).stdout).toBe(`${made.id} ${receiver.url} is active\n`);
  const { secret } = await json(words`webhook rotate ${own}`);
  expect(secret).not.toBe(made.secret);
  await json(words`webhook test ${own}`);
  for (const one of [secret, made.secret]) verify(one, receiver.received.at(-1)!);
  expect((await run(words`webhook delete ${own}`)).stdout).toBe(`Deleted ${made.id}\n`);
  expect(await listed()).toEqual([]);
  expect(await run(words`webhook test ${own}`)).toMatchObject({ code: 1, stdout: '' });
  const wrong = words`webhook create --customer ${customer} --url ftp://127.0.0.1/ --types contact.created`;
  expect((await run(wrong)).code).not.toBe(0);
  const audited =
    await app.owner`select event from audit_events where customer_id = ${customer} and event like 'webhook.%' order by id`;
  expect(audited.map(({ event }) => event)).toEqual(
    ['created', 'changed', 'changed', 'rotated', 'deleted'].map((name) => `webhook.${name}`),
  );
});

test('changes list tells who has changed what, and changes undo takes it back', async () => {
  const customer = await app.customer();
  const { id } = customer;
  const contact = await make(customer, '/contacts', contactBody({ job_title: 'Clerk' }));
  await customer.patch(`/contacts/${contact}`, { job_title: 'Countess' });
  await make(customer, '/products', productBody());
  const [updated, created] = await json(words`changes list --customer ${id} --record ${contact.toUpperCase()}`);
  expect(updated).toMatchObject({ type: 'updated', fields: { job_title: ['Clerk', 'Countess'] } });
  expect(created).toMatchObject({ type: 'created', object: 'contact' });
  expect((await run(words`changes list --customer ${id} --limit 2`)).stdout.trim().split('\n')).toHaveLength(3);
  const options = words`--customer ${id} --change ${updated.change_id}`;
  expect((await run(words`changes undo ${options} --dry-run`)).stdout).toContain('1 records: 1 would be restored');
  const job = await json(words`changes undo ${options}`);
  await workAtUndos(app, customer);
  expect((await customer.get(`/contacts/${contact}`)).body.job_title).toBe('Clerk');
  const { body } = await customer.post('/changes/list', { filters: { change_id: job.id } });
  expect(body).toMatchObject([{ source: 'command', actor: { type: 'operator' } }]);
  const other = await app.customer();
  const strange = await run(words`changes undo --customer ${other.id} --change ${updated.change_id}`);
  expect([strange.code, strange.stderr]).toEqual([1, expect.stringContaining('No such change')]);
  expect((await run(words`changes list --customer ${unknownId}`)).code).toBe(1);
});
