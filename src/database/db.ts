import postgres from 'postgres';
import { runAfterCommit } from '../after-commit.ts';
import type { Config } from '../config.ts';
import type { Gate } from '../limits/gate.ts';
import { CallerHungUp, serviceItself, type Requester } from '../requester.ts';
import { ExclusiveLane, SharedLane } from './lanes.ts';
import { registerArrays, wireTypes, type WireTypes } from './wire-types.ts';

/**
 * A database connection or pool. Its rows have the types of the API's JSON: timestamps are ISO strings, numerics are
 * numbers.
 */
export type Sql = postgres.Sql<WireTypes>;

/** The connection of an open transaction. */
export type Transaction = postgres.TransactionSql<WireTypes>;

/**
 * The database as one customer uses it, in three lanes. Each lane has its own connections and limits, so slow or stuck
 * work in one lane does not block the others. The slots of a lane are shared between customers (`FairSlots`). Every
 * failure between service and server (no slot in time, a lost or silent connection, a timeout, a deadlock, the server's
 * limits) becomes a DomainError `unavailable`, in bounded time.
 */
export interface Database {
  /** Runs short reads of fixed shape on a few shared, pipelined connections with prepared statements. */
  lookup<T>(work: (sql: Sql) => Promise<T>): Promise<T>;
  /**
   * Runs reads whose shape and cost depend on the caller. Each uses a connection alone and is planned for its values.
   */
  search<T>(work: (sql: Sql) => Promise<T>): Promise<T>;
  /** Runs `work` in a transaction on one connection. Rolls back when `work` rejects. */
  transaction<T>(work: (sql: Transaction) => Promise<T>): Promise<T>;
}

/** The database, shared by all customers. Its own methods run work for the service itself. */
export interface SharedDatabase extends Database {
  /**
   * Returns the database for one requester. When the requester's signal aborts, the pending call rejects at once.
   * Searches are then cancelled on the server, and so are transactions, except after a hang-up: a transaction then
   * continues until it commits or the requester's time is up.
   */
  for(requester: Requester): Database;
  /**
   * Reads the records that authenticate callers. These connections do no other work, so customers cannot delay them.
   */
  credentials<T>(work: (sql: Sql) => Promise<T>): Promise<T>;
  /** The gates of all lanes, read by metrics. */
  readonly gates: readonly Gate[];
  /** Whether the last transaction failed because the disk of the database is full. */
  readonly isDiskFull: boolean;
  /** Rejects new work, waits for work in flight, then closes the connections. */
  close(): Promise<void>;
}

/** The PostgreSQL role that the service uses, whatever user logs in (see migration 0001). */
const serviceRole = 'sales_data_api';

/** Timeout of opening a connection, up to its first statement (seconds). */
const connectTimeout = 5;
/** A connection counts as lost when an answer is overdue by the statement timeout plus this margin (seconds). */
const silenceMargin = 2;
/** Maximum number of queries in flight on one pipelined connection. */
const pipelineDepth = 64;
/**
 * How often the server checks that the client of a running statement is still connected; if not, it ends the statement.
 */
const clientCheckInterval = '250ms';

/** Opens the service's database. Each lane connects on its first use. */
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
  /** Notes whether a transaction failed because the disk of the database is full. */
  const noteDisk = async <T>(committed: Promise<T>): Promise<T> => {
    try {
      const result = await committed;
      isDiskFull = false;
      return result;
    } catch (error) {
      isDiskFull = isDiskFullError(error);
      throw error;
    }
  };
  const use = (requester: Requester): Database => ({
    lookup: (work) => lookup.run(requester, work),
    search: (work) => search.run(requester, work),
    transaction: <T>(work: (sql: Transaction) => Promise<T>) =>
      transaction.run(requester, (sql) => noteDisk(commit(sql, work)), isTimeUp),
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

/** Returns true for SQLSTATE 53100. */
const isDiskFullError = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && error.code === '53100';

/** Runs work in a transaction and, after the commit, the actions registered with `afterCommit`. */
async function commit<T>(sql: Sql, work: (sql: Transaction) => Promise<T>): Promise<T> {
  let opened: Transaction | undefined;
  const result = await sql.begin((transaction) => work((opened = transaction)));
  runAfterCommit(opened!);
  return result as T;
}

/**
 * Returns whether an abort cancels a transaction. A hang-up does not: the caller may still want the write that was
 * sent.
 */
const isTimeUp = (reason: unknown): boolean => !(reason instanceof CallerHungUp);

/** Connection options that differ between lanes. `describe_first` comes with our driver patch. */
interface LaneOptions {
  max: number;
  /** PostgreSQL planner settings, by name. */
  planner: Record<string, string>;
  prepare?: boolean;
  describe_first?: boolean;
  /** Called when a connection was closed, by either side. */
  onclose?: () => void;
}

/**
 * Planner settings for prepared statements: generic plans without sequential scans. Statistics are as old as the last
 * `analyze`: for a customer added since then the planner expects at most one row, and for a table its old size. A plan
 * chosen from such statistics may scan the whole table for each row that it looks up, also for foreign key checks. No
 * statement of these lanes needs a full scan.
 */
const plannedOnce = { planner: { plan_cache_mode: 'force_generic_plan', enable_seqscan: 'off' } };

/**
 * Planner settings for searches: each statement is planned for its values, and the plan is not kept. Takes one round
 * trip, because text values need no type look-up on the server. Without parallel workers, so that one slot of the lane
 * stands for one processor.
 */
const plannedAnew = {
  planner: { plan_cache_mode: 'force_custom_plan', max_parallel_workers_per_gather: '0' },
  prepare: false,
  describe_first: false,
};

/** Driver options that its type declarations omit. `silence_timeout` comes with our driver patch. */
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
 * Returns the delay before the next connection attempt (seconds): none after a first failure, then 0.25, so the service
 * reconnects soon after the server is back.
 */
const reconnectDelay = (failures: number): number => (failures < 2 ? 0 : 0.25);
