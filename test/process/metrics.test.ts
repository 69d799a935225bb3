import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { serviceMetrics } from '../../src/plugins/metrics.ts';
import { appWithoutDatabase, declaredRoutes, monitorWithoutDatabase } from '../contract/declared.ts';
import { makeEndpoint, record } from '../jobs/webhooks/receivers.ts';
import { startApp } from '../setup/app.ts';
import { temporaryFolder } from '../setup/at-end.ts';
import { inject } from '../setup/factories.ts';
import { needPrometheus, noPrometheus, promtool } from '../setup/prometheus.ts';
import { startServerProcess, type ServerProcess } from '../setup/server-process.ts';

const monitoring = join(import.meta.dirname, '..', '..', 'deploy', 'monitoring');
const tested = await startApp();
const { fastify: app, url, customer, owner } = tested;

/** Returns the value of a series in Prometheus text format; undefined if there is none. */
const valueOf = (text: string, series: string): number | undefined => {
  const line = text.split('\n').find((one) => one.startsWith(`${series} `));
  return line === undefined ? undefined : Number(line.slice(series.length + 1));
};
const read = async (): Promise<string> => (await app.inject('/metrics')).body;

test('requests are counted by route, method and status, and unknown paths as one route', async () => {
  const { key, id } = await customer();
  const authorization = `X-API-Key ${key}`;
  await app.inject({ method: 'POST', url: '/api/ext/contacts/list', headers: { authorization }, payload: {} });
  for (const path of ['/nowhere/1', '/nowhere/2']) await app.inject(path);
  const text = await read();
  const count = (method: string, route: string, status: number) =>
    valueOf(
      text,
      `http_server_request_duration_seconds_count{http_request_method="${method}",http_route="${route}",http_response_status_code="${status}"}`,
    );
  expect(count('POST', '/api/ext/contacts/list', 200)).toBeGreaterThan(0);
  expect(count('GET', 'unknown', 404)).toBe(2);
  for (const secret of [key, id, '/nowhere']) expect(text).not.toContain(secret);
});

test('anonymous callers can create few series: each route counts with the methods that it supports', async () => {
  const { documented, hidden } = await declaredRoutes();
  const supported = new Set(documented.map(({ method, url: route }) => `${method} ${route}`));
  for (const { method, url: route } of hidden) supported.add(`${method} ${route}`);
  const server = appWithoutDatabase();
  const own = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'PROPFIND'] as const;
  const malformed = { 'transfer-encoding': 'gzip' };
  for (const path of new Set([...documented, ...hidden].map((route) => route.url.replace(':id', 'x'))))
    for (const method of own as readonly 'GET'[]) {
      await server.inject({ method, url: path });
      await server.inject({ method, url: path, headers: malformed });
    }
  for (const method of own as readonly 'GET'[])
    for (const path of ['/%zz', '/none']) await server.inject({ method, url: path });
  await server.close();
  const series = (await read()).matchAll(
    /^http_\w+_count\{http_request_method="(.+)",http_route="(.+)",http_r\w+="(.+)"\}/gm,
  );
  const labels = [...series].map(([, method, route, status]) => ({ method: method!, route: route!, status: status! }));
  const ofRoutes = labels.filter(({ route }) => route !== 'unknown').map(({ method, route }) => `${method} ${route}`);
  const methods = new Set([...supported].map((name) => name.split(' ')[0]!));
  expect(new Set(ofRoutes).difference(supported)).toEqual(new Set());
  expect(supported.difference(new Set(ofRoutes))).toEqual(new Set());
  const others = labels.filter(({ route }) => route === 'unknown').map(({ method }) => method);
  expect(new Set(others).difference(methods)).toEqual(new Set(['OPTIONS', '_OTHER']));
});

test('webhooks show what waits, and since when, apart for endpoints that fail', async () => {
  const { id } = await customer();
  await makeEndpoint(tested, id, 'https://receiver.example.com/');
  const { id: failing } = await makeEndpoint(tested, id, 'https://other.example.com/');
  await record(tested, id, [['contact.created'], ['contact.deleted']]);
  await record(tested, id, [['company.created']]);
  // Not sent without `bulk`, so it does not wait either.
  await record(tested, id, [['contact.created']], 'import');
  await owner`update journal set occurred_at = now() - interval '700 seconds' where customer_id = ${id} and position < 3`;
  const ago = (seconds: number) => owner`now() - ${seconds} * interval '1 second'`;
  await owner`
    update webhook_endpoints
    set failing_since = ${ago(9_000)}, failures_in_row = 1, pending = 4, next_at = now()
    where id = ${failing}`;
  const text = await serviceMetrics(tested.fastify).read();
  const of = (name: string, standing: string) => valueOf(text, `sales_data_webhook_${name}{standing="${standing}"}`);
  expect([of('events_waiting', 'working'), of('events_waiting', 'failing')]).toEqual([3, 7]);
  expect(of('oldest_seconds', 'working')).toBeGreaterThan(699);
  expect(of('oldest_seconds', 'working')).toBeLessThan(900);
  expect(of('oldest_seconds', 'failing')).toBeGreaterThan(8_999);
});

