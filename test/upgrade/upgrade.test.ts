import { beforeAll, describe, expect, test, vi } from 'vitest';
import { startApp, type TestApp } from '../setup/app.ts';
import { runCli } from '../setup/cli.ts';
import { freePorts } from '../setup/free-port.ts';
import { grant, type TestCustomer } from '../setup/factories.ts';
import { needPrograms, startHaproxy, type Haproxy } from '../setup/proxies.ts';
import { patient, startServerProcess, type ServerProcess } from '../setup/server-process.ts';
import { startLoad } from './load.ts';
import { makeRelease, thisRelease, versionAfter, type Changes, type Release } from './release.ts';

// How to change the schema without a failed request: docs/contributing.md, "Change the schema". The example is a column
// `label`, the name of a product in capitals.

/** The first release adds the column and writes it. It does not read it, since instances of this release do not write it. */
const writesLabel: Changes = {
  sources: {
    'src/queries/crm/products.ts': [
      [
        "= { name: 'products', columns: productFields };",
        "= { name: 'products', columns: [...productFields, 'label' as never] };",
      ],
      ['(columns) => ({ ...columns })', '(columns) => ({ ...columns, label: columns.name.toUpperCase() })'],
    ],
  },
  migrations: {
    '9001_label.sql': `-- oldest release: ${thisRelease.version}\nalter table products add column label text;\n`,
  },
};

/**
 * The second release fills and verifies the column before its instances start, and reads it. The fill corrects labels
 * too: an instance that does not know the column may have changed the name of a product after another wrote its label.
 */
const readsLabel: Changes = {
  sources: {
    'src/queries/crm/products.ts': [['`p.id, ', '`p.id, p.label, ']],
    'src/schemas/products.ts': [
      ["  id: wire.Uuid('Id of the product.'),\n", "  id: wire.Uuid('Id of the product.'),\n  label: Type.String(),\n"],
    ],
  },
  migrations: {
    '9002_labels.sql': `-- no-transaction
-- oldest release: ${versionAfter(1)}
-- repeat
with batch as (
  select customer_id, id
  from products
  where label is distinct from upper(name)
  order by customer_id, id
  limit 100
)
update products p
set label = upper(name)
from batch
where p.customer_id = batch.customer_id
  and p.id = batch.id;

alter table products drop constraint if exists products_label_right;
alter table products add constraint products_label_right check (label is not null and label = upper(name)) not valid;
alter table products validate constraint products_label_right;
`,
  },
};

vi.setConfig({ testTimeout: 900_000, hookTimeout: 900_000 });

const needHaproxy = needPrograms('haproxy');

describe.skipIf(needHaproxy !== '')(`behind the supplied HAProxy ${needHaproxy}`, () => {
  let app: TestApp;
  let customer: TestCustomer;
  let haproxy: Haproxy;
  let releases: [Release, Release, Release];
  const ports: number[] = [];
  const instances = new Map<number, ServerProcess>();
  let worker: ServerProcess;

  beforeAll(async () => {
    app = await startApp();
    customer = await app.customer();
    await grant(app.fastify, customer.id, 'verification', 1_000_000);
    ports.push(...(await freePorts(4)));
    haproxy = await startHaproxy(ports.map(targetOf));
    releases = [
      thisRelease,
      await makeRelease(versionAfter(1), writesLabel),
      await makeRelease(versionAfter(2), writesLabel, readsLabel),
    ];
    await Promise.all([start(ports[0]!, thisRelease), start(ports[1]!, thisRelease)]);
    worker = await startWorker(thisRelease);
  });

  const targetOf = (port: number) => `127.0.0.1:${port}`;
  const entry = ({ cli }: Release, verb: string) => [cli, verb, '--json'];

  async function start(port: number, release: Release): Promise<void> {
    const environment = { ...patient, PORT: String(port), SHUTDOWN_GRACE_MS: '5000' };
    instances.set(port, await startServerProcess(app.url, environment, entry(release, 'serve')));
  }

  async function stop(port: number): Promise<void> {
    expect(await instances.get(port)!.stop()).toBe(0);
    instances.delete(port);
  }

  const startWorker = (release: Release) => startServerProcess(app.url, {}, entry(release, 'work'));

  async function replaceWorker(release: Release): Promise<void> {
    const old = worker;
    worker = await startWorker(release);
    expect(await old.stop()).toBe(0);
  }

  /** Waits until HAProxy sends requests to these instances, and to no others. */
  async function seen(expected: number[]): Promise<void> {
    await expect.poll(haproxy.ready, { timeout: 300_000, interval: 50 }).toEqual(expected.map(targetOf));
  }

  const readiness = (port: number) => fetch(`http://${targetOf(port)}/readyz`).then((answer) => answer.json());

  /** Expects that every product was created once, and that every job ended and its credits agree with the ledger. */
  async function expectDoneOnce(created: Map<string, Set<string>>): Promise<void> {
    expect([...created].filter(([, ids]) => ids.size !== 1)).toEqual([]);
    const [counts] = await app.owner`
      select count(*)::integer as products
      from products
      where replace(name, '-renamed', '') = any(${[...created.keys()]})`;
    expect(counts).toEqual({ products: created.size });
    const unfinished = () => app.owner`select id from jobs where status <> 'COMPLETED'`;
    await expect.poll(unfinished, { timeout: 600_000, interval: 100 }).toEqual([]);
    const { stdout } = await runCli(['credits', 'check', '--json'], { DATABASE_URL: app.url });
    expect(JSON.parse(stdout)).toMatchObject({ faults: [] });
  }

  test('two releases, each in place of the one before, change the schema without a failed request', async () => {
    await seen(ports.slice(0, 2));
    const load = startLoad(haproxy.url, customer.key, 3);
    await load.anotherRound();

    expect((await releases[1].migrate(app.ownerUrl)).applied).toEqual(['9001_label.sql']);
    expect(await readiness(ports[0]!)).toMatchObject({ status: 'ready', checks: { schema: 'ahead' } });
    await load.anotherRound();
    const workerReplaced = replaceWorker(releases[1]);
    for (const port of ports.slice(0, 2)) {
      await stop(port);
      await start(port, releases[1]);
      await seen(ports.slice(0, 2));
    }
    await workerReplaced;
    await load.anotherRound();

    expect((await releases[2].migrate(app.ownerUrl)).applied).toEqual(['9002_labels.sql']);
    await load.anotherRound();
    await Promise.all(ports.slice(2).map((port) => start(port, releases[2])));
    await seen(ports);
    await Promise.all([stop(ports[0]!), stop(ports[1]!), replaceWorker(releases[2])]);
    await seen(ports.slice(2));
    await load.anotherRound();

    await load.stop();
    expect(load.failures).toEqual([]);
    await expectDoneOnce(load.created);
  });

  test('a release that does not write what is read by now refuses to start', async () => {
    await expect(startServerProcess(app.url, {}, entry(thisRelease, 'work'))).rejects.toThrow('ended with 1');
  });

  test('an instance that is killed fails no read, and no write with an Idempotency-Key', async () => {
    const load = startLoad(haproxy.url, customer.key, 4, { onlyRepeatable: true });
    await load.anotherRound();
    await instances.get(ports[2]!)!.stop('SIGKILL');
    await seen([ports[3]!]);
    await load.anotherRound();
    await load.stop();
    expect(load.failures).toEqual([]);
    await expectDoneOnce(load.created);
  });
});
