import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { plugin } from './plugin.ts';
import { Gauge, Registry } from '@prometheus-io/client';
import { checkSchema } from '../database/migrations.ts';
import { readJobHealth, readBacklog, type Backlog } from '../queries/jobs/runs.ts';
import type { Database } from '../database/db.ts';
import type { Readiness } from '../schemas/health.ts';
import { processMetrics, measureProcess, requestDuration } from '../process/metrics.ts';
import { readWebhookBacklog, type WebhookBacklog } from '../queries/accounts/webhook-endpoints.ts';
import { allCustomers } from '../access/credentials.ts';

interface State {
  isReady: boolean;
  checks: Readiness['checks'];
}

declare module 'fastify' {
  interface FastifyInstance {
    readiness(): Promise<State>;
  }
}

const checkMs = 250;

export const readiness = plugin({ name: 'readiness', dependencies: ['services', 'rate-limits'] }, async (app) => {
  let shared: Promise<State> | undefined;
  app.decorate('readiness', () => {
    shared ??= check(app).finally(() => {
      setTimeout(() => (shared = undefined), checkMs).unref();
    });
    return shared;
  });
});

async function check({ db, catalog, rateLimits, config }: FastifyInstance): Promise<State> {
  const [schema, jobs, isCatalogUp, areLimitsUp] = await Promise.all([
    db.health(checkSchema).catch(() => undefined),
    db.health(readJobHealth).catch(() => ({ has_workers: true, has_names: true })),
    catalog.isUp(),
    rateLimits.isUp(),
  ]);
  return {
    isReady: schema?.isSupported === true,
    checks: {
      postgres: schema ? 'up' : 'down',
      schema: schema?.state ?? 'unknown',
      catalog: upOrDegraded(isCatalogUp),
      rate_limits: upOrDegraded(areLimitsUp),
      workers: upOrDegraded(jobs.has_workers),
      verification: upOrDegraded(jobs.has_names),
      webhooks: upOrDegraded(config.WEBHOOK_SECRET_KEY !== undefined),
      storage: upOrDegraded(!db.isDiskFull),
    },
  };
}

const upOrDegraded = (isUp: boolean) => (isUp ? 'up' : 'degraded');

type Observed = Pick<FastifyInstance, 'db' | 'catalog' | 'readiness'>;

// `/metrics` needs no authentication, so each call must be cheap.
const databaseMetricsMaxAgeMs = 5_000;

export function serviceMetrics(observed: Observed) {
  const state = new Registry();
  const backlog = new RecentBacklog(observed.db);
  let last: State | undefined;
  addChecks(state, () => last);
  addGates(state, observed);
  addBacklog(state, backlog);
  addWebhooks(state, backlog);
  // With the PostgreSQL engine there is no index that could lag behind.
  if (observed.catalog.engine === 'elasticsearch') addUnindexed(state, backlog);
  const all = Registry.merge([processMetrics, state]);
  return {
    contentType: all.contentType,
    /**
     * Returns all metrics in the Prometheus text format. If the database does not respond, the metrics from the
     * database are missing.
     */
    read: async (): Promise<string> => {
      [last] = await Promise.all([observed.readiness(), backlog.refresh()]);
      return all.metrics();
    },
  };
}

type Value = [labels: Record<string, string>, value: number];

function addGauge(state: Registry, name: string, help: string, labelNames: string[], read: () => Value[]): void {
  const gauge = new Gauge({
    name,
    help,
    labelNames,
    registers: [],
    collect: () => {
      gauge.reset();
      for (const [labels, value] of read()) gauge.set(labels, value);
    },
  });
  state.registerMetric(gauge);
}

function addChecks(state: Registry, read: () => State | undefined): void {
  const help = '1 if this part of what `/readyz` checks is as it should be, else 0.';
  addGauge(state, 'sales_data_check_up', help, ['check'], () => {
    const { isReady = false, checks = {} as Partial<State['checks']> } = read() ?? {};
    // A schema that is ahead is good while a release is rolled out, if this release may run on it.
    const isGood = (check: string, is: string) => (check === 'schema' ? isReady : is === 'up');
    return Object.entries(checks).map(([check, is]): Value => [{ check }, isGood(check, is) ? 1 : 0]);
  });
}

