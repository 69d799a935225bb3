import type { FastifyBaseLogger } from 'fastify';
import postgres from 'postgres';
import { runAfterCommit } from '../after-commit.ts';
import type { Config } from '../config.ts';
import type { Gate } from '../limits/gate.ts';
import { CallerHungUp, serviceItself, type Requester } from '../requester.ts';
import { isTracing, watchStatements } from '../tracing/tracing.ts';
import { CustomerNodes } from './customer-nodes.ts';
import { DistributedLanes } from './distributed-lanes.ts';
import { ExclusiveLane, SharedLane } from './lanes.ts';
import type { Probe } from './node-monitor.ts';
import { Outages } from './outages.ts';
import { scramPassword } from './scram-password.ts';
import { registerArrays, wireTypes, type WireTypes } from './wire-types.ts';

/**
 * An instance of the PostgreSQL driver, with one or more connections. Queries return timestamps as ISO strings and
 * decimals as numbers, like the JSON of the API.
 */
export type Sql = postgres.Sql<WireTypes>;

/** An open database transaction. Queries that are part of the transaction must use this object. */
export type Transaction = postgres.TransactionSql<WireTypes>;

/**
 * Access to the database. Look-ups, searches and transactions use separate connections, so that slow searches do not
 * delay other work. A temporary failure (such as a timeout, a deadlock or a lost connection) throws the DomainError
 * `unavailable`.
 */
export interface Database {
  /** Runs short queries whose SQL text is constant. The queries use prepared statements on a few shared connections. */
  lookup<T>(work: (sql: Sql) => Promise<T>): Promise<T>;
  /**
   * Runs queries whose SQL text or cost depends on the request, such as searches. Each call has its own connection.
   * PostgreSQL plans each query for its actual parameter values.
   */
  search<T>(work: (sql: Sql) => Promise<T>): Promise<T>;
  /** Runs `work` in a transaction. Rolls the transaction back if `work` throws. */
  transaction<T>(work: (sql: Transaction) => Promise<T>): Promise<T>;
}

/**
 * The database connections of the whole process. The methods of `Database` run the service's own work. For the work of
 * a customer, use the object that `for` returns.
 */
export interface SharedDatabase extends Database {
  /**
   * Returns the database access for the work of one customer. If the abort signal of `requester` fires, a running call
   * rejects, and its search or transaction is cancelled. Exception: if the caller has only closed the HTTP connection,
   * a transaction continues.
   */
  for(requester: Requester): Database;
  /**
   * Runs queries that read API keys and sessions to authenticate callers. The queries use separate connections, so that
   * the work of customers cannot delay them.
   */
  credentials<T>(work: (sql: Sql) => Promise<T>): Promise<T>;
  /** For each group of connections, the `Gate` that limits the number of concurrent operations. Used for metrics. */
  readonly gates: readonly Gate[];
  /** For each node of a distributed database, whether it responds. Empty for a database on one server. */
  readonly nodes: readonly { node: string; isUp: boolean }[];
  /** True if the last transaction failed because the disk of the database is full. */
  readonly isDiskFull: boolean;
  /**
   * Starts to log outages of the database: one line when the database becomes unavailable, and one line when it is
   * available again.
   */
  logOutages(log: FastifyBaseLogger): void;
  /** Rejects new calls, waits until the running calls have ended, and closes all connections. */
  close(): Promise<void>;
}

/**
 * The host, port and database name in a database URL. If the URL contains several hosts, `host` and `port` are
 * comma-separated lists.
 */
export interface DatabaseAddress {
  host: string;
  port: string;
  name: string;
}

/**
 * Returns the host, port and database name in a database URL, without the user and the password. The URL may contain
 * several hosts.
 */
export function addressOf(url: string): DatabaseAddress {
  const { host, port, database } = postgres(url).options;
  return { host: host.join(), port: port.join(), name: database };
}

