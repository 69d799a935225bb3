import type { FastifyBaseLogger } from 'fastify';
import postgres from 'postgres';
import { runAfterCommit } from '../after-commit.ts';
import type { Config } from '../config.ts';
import type { Gate } from '../limits/gate.ts';
import { CallerHungUp, serviceItself, type Requester } from '../requester.ts';
import { isTracing, watchStatements } from '../tracing/tracing.ts';
import { ExclusiveLane, SharedLane } from './lanes.ts';
import { Outages } from './outages.ts';
import { scramPassword } from './scram-password.ts';
import { registerArrays, wireTypes, type WireTypes } from './wire-types.ts';

/**
 * The PostgreSQL driver with one or more connections. Its queries return timestamps as ISO strings and decimals as
 * numbers, as in the JSON of the API.
 */
export type Sql = postgres.Sql<WireTypes>;

/** An open database transaction. The queries of the transaction must run through it. */
export type Transaction = postgres.TransactionSql<WireTypes>;

/**
 * The database. Look-ups, searches and transactions have separate connections, so that slow searches do not delay other
 * work. A temporary failure (a timeout, a deadlock, a lost connection) is thrown as DomainError `unavailable`.
 */
export interface Database {
  /**
   * Runs short reads whose SQL does not depend on the request. They share a few connections and use prepared
   * statements.
   */
  lookup<T>(work: (sql: Sql) => Promise<T>): Promise<T>;
  /**
   * Runs reads, such as searches, whose SQL and cost depend on the request. Each call has its own connection, and
   * PostgreSQL makes a plan for the actual values of each query.
   */
  search<T>(work: (sql: Sql) => Promise<T>): Promise<T>;
  /** Runs `work` in a transaction. Rolls the transaction back if `work` throws. */
  transaction<T>(work: (sql: Transaction) => Promise<T>): Promise<T>;
}

/**
 * The database for the whole service. Use its own methods for the work of the service itself. For the work of a
 * customer, use the methods that `for` returns.
 */
export interface SharedDatabase extends Database {
  /**
   * Returns the database for the work of one customer. If the signal of `requester` aborts, the running call rejects,
   * and its search or transaction is cancelled. There is one exception: if the caller has only closed the HTTP
   * connection, a transaction continues.
   */
  for(requester: Requester): Database;
  /**
   * Runs reads of API keys and sessions, to authenticate callers. These reads have their own connections, so that the
   * work of customers cannot delay them.
   */
  credentials<T>(work: (sql: Sql) => Promise<T>): Promise<T>;
  /**
   * For each group of connections, the object that limits how many operations use it at the same time. Used by the
   * metrics.
   */
  readonly gates: readonly Gate[];
  /** True if the last transaction failed because the disk of the database is full. */
  readonly isDiskFull: boolean;
  /** Starts to log outages: one line when the database becomes unavailable, and one when it is available again. */
  logOutages(log: FastifyBaseLogger): void;
  /** Rejects new calls, waits until running calls have ended, then closes all connections. */
  close(): Promise<void>;
}

/**
 * The database to which a URL points. If the URL contains several hosts, `host` and `port` are lists, separated by
 * commas.
 */
export interface DatabaseAddress {
  host: string;
  port: string;
  name: string;
}

/**
 * Parses the address of a database from its URL, which may contain several hosts. The result contains no user and no
 * password.
 */
export function addressOf(url: string): DatabaseAddress {
  const { host, port, database } = postgres(url).options;
  return { host: host.join(), port: port.join(), name: database };
}

/**
 * The PostgreSQL role with which the service runs all its statements. It does not depend on the user who logs in.
 * Migration 0001 creates the role.
 */
const serviceRole = 'sales_data_api';

/** Maximum time to open a database connection (seconds). */
const connectTimeout = 5;
/**
 * Seconds that are added to the statement timeout. If the server has not answered by then, the connection counts as
 * lost.
 */
const silenceMargin = 2;
/**
 * Maximum number of queries that can run at the same time on one shared connection. The server executes them one after
 * the other.
 */
