import { pino } from 'pino';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import packageJson from '../../package.json' with { type: 'json' };
import { parseConfig } from '../../src/process/config.ts';
import { openTracing } from '../../src/process/opentelemetry.ts';
import { startApp } from '../setup/app.ts';
import { contactBody, grant, type TestCustomer } from '../setup/factories.ts';
import { sendTo } from '../setup/over-http.ts';
import { startServerProcess, type ServerProcess } from '../setup/server-process.ts';
import { startCollector, type CollectedSpan } from '../setup/trace-collector.ts';

const app = await startApp();

const toCollector = (url: string, more: Record<string, string> = {}) => ({
  OTEL_EXPORTER_OTLP_ENDPOINT: url,
  OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
  ...more,
});

const work = (environment: Record<string, string>) =>
  startServerProcess(app.url, environment, ['src/cli.ts', 'work', '--json']);

/** Sends a POST to a server process with a customer's key. */
const call = (
  { url }: ServerProcess,
  { key }: TestCustomer,
  path: string,
  body: object,
  headers?: Record<string, string>,
) => sendTo({ url, key }, 'POST', path, body, headers);

/** A customer that may verify e-mail addresses. */
async function payingCustomer(): Promise<TestCustomer> {
  const customer = await app.customer();
  await grant(app.fastify, customer.id, 'verification', 100);
  return customer;
}

const verify = (server: ServerProcess, customer: TestCustomer, headers?: Record<string, string>) =>
  call(server, customer, '/service-handler/verify-email', { emails: [{ email: 'no address' }] }, headers);

const untilCompleted = (customer: TestCustomer, id: string) =>
  vi.waitFor(
    async () => expect((await customer.get(`/service-handler/${id}`)).body).toMatchObject({ status: 'COMPLETED' }),
    { timeout: 100_000, interval: 50 },
  );

const traceId = '0af7651916cd43dd8448eb211c80319c';
const callerSpan = 'b7ad6b7169203331';
const caller = { traceparent: `00-${traceId}-${callerSpan}-01` };