/**
 * The PostgreSQL role that runs all statements of the service, independent of the user in the database URL. Migration
 * 0001 creates this role.
 */
const serviceRole = 'sales_data_api';

/** Maximum time to open a database connection (seconds). */
const connectTimeout = 5;
/**
 * Time that is added to the statement timeout (seconds). If the server has not responded after the statement timeout
 * plus this time, the connection is closed as lost.
 */
const silenceMargin = 2;
/**
 * Maximum number of queries that are sent at the same time on one shared connection. The server executes them one after
 * another.
 */
const pipelineDepth = 64;
/**
 * Interval at which the PostgreSQL server checks that the client of a running statement is still connected. If the
 * client is gone, the server cancels the statement.
 */
const clientCheckInterval = '250ms';

/** The connections to one server: separate groups for look-ups, searches and transactions. */
class Lanes {
  readonly lookup: SharedLane<Sql>;
  readonly search: ExclusiveLane<Sql>;
  readonly transaction: ExclusiveLane<Sql>;
  readonly all: readonly (SharedLane<Sql> | ExclusiveLane<Sql>)[];

  constructor(lookup: SharedLane<Sql>, search: ExclusiveLane<Sql>, transaction: ExclusiveLane<Sql>) {
    this.lookup = lookup;
    this.search = search;
    this.transaction = transaction;
    this.all = [lookup, search, transaction];
  }

  /** Waits for running operations, then closes all connections. */
  close(): Promise<unknown> {
    return Promise.all(this.all.map((lane) => lane.close()));
  }

  /** Closes all connections at once, so that running operations fail. */
  abandon(): void {
    for (const lane of this.all) lane.abandon();
  }
}

/**
 * Creates the database access of this process. Connections are opened at their first use.
 * @param distributed True if the tables of the database are distributed over several machines with Citus.
 */
export function openDatabase(config: Config, url: string, { distributed = false } = {}): SharedDatabase {
  const { plannedOnce, plannedAnew } = distributed ? plansOfCitus : plansOfPostgres;
  const limits = { maxWaiting: config.DATABASE_QUEUE_LENGTH, maxWaitMs: config.DATABASE_QUEUE_MS };
  const connectAll = (options: LaneOptions) =>
    connect(config, url, { ...options, onclose: () => (options.onclose?.(), outages.suspect()) });
  const pipelined = (name: string, sql: Sql) =>
    new SharedLane(sql, { name, limit: sql.options.max * pipelineDepth, ...limits });
  const exclusive = (name: string, limit: number, options: Omit<LaneOptions, 'max'>) =>
    new ExclusiveLane((onclose) => connectAll({ max: 1, onclose, ...options }), { name, limit, ...limits });
  const open = (suffix: string, lookups: Sql) =>
    new Lanes(
      pipelined(`lookup${suffix}`, lookups),
      exclusive(`search${suffix}`, config.DATABASE_SEARCH_CONNECTIONS, plannedAnew),
      exclusive(`transaction${suffix}`, config.DATABASE_TRANSACTION_CONNECTIONS, plannedOnce),
    );
  const connectLookups = () => connectAll({ max: config.DATABASE_LOOKUP_CONNECTIONS, ...plannedOnce });
  const lookups = connectLookups();
  // Not through the gate of the lane, which refuses work when it is full.
  const outages = new Outages(() => lookups`select 1`);
  const server = open('', lookups);
  const credentials = pipelined(
    'credentials',
    connectAll({ max: config.DATABASE_CREDENTIAL_CONNECTIONS, ...plannedOnce }),
  );
  const nodes = distributed ? openNodes() : undefined;
  function openNodes(): DistributedLanes<Lanes> {
    const customers = new CustomerNodes((work) => server.lookup.runAlone(work));
    return new DistributedLanes(server, {
      customers,
      open: (suffix) => open(suffix, connectLookups()),
      openProbe: (node) => probe(connect(config, url, { max: 1, ...plannedOnce }), () => customers.sampleOn(node)),
      silenceMs: config.DATABASE_NODE_SILENCE_MS,
    });
  }
  const run = <T>({ customerId }: Requester, work: (lanes: Lanes) => Promise<T>): Promise<T> =>
    nodes ? nodes.run(customerId, work) : work(server);
  const lanes = () => [credentials, ...(nodes?.sets ?? [server]).flatMap(({ all }) => all)];
  let isDiskFull = false;
  /** Runs a transaction. Updates `isDiskFull`, which is true if the disk of the database is full. */
  const writeToDisk = async <T>(sql: Sql, work: (sql: Transaction) => Promise<T>): Promise<T> => {
    let hasWritten = false;
    // Asked only while the disk is full, because it costs a round trip. Reading proves nothing about the disk.
    const noting = async (transaction: Transaction) => {
      const result = await work(transaction);
      hasWritten = await hasChanges(transaction);
      return result;
    };
    try {
      const result = await commit(sql, isDiskFull ? noting : work);
      if (hasWritten) isDiskFull = false;
      return result;
    } catch (error) {
      if (isDiskFullError(error)) isDiskFull = true;
      throw error;
    }
  };
  const use = (requester: Requester): Database => ({
    lookup: (work) => run(requester, ({ lookup }) => lookup.run(requester, work)),
    search: (work) => run(requester, ({ search }) => search.run(requester, work)),
    transaction: <T>(work: (sql: Transaction) => Promise<T>) =>
      run(requester, ({ transaction }) => transaction.run(requester, (sql) => writeToDisk(sql, work), isTimeUp)),
  });
  return {
    ...use({ customerId: serviceItself }),
    for: use,
    credentials: (work) => credentials.runAlone(work),
    get nodes() {
      return nodes?.states ?? [];
    },
    get isDiskFull() {
      return isDiskFull;
    },
    get gates() {
      return lanes().map(({ gate }) => gate);
    },
    logOutages: (log) => {
      outages.logTo(log);
      nodes?.logTo(log);
    },
    close: async () => {
      outages.close();
      await Promise.all([credentials.close(), (nodes ?? server).close()]);
    },
  };
}

