import postgres from 'postgres';
import { runAfterCommit } from '../after-commit.ts';
import type { Config } from '../config.ts';
import type { Gate } from '../limits/gate.ts';
import { CallerHungUp, serviceItself, type Requester } from '../requester.ts';
import { ExclusiveLane, SharedLane } from './lanes.ts';
import { registerArrays, wireTypes, type WireTypes } from './wire-types.ts';

/**
 * A database connection or pool. Its rows have the types of the API's JSON: timestamps are ISO strings, and decimals
 * are numbers.
 */
export type Sql = postgres.Sql<WireTypes>;

/** The connection of an open transaction. */
export type Transaction = postgres.TransactionSql<WireTypes>;

/**
 * The database, in three groups of connections: for look-ups, searches and transactions. Each group has its own limits,
 * so slow work in one does not block the others. Customers share the connections fairly. Every failure of the
 * connection or the server (a timeout, a deadlock, a lost connection, no free connection) becomes a DomainError
 * `unavailable` within a bounded time.
 */
export interface Database {
  /** Runs short reads of a fixed shape. They share a few connections and use prepared statements. */
  lookup<T>(work: (sql: Sql) => Promise<T>): Promise<T>;
  /**
   * Runs reads whose shape and cost depend on the caller, such as searches. Each one has its own connection, and
   * PostgreSQL plans it for its actual values.
   */
  search<T>(work: (sql: Sql) => Promise<T>): Promise<T>;
  /** Runs `work` in a transaction on one connection. Rolls back when `work` rejects. */
  transaction<T>(work: (sql: Transaction) => Promise<T>): Promise<T>;
}

/**
 * The database for all customers. Its own methods run work of the service itself; use `for` to work for one customer.
 */
export interface SharedDatabase extends Database {
  /**
   * Returns the database for one requester (a customer, with an abort signal). When the signal aborts, the pending call
   * rejects at once. Its search or transaction is cancelled on the server. Exception: if the caller hung up, a
   * transaction continues until it commits or the requester's time is up.
   */
  for(requester: Requester): Database;
  /** Reads the records that authenticate callers. It has its own connections, so customers' work cannot delay it. */
  credentials<T>(work: (sql: Sql) => Promise<T>): Promise<T>;
  /** The limiter of each connection group. Metrics show their state. */
  readonly gates: readonly Gate[];
  /** Whether the last transaction failed because the disk of the database is full. */
  readonly isDiskFull: boolean;
  /** Rejects new work, waits for running work, then closes all connections. */
  close(): Promise<void>;
}

/** The PostgreSQL role with which the service runs its statements, whatever user logs in (see migration 0001). */
const serviceRole = 'sales_data_api';

/** Timeout for opening a database connection, up to its first statement (seconds). */
const connectTimeout = 5;
/** A connection counts as lost if an answer takes longer than the statement timeout plus this margin (seconds). */
const silenceMargin = 2;
/** Maximum number of queries in flight on one shared connection. */
const pipelineDepth = 64;
/**
 * How often the PostgreSQL server checks whether the client of a running statement is still connected. If not, the
 * server ends the statement.
 */
const clientCheckInterval = '250ms';

