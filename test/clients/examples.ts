import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { Webhook } from 'standardwebhooks';
import { expect, onTestFinished, vi } from 'vitest';
import { replayEndpoint } from '../../src/accounts/webhooks.ts';
import { makeEndpoint } from '../jobs/webhooks/receivers.ts';
import { contactBody, make, type TestCustomer } from '../setup/factories.ts';
import { freePort } from '../setup/free-port.ts';
import type { TourService } from './tour.ts';
import { truncateJournalOf } from '../setup/journal.ts';

/** How an example is started: the program, and its first arguments. */
export interface Example {
  command: string;
  words: string[];
  cwd: string;
}

const run = promisify(execFile);

const fields = ['id', 'external_id', 'first_name', 'last_name', 'work_email', 'job_title'] as const;
type Copied = Record<(typeof fields)[number], string | null>;

/** Runs the example nightly sync, kills it at any moment, and loses its cursor. Each time the copy must be right again. */
export async function expectNightlySync({ app, url }: TourService, { command, words, cwd }: Example): Promise<void> {
  const customer = await app.customer();
  const file = join(cwd, 'contacts.db');
  const env = { PATH: process.env['PATH'], SALES_DATA_URL: url, SALES_DATA_KEY: customer.key };
  const options = { cwd, env };
  const sync = async (): Promise<string> => (await run(command, [...words, file], options)).stdout;
  const expectCopy = async () => expect(copyIn(file)).toEqual(await shownTo(customer));

  const people = Array.from({ length: 700 }, (_, i) => contactBody({ external_id: `crm-${i}` }));
  const { body } = await customer.post('/contacts/batch/create', { items: people });
  const ids: string[] = body.data.results.map(({ id }: { id: string }) => id);
  expect(await sync()).toBe('The copy has 700 contacts\n');
  await expectCopy();

  const change = async (n: number) => {
    await customer.patch(`/contacts/${ids[n]}`, { external_id: `own-${n}`, job_title: `Title ${n}` });
    await customer.delete(`/contacts/${ids[100 + n]}`);
    await customer.post('/contacts/merge', { id: ids[200 + n], merge_ids: [ids[300 + n]] });
    await customer.post('/contacts/batch/update', {
      items: ids.slice(400).map((id) => ({ id, last_name: `Name ${n}` })),
    });
    await make(customer, '/contacts', contactBody());
  };
  await change(0);
  expect(await sync()).toBe('The copy has 699 contacts\n');
  await expectCopy();

  for (const [n, ms] of [0, 250, 400, 550].entries()) {
    await change(n + 1);
    if (n === 1) await rm(file);
    const child = spawn(command, [...words, file], { ...options, stdio: 'ignore' });
    await sleep(ms);
    child.kill('SIGKILL');
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
  }
  await sync();
  await expectCopy();

  // The feed has lost the event behind the cursor, as after many nights without a run.
  await customer.delete(`/contacts/${ids[0]}`);
  await truncateJournalOf(app.owner, customer.id);
  await make(customer, '/contacts', contactBody());
  expect(await sync()).toMatch(/^Changes were missed: exporting all contacts anew\nThe copy has \d+ contacts\n$/);
  await expectCopy();
}

function copyIn(file: string): Copied[] {
  const db = new DatabaseSync(file);
  try {
    return (db.prepare('select * from contacts order by id').all() as unknown as Copied[]).map((row) => ({ ...row }));
  } finally {
    db.close();
  }
}

async function shownTo(customer: TestCustomer): Promise<Copied[]> {
  const shown: Copied[] = [];
  for (let paginate: object | undefined = { limit: 100 }; paginate;) {
    const { body, headers } = await customer.post('/contacts/list', { paginate });
    for (const contact of body)
      shown.push(Object.fromEntries(fields.map((field) => [field, contact[field]])) as Copied);
    const cursor = headers['x-next-cursor'];
    paginate = cursor === undefined ? undefined : { limit: 100, cursor };
  }
  return shown.toSorted((a, b) => (a.id! < b.id! ? -1 : 1));
}

/** Runs the example receiver with the real worker: it handles each event once, and takes nothing that is not signed. */
export async function expectReceiver({ app }: TourService, { command, words, cwd }: Example): Promise<void> {
  const customer = await app.customer();
  const port = await freePort();
  const url = `http://127.0.0.1:${port}/`;
  const { id, secret } = await makeEndpoint(app, customer.id, url, { types: ['contact.created', 'contact.updated'] });
  const lines: string[] = [];
  const start = async () => {
    const child = spawn(command, [...words, join(cwd, 'events.db'), String(port)], {
      cwd,
      env: { PATH: process.env['PATH'], WEBHOOK_SECRET: secret },
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    onTestFinished(() => void child.kill('SIGKILL'));
    const said = createInterface(child.stdout);
    await once(said, 'line');
    said.on('line', (line) => lines.push(line.trim()));
    return child;
  };
  const delivered = async (count: number) =>
    vi.waitFor(
      async () => {
        const [row] = await app.owner<[{ count: number }]>`
          select count(*)::integer as count from webhook_deliveries where endpoint_id = ${id} and ok`;
        expect(row.count).toBe(count);
      },
      { timeout: 60_000, interval: 100 },
    );

  const first = await start();
  const contact = await make(customer, '/contacts', contactBody());
  await customer.patch(`/contacts/${contact}`, { job_title: 'Countess' });
  await delivered(2);
  const expected = [`contact.created ${contact}`, `contact.updated ${contact} job_title`];
  expect(lines.toSorted()).toEqual(expected);

  // Repeats, also after the receiver was killed.
  first.kill('SIGKILL');
  await once(first, 'exit');
  await start();
  await replayEndpoint({ db: app.db, customerId: customer.id }, id, '2020-01-01T00:00:00Z');
  await delivered(4);
  expect(lines.toSorted()).toEqual(expected);

  const forged = JSON.stringify({ id: 'forged', type: 'contact.created', data: { id: 'forged' } });
  const now = new Date();
  const late = new Date(now.getTime() - 600_000);
  const headers = (signature: string, at = now) => ({
    'webhook-id': 'forged',
    'webhook-timestamp': String(Math.floor(at.getTime() / 1000)),
    'webhook-signature': signature,
  });
  const signed = (by: string, at = now) => headers(new Webhook(by).sign('forged', at, forged), at);
  const other = `whsec_${Buffer.alloc(24, 1).toString('base64')}`;
  for (const [given, body] of [
    [{}, forged],
    [headers('v1,AAAA'), forged],
    [headers('v1'), forged],
    [headers('v1,%'), forged],
    [signed(other), forged],
    [signed(secret, late), forged],
    [signed(secret), forged.replace('created', 'deleted')],
  ] as const)
    expect((await fetch(url, { method: 'POST', headers: given, body })).status, JSON.stringify(given)).toBe(401);
  const large = await fetch(url, { method: 'POST', headers: signed(secret), body: 'x'.repeat(70_000) }).catch(
    () => null,
  );
  expect(large?.status ?? 413).toBe(413);
  expect((await fetch(url, { method: 'POST', headers: signed(secret), body: forged })).status).toBe(204);
  await vi.waitFor(() => expect(lines.toSorted()).toEqual([...expected, 'contact.created forged'].toSorted()), {
    timeout: 30_000,
  });
}
