import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { Webhook } from 'standardwebhooks';
import { expect, onTestFinished, test, vi } from 'vitest';
import { replayEndpoint } from '../../src/accounts/webhooks.ts';
import { makeEndpoint } from '../jobs/webhooks/receivers.ts';
import { companyBody, contactBody, make, opportunityBody, type TestCustomer } from '../setup/factories.ts';
import { freePort } from '../setup/free-port.ts';
import type { TourService } from './tour.ts';
import { truncateJournalOf } from '../setup/journal.ts';

/** How an example is started: the program, and its first arguments. */
interface Example {
  command: string;
  words: string[];
  cwd: string;
}

const run = promisify(execFile);

/** Tests the three examples of a client: a nightly sync, a two-way sync and a receiver of webhooks. */
export function testExamples(
  service: TourService,
  [nightlySync, twoWaySync, receiver]: readonly [string, string, string],
  example: (name: string) => Example,
): void {
  test(`${nightlySync} keeps a copy that is right after each run, whatever happened before`, async () => {
    await expectNightlySync(service, example(nightlySync));
  }, 600_000);

  test(`${twoWaySync} makes both sides the same, after five kills`, async () => {
    await expectTwoWaySync(service, example(twoWaySync));
  }, 600_000);

  test(`${receiver} handles each event once, and nothing that is not signed`, async () => {
    await expectReceiver(service, example(receiver));
  }, 600_000);
}

/** Kills a process at a time that the machine decides: any moment must do. */
async function killAfter(ms: number, child: ChildProcess): Promise<void> {
  await sleep(ms);
  child.kill('SIGKILL');
  if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
}

const fields = ['id', 'external_id', 'first_name', 'last_name', 'work_email', 'job_title'] as const;
type Copied = Record<(typeof fields)[number], string | null>;

/** Runs the example nightly sync, kills it at any moment, and loses its cursor. Each time the copy must be right again. */
async function expectNightlySync({ app, url }: TourService, { command, words, cwd }: Example): Promise<void> {
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
    await killAfter(ms, spawn(command, [...words, file], { ...options, stdio: 'ignore' }));
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

const newBodies = [
  ['company', (n: number) => ({ company_name: `Here ${n}` })],
  ['contact', (n: number) => ({ last_name: `Here ${n}`, company: { external_id: `company-${n}` } })],
  [
    'opportunity',
    (n: number, deal: object) => ({
      ...deal,
      name: `Here ${n}`,
      company_id: { external_id: `company-${n}` },
      contacts_ids: [{ external_id: `contact-${n}` }],
    }),
  ],
] as const;
const paths = { company: '/company', contact: '/contacts', opportunity: '/opportunities' };

/** Changes both sides, kills the example two-way sync five times, and compares the sides. Echoes must not be taken. */
async function expectTwoWaySync({ app, url }: TourService, { command, words, cwd }: Example): Promise<void> {
  const customer = await app.customer();
  const other = await customer.withCaps({});
  const file = join(cwd, 'crm.db');
  const options = { cwd, env: { PATH: process.env['PATH'], SALES_DATA_URL: url, SALES_DATA_KEY: customer.key } };
  const { products: _, contacts_ids: _none, ...deal } = await opportunityBody(customer);
  const sync = () => run(command, [...words, file], options);
  await make(other, '/contacts', contactBody());
  expect(await sync()).toEqual({ stdout: '', stderr: '' });

  const here = new DatabaseSync(file, { timeout: 30_000 });
  onTestFinished(() => here.close());
  const rows = () =>
    here.prepare('select * from records order by kind, id').all() as Record<'kind' | 'own' | 'id' | 'body', string>[];
  const change = async (n: number) => {
    for (const i of Array.from({ length: 30 }, (_, at) => 100 * n + at)) {
      for (const [kind, bodyOf] of newBodies)
        here
          .prepare('insert into records (kind, own, body) values (?, ?, ?)')
          .run(kind, `${kind}-${i}`, JSON.stringify(bodyOf(i, deal)));
    }
    here.exec(`update records set body = json_set(body, '$.first_name', 'Here ${n}'), dirty = 1
      where kind = 'contact' and id is not null and rowid % 3 = ${n % 3}`);
    here.exec(
      `update records set body = null, dirty = 1 where kind = 'opportunity' and own like '%7' and rowid % 2 = 0`,
    );
    const company_id = await make(other, '/company', companyBody({ company_name: `There ${n}` }));
    const contact = await make(other, '/contacts', contactBody({ company: { id: company_id } }));
    await make(other, '/opportunities', {
      ...deal,
      products: [],
      name: `There ${n}`,
      company_id,
      contacts_ids: [contact],
    });
    const known = (await other.post('/contacts/list', { paginate: { limit: 100 } })).body;
    const items = known.slice(10).map(({ id }: { id: string }) => ({ id, first_name: `There ${n}` }));
    if (items.length > 0) await other.post('/contacts/batch/update', { items });
    const [last] = (await other.post('/opportunities/list', { paginate: { limit: 1, page: 5 } })).body;
    if (last) await other.delete(`/opportunities/${last.id}`);
  };
  for (const [n, ms] of [200, 300, 400, 550, 800].entries()) {
    await change(n);
    await killAfter(ms, spawn(command, [...words, file], { ...options, stdio: 'ignore' }));
  }
  expect(await sync()).toEqual({ stdout: '', stderr: '' });

  const local = rows();
  for (const { kind, id, body } of local) {
    const { company: _company, company_id: _companyId, contacts_ids: _contacts, ...members } = JSON.parse(body);
    expect(await other.get(`${paths[kind as keyof typeof paths]}/${id}`)).toMatchObject({ status: 200, body: members });
  }
  const total = async (path: string) => (await other.post(`${path}/metadata`, {})).body.pagination.total_records;
  const kept = (kind: string) => local.filter((row) => row.kind === kind).length;
  expect([await total('/company'), await total('/contacts')]).toEqual([kept('company'), kept('contact')]);
  // An echo would have filled in what was not given here.
  expect(local.filter(({ own }) => own === 'company-0')).toMatchObject([{ body: '{"company_name":"Here 0"}' }]);

  // The own id of a contact that was merged there names the contact that stays, which must not be deleted for it.
  const [merged, stays] = local.filter(({ own }) => own.startsWith('contact-'));
  await other.post('/contacts/merge', { id: stays!.id, merge_ids: [merged!.id] });
  for (const body of ['{"last_name":"Late"}', null]) {
    here.prepare('update records set body = ?, dirty = 1 where own = ?').run(body, merged!.own);
    await sync();
  }
  expect((await other.get(`/contacts/${stays!.id}`)).status).toBe(200);
}

/** Runs the example receiver with the real worker: it handles each event once, and takes nothing that is not signed. */
async function expectReceiver({ app }: TourService, { command, words, cwd }: Example): Promise<void> {
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
      { timeout: 300_000, interval: 100 },
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
