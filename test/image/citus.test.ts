import { execFileSync } from 'node:child_process';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { citusProgram, hasCitusProgram, needCitus } from '../setup/citus.ts';
import { freePort } from '../setup/free-port.ts';
import { sendTo } from '../setup/over-http.ts';
import { composeCommand, hasImage, root, run, standIns } from './compose.ts';

// deploy/compose.citus.yaml: the tables over three PostgreSQL servers. Without Elasticsearch, whose image is large.

const project = `sales-data-api-citus-${process.pid}`;
const port = String(await freePort());
const folder = await mkdtemp(join(tmpdir(), 'compose-citus-'));
const overrides = join(folder, 'overrides.yaml');
const files = [join(root, 'compose.yaml'), join(root, 'deploy', 'compose.citus.yaml')];

const citus = 'citusdata/citus:14.1.0';
const canRun = hasImage(citus) || hasCitusProgram;

/** A password with the characters that mean something in a URL, a shell, SQL, or a file of passwords. */
const passwordOf = (name: string): string => `${name} @/#%41:?"'$\\:&=*`;
const secrets = join(folder, 'secrets');
const environment = {
  ...process.env,
  SECRETS: secrets,
  BACKUPS: join(folder, 'backups'),
  PROXY_PORT: port,
  COMPOSE_PROJECT_NAME: project,
  ENV_FILE: join(folder, 'env'),
};
const compose = (...words: string[]) =>
  run(
    composeCommand[0]!,
    [...composeCommand.slice(1), ...[...files, overrides].flatMap((file) => ['-f', file]), ...words],
    environment,
  );
const up = (...options: string[]) => compose('up', '-d', ...options, 'proxy', 'worker', 'valkey');
const readyz = () =>
  fetch(`http://127.0.0.1:${port}/readyz`).then(
    ({ status }) => status,
    () => 0,
  );

/** Builds Citus as an image from the files of the program that starts it on this machine. */
async function buildCitus(): Promise<string> {
  execFileSync(citusProgram, ['install']);
  const tag = 'sales-data-api-stand-in-citus';
  const dockerfile = join(root, 'test', 'image', 'stand-ins', 'citus', 'Dockerfile');
  const binaries = join(process.env['CITUS_HOME'] ?? join(tmpdir(), 'citus-14.0.1'), 'server');
  await run('docker', ['build', '-t', tag, '-f', dockerfile, binaries]);
  return tag;
}

describe.skipIf(!canRun)(`compose.citus.yaml ${canRun ? '' : needCitus}`, () => {
  beforeAll(async () => {
    const services: Record<string, object> = standIns();
    if (!hasImage(citus)) {
      const image = await buildCitus();
      // The stand-in reads no file.
      const environment = { POSTGRES_PASSWORD: passwordOf('postgres').replaceAll('$', '$$$$') };
      for (const service of ['postgres', 'worker1', 'worker2', 'cluster']) services[service] = { image, environment };
    }
    await writeFile(overrides, JSON.stringify({ services }));
    await up();
  });
  afterAll(async () => {
    await compose('down', '-v', '--timeout', '20');
  });

  const listContacts = async (key: string): Promise<unknown> =>
    (await sendTo({ url: `http://127.0.0.1:${port}`, key }, 'POST', '/contacts/list', { paginate: { limit: 2 } })).body;
  const onCoordinator = (sql: string) =>
    compose(
      'exec', '-T', 'postgres', 'psql', '-h', '/var/run/postgresql', '-U', 'postgres', '-d', 'sales_data_api', '-Atc', sql,
    ); // prettier-ignore

  test('serves a database that is spread over two workers; again with another password of the service', async () => {
    await expect.poll(readyz).toBe(200);
    const { key } = JSON.parse(await compose('exec', '-T', 'api', 'node', 'src/cli.ts', 'demo', '--json')) as {
      key: string;
    };
    const shards = `select nodename, count(*) from citus_shards where table_name = 'contacts'::regclass group by 1 order by 1`;
    expect(await onCoordinator(shards)).toMatch(/^worker1\|(\d+)\nworker2\|\1$/);
    // A busy machine may be late even after `/readyz`.
    let before: unknown;
    await expect.poll(async () => (before = await listContacts(key))).toHaveLength(2);

    await writeFile(join(secrets, 'service-password'), 'another: password');
    await up('--force-recreate');
    await expect.poll(readyz).toBe(200);
    await expect.poll(() => listContacts(key)).toEqual(before);
    expect((await compose('ps', '-q', 'api')).split('\n')).toHaveLength(2);
    expect((await compose('ps', '-q', 'worker')).split('\n')).toHaveLength(2);
  });
});

beforeAll(async () => {
  await Promise.all([writeFile(environment.ENV_FILE, ''), mkdir(secrets)]);
  for (const name of ['postgres', 'owner', 'service', 'grafana'])
    await writeFile(join(secrets, `${name}-password`), passwordOf(name), { mode: 0o644 });
  await writeFile(join(secrets, 'webhook-secret-key'), Buffer.alloc(32).toString('base64'), { mode: 0o644 });
});
afterAll(() => rm(folder, { recursive: true }));

test('the configuration is valid with Elasticsearch of three nodes', async () => {
  const all = [...composeCommand.slice(1), ...files.flatMap((file) => ['-f', file]), 'config', '--services'];
  const services = (await run(composeCommand[0]!, all, environment)).split('\n');
  expect(services).toEqual(expect.arrayContaining(['elasticsearch', 'elasticsearch2', 'elasticsearch3', 'cluster']));
});