test('each state of /readyz is a metric; without the database only its own metrics are left out', async () => {
  const { checks } = (await app.inject('/readyz')).json<{ checks: object }>();
  const text = await read();
  for (const [check, is] of Object.entries(checks))
    expect(valueOf(text, `sales_data_check_up{check="${check}"}`), check).toBe(is === 'degraded' ? 0 : 1);
  const cut = appWithoutDatabase();
  const rest = (await cut.inject('/metrics')).body;
  await cut.close();
  expect(valueOf(rest, 'sales_data_check_up{check="postgres"}')).toBe(0);
  expect([valueOf(rest, 'sales_data_database_up'), valueOf(text, 'sales_data_database_up')]).toEqual([0, 1]);
  expect(rest).toContain('sales_data_build_info');
  expect(rest).not.toContain('sales_data_unlocks_unindexed ');
});

describe('with METRICS_PORT', () => {
  let server: ServerProcess;
  beforeAll(async () => {
    server = await startServerProcess(url, { METRICS_PORT: '0' });
  });
  afterAll(() => server.stop());

  test("that port serves metrics and health, and the service's port no longer serves metrics", async () => {
    const { monitor } = server.started as { monitor: string };
    expect((await fetch(`${server.url}/metrics`)).status).toBe(404);
    expect(await (await fetch(`${monitor}/metrics`)).text()).toContain('sales_data_build_info');
    for (const path of ['/healthz', '/readyz']) expect((await fetch(monitor + path)).status).toBe(200);
    expect((await fetch(`${monitor}/api/ext/contacts/list`, { method: 'POST' })).status).toBe(404);
  });

  test('that port limits connections and answers as the API does, and counts nothing as a request of it', async () => {
    const monitor = monitorWithoutDatabase({ MAX_CONNECTIONS: '2' });
    expect(monitor.server).toMatchObject({ maxConnections: 2, timeout: 30_000 });
    const series = async () =>
      (await monitor.inject('/metrics')).body.match(/^http_server_request_duration_seconds_count.*$/gm);
    const before = await series();
    for (const [method, path, status] of [
      ['POST', '/metrics', 405],
      ['POST', '/none', 404],
      ['GET', '/healthz', 400],
    ] as const) {
      const answer = await inject(monitor, method, path, '{');
      expect(answer.status).toBe(status);
      expect(answer.body).toMatchObject({ statusCode: status, code: expect.any(String) });
    }
    expect(await series()).toEqual(before);
    await monitor.close();
  });
});

test.skipIf(noPrometheus)(
  `Prometheus reads them, and accepts the expressions of the dashboard, which name metrics of the service ${needPrometheus}`,
  async () => {
    const known = await read();
    const { status, said } = promtool(['check', 'metrics'], known);
    expect([0, 3], said).toContain(status);
    const alerts = await readFile(join(monitoring, 'alerts.yml'), 'utf8');
    const dashboard = JSON.parse(await readFile(join(monitoring, 'dashboard.json'), 'utf8')) as {
      panels: { targets: { expr: string }[] }[];
    };
    const expressions = dashboard.panels.flatMap(({ targets }) => targets.map(({ expr }) => expr));
    const rules = expressions.map((expr, i) => ({ record: `e${i}`, expr: expr.replaceAll('$__rate_interval', '1m') }));
    const file = join(await temporaryFolder(), 'rules.json'); // JSON is YAML
    await writeFile(file, JSON.stringify({ groups: [{ name: 'dashboard', rules }] }));
    const checked = promtool(['check', 'rules', file]);
    expect(checked.status, checked.said).toBe(0);
    const named = [...expressions, alerts].join('\n').match(/\b(?:sales_data|http_server|nodejs|process)_[a-z0-9_]+/g)!;
    // Present only with the Elasticsearch catalog, and written by deploy/backup.sh.
    const elsewhere = new Set(['sales_data_unlocks_unindexed', 'sales_data_backup_finished_seconds']);
    const unknown = named.filter(
      (name) => !elsewhere.has(name) && !known.includes(`# TYPE ${name.replace(/_(bucket|count|sum)$/, '')} `),
    );
    expect(named.length).toBeGreaterThan(20);
    expect(unknown).toEqual([]);
  },
);
