import { Gauge, Registry } from '@prometheus-io/client';
import type { Catalog } from '../catalog/catalog.ts';
import type { Database, SharedDatabase } from '../db.ts';
import { readBacklog, type Backlog } from '../queries/backlog.ts';
import { processMetrics } from '../metrics.ts';
import { serviceItself } from '../requester.ts';

/** What is asked for its state when metrics are read. */
export interface Observed {
  db: Pick<SharedDatabase, 'for' | 'gates'>;
  catalog: Pick<Catalog, 'engine' | 'gates' | 'isRefusing'>;
}

/** For so long (ms) one reading of the database serves all readers: anybody may call `/metrics`, as often as they like. */
const maxAgeMs = 5_000;

/** The metrics of a service as Prometheus reads them: those of the process, and the state of its database and catalog. */
export class ServiceMetrics {
  readonly contentType: string;
  readonly #all: Registry;
  readonly #backlog: RecentBacklog;

  constructor(observed: Observed) {
    const state = new Registry();
    this.#backlog = new RecentBacklog(observed.db);
    addGates(state, observed);
    addCatalog(state, observed);
    addBacklog(state, this.#backlog);
    // With PostgreSQL as the engine there is no index that could lag behind.
    if (observed.catalog.engine === 'elasticsearch') addUnindexed(state, this.#backlog);
    this.#all = Registry.merge([processMetrics, state]);
    this.contentType = this.#all.contentType;
  }

  /** Returns all metrics in the text format of Prometheus. What needs a database that does not answer is left out. */
  async read(): Promise<string> {
    await this.#backlog.refresh();
    return this.#all.metrics();
  }
}

/** A series of a gauge: its labels and its value. */
type Value = [labels: Record<string, string>, value: number];

/** Adds a gauge whose series are read whenever the metrics are. */
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

function addGates(state: Registry, { db, catalog }: Observed): void {
  const add = (name: string, help: string, of: 'inside' | 'waiting' | 'limit') =>
    addGauge(state, name, help, ['gate'], () =>
      [...db.gates, ...catalog.gates].map((gate): Value => [{ gate: gate.name }, gate[of]]),
    );
  add('sales_data_gate_in_use', 'Places of a gate that are in use.', 'inside');
  add('sales_data_gate_waiting', 'Work that waits for a place of a gate.', 'waiting');
  add('sales_data_gate_places', 'Places of a gate.', 'limit');
}

function addCatalog(state: Registry, { catalog }: Observed): void {
  const help = '1 while calls to the search cluster are refused without being sent, because it did not answer.';
  addGauge(state, 'sales_data_catalog_breaker_open', help, [], () => [[{}, catalog.isRefusing ? 1 : 0]]);
}

function addBacklog(state: Registry, backlog: RecentBacklog): void {
  addGauge(
    state,
    'sales_data_database_up',
    '1 if the database answered when it was asked for these metrics.',
    [],
    () => [[{}, backlog.last ? 1 : 0]],
  );
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
    'Age of the oldest job that no worker has begun, by type, in the whole database.',
    ['type'],
    () =>
      jobs()
        .filter(({ status }) => status === 'PENDING')
        .map(({ type, oldest_seconds }): Value => [{ type }, oldest_seconds]),
  );
}

function addUnindexed(state: Registry, backlog: RecentBacklog): void {
  const help = 'Unlocks that the search index does not show yet, in the whole database.';
  addGauge(state, 'sales_data_unlocks_unindexed', help, [], () => (backlog.last ? [[{}, backlog.last.unindexed]] : []));
}

/** The backlog as the database told it last. */
class RecentBacklog {
  readonly #db: Database;
  #readAt = -Infinity;
  #reading: Promise<void> | undefined;
  /** Undefined if the database did not answer. */
  last: Backlog | undefined;

  constructor(db: Observed['db']) {
    this.#db = db.for({ customerId: serviceItself });
  }

  /** Reads the database unless that was done a moment ago. */
  async refresh(): Promise<void> {
    if (performance.now() - this.#readAt < maxAgeMs) return;
    this.#reading ??= this.#read().finally(() => (this.#reading = undefined));
    await this.#reading;
  }

  async #read(): Promise<void> {
    this.last = await this.#db.search(readBacklog).catch(() => undefined);
    this.#readAt = performance.now();
  }
}