/** Opens the service's database. Connections are opened when they are first used. */
export function openDatabase(config: Config, url: string): SharedDatabase {
  const limits = { maxWaiting: config.DATABASE_QUEUE_LENGTH, maxWaitMs: config.DATABASE_QUEUE_MS };
  const pipelined = (name: string, max: number) =>
    new SharedLane(connect(config, url, { max, ...plannedOnce }), { name, limit: max * pipelineDepth, ...limits });
  const exclusive = (name: string, limit: number, options: Omit<LaneOptions, 'max'>) =>
    new ExclusiveLane((onclose) => connect(config, url, { max: 1, onclose, ...options }), { name, limit, ...limits });
  const credentials = pipelined('credentials', config.DATABASE_CREDENTIAL_CONNECTIONS);
  const lookup = pipelined('lookup', config.DATABASE_LOOKUP_CONNECTIONS);
  const search = exclusive('search', config.DATABASE_SEARCH_CONNECTIONS, plannedAnew);
  const transaction = exclusive('transaction', config.DATABASE_TRANSACTION_CONNECTIONS, plannedOnce);
  const lanes = [credentials, lookup, search, transaction];
  let isDiskFull = false;
  /** Runs a transaction, and remembers whether the last one that wrote failed because the database's disk is full. */
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
    lookup: (work) => lookup.run(requester, work),
    search: (work) => search.run(requester, work),
    transaction: <T>(work: (sql: Transaction) => Promise<T>) =>
      transaction.run(requester, (sql) => writeToDisk(sql, work), isTimeUp),
  });
  return {
    ...use({ customerId: serviceItself }),
    for: use,
    credentials: (work) => credentials.runAlone(work),
    get isDiskFull() {
      return isDiskFull;
    },
    gates: lanes.map(({ gate }) => gate),
    close: async () => void (await Promise.all(lanes.map((lane) => lane.close()))),
  };
}

/** Returns whether a transaction has written anything: PostgreSQL gives a transaction its id at the first write. */
async function hasChanges(sql: Transaction): Promise<boolean> {
  const [row] = await sql<[{ changed: boolean }]>`select pg_current_xact_id_if_assigned() is not null as changed`;
  return row.changed;
}

/** Returns whether an error means that the disk of the database is full (SQLSTATE 53100). */
const isDiskFullError = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && error.code === '53100';

/** Runs `work` in a transaction. After the commit, runs the actions that `work` registered with `afterCommit`. */
async function commit<T>(sql: Sql, work: (sql: Transaction) => Promise<T>): Promise<T> {
  let opened: Transaction | undefined;
  const result = await sql.begin((transaction) => work((opened = transaction)));
  runAfterCommit(opened!);
  return result as T;
}

/**
 * Returns whether an aborted request cancels its transaction. Returns false if the caller hung up: the caller may still
 * want the write that it sent.
 */
const isTimeUp = (reason: unknown): boolean => !(reason instanceof CallerHungUp);

/**
 * Connection options that differ between the groups of connections. `describe_first` comes with our patch of the
 * driver.
 */
interface LaneOptions {
  max: number;
  /** Settings for PostgreSQL's query planner, by name. */
  planner: Record<string, string>;
  prepare?: boolean;
  describe_first?: boolean;
  /** Called when a connection was closed, by either side. */
  onclose?: () => void;
}

/**
 * Planner settings for prepared statements: generic plans without sequential scans.
 *
 * Statistics can be out of date. For a customer added after the last `analyze`, the planner expects at most one row and
 * may choose a plan that scans a whole table for each look-up, even for foreign key checks. No statement with these
 * settings needs a full scan.
 */
const plannedOnce = { planner: { plan_cache_mode: 'force_generic_plan', enable_seqscan: 'off' } };

/**
 * Planner settings for searches. PostgreSQL plans each search for its actual values and does not keep the plan.
 * Parallel workers are off, so that one search uses one processor.
 */
const plannedAnew = {
  planner: { plan_cache_mode: 'force_custom_plan', max_parallel_workers_per_gather: '0' },
  prepare: false,
  describe_first: false,
};

/**
 * Driver options that are missing in the driver's type declarations. `silence_timeout` comes with our patch of the
 * driver.
 */
type Options = postgres.Options<typeof wireTypes> & Omit<LaneOptions, 'planner'> & { silence_timeout: number };

function connect(config: Config, url: string, { planner, ...lane }: LaneOptions): Sql {
  const options: Options = {
    ...lane,
    types: wireTypes,
    fetch_types: false,
    connect_timeout: connectTimeout,
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
  return sql;
}

/**
 * Returns the delay before the next connection attempt, in seconds: 0 after the first failure, then 0.25. So the
 * service reconnects soon after the server is back.
 */
const reconnectDelay = (failures: number): number => (failures < 2 ? 0 : 0.25);