describe('with a collector', () => {
  test('it gets the spans of requests, statements, searches and jobs, with their parents and links', async () => {
    const collector = await startCollector();
    const server = await startServerProcess(app.url, toCollector(collector.url));
    const customer = await payingCustomer();
    const untraced = await customer.post('/service-handler/verify-email', { emails: [{ email: 'no address' }] });
    const worker = await work(toCollector(collector.url, { OTEL_SERVICE_NAME: 'the-worker' }));
    const contact = contactBody({ first_name: 'Zenobia', work_email: 'zenobia@private.example' });
    const statuses = [
      (await call(server, customer, `/contacts?token=secret`, contact, caller)).status,
      (await call(server, customer, '/prospect/list', { filters: { first_name: ['Zenobia'] } })).status,
      (await call(server, customer, '/contacts/list', { filters: { nothing: 'Zenobia' } })).status,
      (await call(server, customer, '/Zenobia', {})).status,
    ];
    const started = await verify(server, customer, caller);
    for (const { body } of [started, untraced]) await untilCompleted(customer, body.id);
    expect(await Promise.all([server.stop(), worker.stop()])).toEqual([0, 0]);

    expect([...statuses, started.status]).toEqual([201, 201, 400, 404, 200]);
    const { spans } = collector;
    const one = (name: string): CollectedSpan => {
      const found = spans.filter((span) => span.name === name);
      expect(found, `spans with the name ${name}`).toHaveLength(1);
      return found[0]!;
    };
    const parts = (span: CollectedSpan) => spans.filter(({ parentSpanId }) => parentSpanId === span.spanId);

    const create = one('POST /api/ext/contacts');
    expect(create).toMatchObject({ traceId, parentSpanId: callerSpan, kind: 2 });
    expect(create.attributes).toMatchObject({
      'http.request.method': 'POST',
      'http.route': '/api/ext/contacts',
      'http.response.status_code': 201,
      'sales_data.customer': customer.id,
    });
    expect(create.resource).toMatchObject({ 'service.name': 'sales-data-api', 'service.version': packageJson.version });
    expect(parts(create).map(({ name }) => name)).toEqual(
      expect.arrayContaining(['SELECT api_keys', 'BEGIN', 'INSERT contacts', 'COMMIT']),
    );
    const insert = parts(create).find(({ name }) => name === 'INSERT contacts')!;
    expect(insert).toMatchObject({ traceId, kind: 3 });
    expect(insert.attributes).toEqual({
      'db.system.name': 'postgresql',
      'db.query.summary': 'INSERT contacts',
      // On a distributed database, followed by the node's address.
      'sales_data.lane': expect.stringMatching(/^transaction(:.+)?$/),
    });

    const search = one('catalog search');
    expect(search.parentSpanId).toBe(one('POST /api/ext/prospect/list').spanId);
    expect(search.attributes).toEqual({ 'db.system.name': 'postgresql', 'db.operation.name': 'search' });
    expect(parts(search).map(({ name }) => name)).toEqual(['SELECT prospects']);
    expect(one('POST').attributes).toMatchObject({ 'http.response.status_code': 404 });

    const request = one('POST /api/ext/service-handler/verify-email');
    const jobOf = ({ body }: { body: { id: string } }) =>
      spans.find(({ attributes }) => attributes['sales_data.job_id'] === body.id)!;
    const job = jobOf(started);
    const turn = spans.find(({ spanId }) => spanId === job.parentSpanId)!;
    expect(jobOf(untraced), 'started without tracing').toMatchObject({ name: 'job verify_email', links: [] });
    expect(job).toMatchObject({ name: 'job verify_email' });
    expect(job.resource).toMatchObject({ 'service.name': 'the-worker' });
    expect(turn).toMatchObject({ name: 'work verify', kind: 5 });
    for (const { links } of [job, turn]) expect(links).toMatchObject([{ traceId, spanId: request.spanId }]);
    expect(turn.traceId).not.toBe(traceId);
    expect(turn.parentSpanId ?? '').toBe('');
    expect(parts(job).map(({ name }) => name)).toEqual(expect.arrayContaining(['UPDATE jobs', 'COMMIT']));

    for (const secret of ['Zenobia', 'zenobia@', 'secret', customer.key.slice(4, 40), 'no address'])
      expect(Buffer.concat(collector.bodies).toString(), secret).not.toContain(secret);
  });

  test('a failed statement and a failed request have the code of their error, not its message', async () => {
    const collector = await startCollector();
    const server = await startServerProcess(app.url, toCollector(collector.url, { STATEMENT_TIMEOUT_MS: '100' }));
    const customer = await app.customer();
    await app.owner.begin(async (sql) => {
      await sql`lock table contacts`;
      expect((await call(server, customer, '/contacts', contactBody())).status).toBe(503);
    });
    expect(await server.stop()).toBe(0);
    const failed = collector.spans.filter(({ status }) => status.code === 2);
    expect(failed.map(({ name }) => name)).toEqual(
      expect.arrayContaining(['INSERT contacts', 'POST /api/ext/contacts']),
    );
    for (const span of failed) {
      expect(span.status.message).toBeUndefined();
      expect(span.events).toEqual([]);
      expect(span.attributes['error.type']).toMatch(/^(503|57014|55P03|\w+)$/);
    }
  });

  test('by default it gets protobuf, with the configured headers, and never the text of a header tracestate', async () => {
    const collector = await startCollector();
    const server = await startServerProcess(app.url, {
      OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `${collector.url}/some/path`,
      OTEL_EXPORTER_OTLP_HEADERS: 'x-tenant=a%20b',
    });
    await call(server, await app.customer(), '/contacts/list', {}, { ...caller, tracestate: 'vendor=hunter2' });
    expect(await server.stop()).toBe(0);
    expect(collector.requests[0]).toMatchObject({
      url: '/some/path',
      headers: { 'content-type': 'application/x-protobuf', 'x-tenant': 'a b' },
    });
    const sent = Buffer.concat(collector.bodies).toString('latin1');
    expect(sent).toContain('POST /api/ext/contacts/list');
    expect(sent).not.toContain('hunter2');
  });
});

test('a collector that never answers delays neither requests nor the end', async () => {
  const { url } = await startCollector(() => undefined);
  const server = await startServerProcess(app.url, toCollector(url, { OTEL_BSP_SCHEDULE_DELAY: '50' }));
  const customer = await app.customer();
  for (let i = 0; i < 20; i += 1) expect((await call(server, customer, '/contacts/list', {})).status).toBe(200);
  const stoppedAt = performance.now();
  expect(await server.stop()).toBe(0);
  expect(performance.now() - stoppedAt).toBeLessThan(15_000);
});

const faults: [fault: string, url: () => Promise<string>, reason: string][] = [
  ['is down', async () => 'http://127.0.0.1:1', 'ECONNREFUSED'],
  [
    'rejects everything',
    async () => (await startCollector((response) => response.writeHead(413, 'hunter2').end())).url,
    'HTTP status 413',
  ],
];

test.each(faults)('the log says why spans are lost if the collector %s', async (_fault, url, reason) => {
  vi.stubEnv('OTEL_BSP_SCHEDULE_DELAY', '1');
  vi.stubEnv('OTEL_EXPORTER_OTLP_TIMEOUT', '500'); // so that nothing is tried again
  onTestFinished(() => void vi.unstubAllEnvs());
  const lines: Record<string, unknown>[] = [];
  const log = pino({ level: 'warn' }, { write: (line) => void lines.push(JSON.parse(line) as (typeof lines)[0]) });
  const tracing = await openTracing(parseConfig(toCollector(await url())), log);
  await tracing.inSpan({ name: 'work' }, async () => undefined);
  await expect.poll(() => lines, { timeout: 20_000 }).toHaveLength(1);
  await tracing.stop();
  expect(lines[0]).toMatchObject({ msg: 'the collector does not accept traces; spans are lost', reason });
});