/**
 * Creates the test query for a node of a distributed database.
 * @param sql a connection of its own, because the query may wait for a long time
 * @param sample returns a customer id whose rows are on the node, or undefined if the node has none
 */
function probe(sql: Sql, sample: () => string | undefined): Probe {
  return {
    send: async () => {
      const id = sample();
      if (id !== undefined) await sql`select from contacts where customer_id = ${id}::uuid limit 1`;
    },
    close: () => void sql.end({ timeout: 0 }),
  };
}

/**
 * Returns true if a transaction has written data. PostgreSQL assigns an id to a transaction only at its first write.
 */
async function hasChanges(sql: Transaction): Promise<boolean> {
  const [row] = await sql<[{ changed: boolean }]>`select pg_current_xact_id_if_assigned() is not null as changed`;
  return row.changed;
}

/** Returns true if an error means that the disk of the database is full (SQLSTATE 53100). */
const isDiskFullError = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && error.code === '53100';

/** Runs `work` in a transaction. After the commit, calls the functions that `work` registered with `afterCommit`. */
async function commit<T>(sql: Sql, work: (sql: Transaction) => Promise<T>): Promise<T> {
  let opened: Transaction | undefined;
  const result = await sql.begin((transaction) => work((opened = transaction)));
  runAfterCommit(opened!);
  return result as T;
}

/**
 * Returns true if an abort must cancel the running transaction. Returns false if the caller has closed the HTTP
 * connection: in this case the transaction continues.
 * @param reason The reason of the abort signal.
 */
const isTimeUp = (reason: unknown): boolean => !(reason instanceof CallerHungUp);

/**
 * The options for the connections of a lane (a group of database connections). The option `describe_first` exists only
 * in our patched version of the database driver.
 */