const pipelineDepth = 64;
/**
 * How often the PostgreSQL server checks whether the client of a running statement is still connected. The server ends
 * the statement of a lost client.
 */
const clientCheckInterval = '250ms';

/** Opens the service's database. Connections are opened when they are first used. */
export function openDatabase(config: Config, url: string): SharedDatabase {
  const limits = { maxWaiting: config.DATABASE_QUEUE_LENGTH, maxWaitMs: config.DATABASE_QUEUE_MS };
  const connectAll = (options: LaneOptions) =>
    connect(config, url, { ...options, onclose: () => (options.onclose?.(), outages.suspect()) });
  const pipelined = (name: string, sql: Sql) =>
    new SharedLane(sql, { name, limit: sql.options.max * pipelineDepth, ...limits });
  const exclusive = (name: string, limit: number, options: Omit<LaneOptions, 'max'>) =>
    new ExclusiveLane((onclose) => connectAll({ max: 1, onclose, ...options }), { name, limit, ...limits });
  const lookups = connectAll({ max: config.DATABASE_LOOKUP_CONNECTIONS, ...plannedOnce });
  // Not through the gate of the lane, which refuses work when it is full.
  const outages = new Outages(() => lookups`select 1`);
  const lookup = pipelined('lookup', lookups);
  const credentials = pipelined(
    'credentials',
    connectAll({ max: config.DATABASE_CREDENTIAL_CONNECTIONS, ...plannedOnce }),
  );
  const search = exclusive('search', config.DATABASE_SEARCH_CONNECTIONS, plannedAnew);
  const transaction = exclusive('transaction', config.DATABASE_TRANSACTION_CONNECTIONS, plannedOnce);
  const lanes = [credentials, lookup, search, transaction];
  let isDiskFull = false;
  /**
   * Runs a transaction. Updates `isDiskFull`, which is true if the last transaction that wrote data failed because the
   * database's disk is full.
   */
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
    logOutages: (log) => outages.logTo(log),
    close: async () => {
      outages.close();
      await Promise.all(lanes.map((lane) => lane.close()));
    },
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
 * Returns true if an abort must cancel the running transaction. Returns false if the caller has only closed the HTTP
 * connection, because the transaction then continues.
 * @param reason the reason of the abort
 */
const isTimeUp = (reason: unknown): boolean => !(reason instanceof CallerHungUp);

/**
 * The options of a group of database connections. Our patch of the database driver adds the option `describe_first`.
 */
interface LaneOptions {
  max: number;
  /** Settings for the query planner of PostgreSQL: name and value. */
  planner: Record<string, string>;
  prepare?: boolean;
  describe_first?: boolean;
  /** Called when a connection was closed, by either side. */
  onclose?: () => void;
}

// Statistics can be out of date. For a customer added after the last `analyze`, the planner expects at most one row and
// may choose a plan that scans a whole table for each look-up, even for foreign key checks. No statement with these
// settings needs a full scan.
/**
 * Settings of the query planner for prepared statements: PostgreSQL makes one plan for all parameter values, without
 * sequential scans.
 */
const plannedOnce = { planner: { plan_cache_mode: 'force_generic_plan', enable_seqscan: 'off' } };

/**
 * Settings of the query planner for searches: PostgreSQL makes a plan for the actual values of each search. A search
 * uses one processor, because parallel workers are off. `work_mem` is large enough for index scans of a million
 * records.
 */
const plannedAnew = {
  // With less `work_mem`, an index scan of a million records reads whole table pages instead of single rows.
  planner: { plan_cache_mode: 'force_custom_plan', max_parallel_workers_per_gather: '0', work_mem: '32MB' },
  prepare: false,
  describe_first: false,
};

/**
 * Options of the database driver, including some that its type declarations do not contain. Our patch of the driver
 * adds `silence_timeout`, and `saslprep`, which normalises passwords for SCRAM.
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
 * Returns the delay before the next attempt to connect (seconds). It is short, so that the service reconnects soon
 * after the server is available again.
 * @param failures the number of failed attempts
 */
const reconnectDelay = (failures: number): number => (failures < 2 ? 0 : 0.25);