function addGates(state: Registry, { db, catalog }: Observed): void {
  const add = (name: string, help: string, of: 'inside' | 'waiting' | 'limit') =>
    addGauge(state, name, help, ['gate'], () =>
      [...db.limiters, ...catalog.limiters].map((limiter): Value => [{ gate: limiter.name }, limiter[of]]),
    );
  add('sales_data_gate_in_use', 'Slots of a gate in use.', 'inside');
  add('sales_data_gate_waiting', 'Operations waiting for a slot of a gate.', 'waiting');
  add('sales_data_gate_slots', 'Total slots of a gate.', 'limit');
}

function addBacklog(state: Registry, backlog: RecentBacklog): void {
  addGauge(state, 'sales_data_database_up', '1 if the database responded to the query for these metrics.', [], () => [
    [{}, backlog.last ? 1 : 0],
  ]);
  const jobs = () => backlog.last?.jobs ?? [];
  addGauge(
    state,
    'sales_data_jobs_unfinished',
    'Jobs that have not ended, by type and status, in the whole database: the same in every process.',
    ['type', 'status'],
    () => jobs().map((of): Value => [{ type: of.type, status: of.status }, of.jobs]),
  );
  addGauge(
    state,
    'sales_data_jobs_oldest_pending_seconds',
    'Age of the oldest job that no worker has started, by type, in the whole database.',
    ['type'],
    () =>
      jobs()
        .filter(({ status }) => status === 'PENDING')
        .map(({ type, oldest_seconds }): Value => [{ type }, oldest_seconds]),
  );
}

function addWebhooks(state: Registry, backlog: RecentBacklog): void {
  const add = (name: string, help: string, of: 'waiting' | 'oldest_seconds') =>
    addGauge(state, name, `${help}, by whether their last delivery failed, in the whole database.`, ['standing'], () =>
      backlog.webhooks.map((one): Value => [{ standing: one.standing }, one[of]]),
    );
  add('sales_data_webhook_events_waiting', 'Events that active endpoints of webhooks have not got yet', 'waiting');
  add(
    'sales_data_webhook_oldest_seconds',
    'Age of the oldest event that active endpoints have not got yet',
    'oldest_seconds',
  );
}

function addUnindexed(state: Registry, backlog: RecentBacklog): void {
  const help = 'Unlocks that are not yet in the search index, in the whole database.';
  addGauge(state, 'sales_data_unlocks_unindexed', help, [], () => (backlog.last ? [[{}, backlog.last.unindexed]] : []));
}

class RecentBacklog {
  readonly #db: Database;
  #readAt = -Infinity;
  #reading: Promise<void> | undefined;
  last: Backlog | undefined;
  webhooks: WebhookBacklog[] = [];

  constructor(db: Observed['db']) {
    this.#db = db.for({ customerId: allCustomers }, null);
  }

  async refresh(): Promise<void> {
    if (performance.now() - this.#readAt < databaseMetricsMaxAgeMs) return;
    this.#reading ??= this.#read().finally(() => (this.#reading = undefined));
    await this.#reading;
  }

  async #read(): Promise<void> {
    [this.last, this.webhooks] = await Promise.all([
      this.#db.search(readBacklog).catch(() => undefined),
      this.#db.search(readWebhookBacklog).catch(() => []),
    ]);
    this.#readAt = performance.now();
  }
}

interface Options {
  isMeasured: boolean;
  isExposed: boolean;
}

const config = { access: { public: true }, isProbe: true } as const;

/**
 * Fastify plugin that measures the duration of every request if `isMeasured` is true, and serves all metrics at
 * `/metrics` if `isExposed` is true.
 */
export const metrics = plugin(
  { name: 'metrics', dependencies: ['services', 'readiness'] },
  async (app, { isMeasured, isExposed }: Options) => {
    measureProcess();
    if (isMeasured) app.addHook('onResponse', measure);
    if (!isExposed) return;
    const metrics = serviceMetrics(app);
    app.get('/metrics', { config, schema: { hide: true } }, async (_request, reply) =>
      reply.type(metrics.contentType).send(await metrics.read()),
    );
  },
);

const methods = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']);

/**
 * Records the duration of a request in a histogram. Unusual HTTP methods are recorded as `_OTHER`, and requests without
 * a route as `unknown`. Callers therefore cannot create an unlimited number of time series.
 */
function measure({ method, routeOptions }: FastifyRequest, reply: FastifyReply, done: () => void): void {
  const { url = 'unknown' } = routeOptions;
  requestDuration
    .labels(methods.has(method) ? method : '_OTHER', url, String(reply.statusCode))
    .observe(reply.elapsedTime / 1000);
  done();
}