interface LaneOptions {
  max: number;
  /** Settings of PostgreSQL's query planner, by name. */
  planner: Record<string, string>;
  prepare?: boolean;
  describe_first?: boolean;
  /** Called when a connection has closed. */
  onclose?: () => void;
}

// Statistics can be out of date. For a customer added after the last `analyze`, the planner expects at most one row and
// may choose a plan that scans a whole table for each look-up, even for foreign key checks. No statement with these
// settings needs a full scan.
/**
 * Settings of PostgreSQL's query planner for prepared statements: one plan is used for all parameter values, without
 * sequential scans.
 */
const plannedOnce = { planner: { plan_cache_mode: 'force_generic_plan', enable_seqscan: 'off' } };

/**
 * Settings of PostgreSQL's query planner for searches: each query is planned for its actual parameter values and runs
 * without parallel workers.
 */
const plannedAnew = {
  // With less `work_mem`, an index scan of a million records reads whole table pages instead of single rows.
  planner: { plan_cache_mode: 'force_custom_plan', max_parallel_workers_per_gather: '0', work_mem: '32MB' },
  prepare: false,
  describe_first: false,
};

const plansOfPostgres = { plannedOnce, plannedAnew };

/**
 * Name of a connection setting that exists only in a database distributed with Citus. Its value is the
 * `plan_cache_mode` for statements whose plan must not depend on the customer.
 */
export const anyCustomerSetting = 'sales_data_api.plan_for_any_customer';

// A statement of one customer goes to the worker that has this customer's rows. Citus cannot choose the worker in a plan
// for all parameter values, and then refuses to plan most statements. The workers plan each statement anew.
/**
 * Settings of PostgreSQL's query planner in a database that is distributed with Citus. PostgreSQL and Citus decide when
 * a plan is reused.
 */
const plansOfCitus = {
  plannedOnce: { planner: { plan_cache_mode: 'auto', enable_seqscan: 'off', [anyCustomerSetting]: 'auto' } },
  plannedAnew: { ...plannedAnew, planner: { ...plannedAnew.planner, [anyCustomerSetting]: 'force_custom_plan' } },
};

/**
 * Options of the database driver, including options that are missing in its type declarations. `silence_timeout` and
 * `saslprep` exist only in our patched version of the driver.
 */
type Options = postgres.Options<typeof wireTypes> &
  Omit<LaneOptions, 'planner'> & { silence_timeout: number; saslprep: typeof scramPassword };

function connect(config: Config, url: string, { planner, ...lane }: LaneOptions): Sql {
  const options: Options = {
    ...lane,
    types: wireTypes,
    fetch_types: false,
    connect_timeout: connectTimeout,
    saslprep: scramPassword,
    silence_timeout: config.STATEMENT_TIMEOUT_MS / 1000 + silenceMargin,
    backoff: reconnectDelay,
    max_lifetime: 60 * (20 + Math.random() * 20),
    onnotice: () => {},
    connection: {
      application_name: 'sales-data-api',
      role: serviceRole,
      TimeZone: 'UTC',
      statement_timeout: config.STATEMENT_TIMEOUT_MS,
      lock_timeout: config.STATEMENT_TIMEOUT_MS,
      idle_in_transaction_session_timeout: config.STATEMENT_TIMEOUT_MS,
      client_connection_check_interval: clientCheckInterval,
      ...planner,
      jit: 'off', // compiling takes longer than such statements run; the driver does not send `false`
    },
  };
  const sql = postgres(url, options) as unknown as Sql;
  if (!('describe_first' in sql.options)) throw new Error('The PostgreSQL driver lacks its patch: run `npm ci` again');
  registerArrays(sql);
  if (isTracing()) watchStatements(sql``.constructor);
  return sql;
}

/**
 * Returns the delay before the next connection attempt (seconds).
 * @param failures The number of failed attempts.
 */
const reconnectDelay = (failures: number): number => (failures < 2 ? 0 : 0.25);
