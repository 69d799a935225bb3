import postgres from 'postgres';
import type { Config } from './config.ts';
import { runAfterCommit } from './after-commit.ts';
import type { Gate } from './gate.ts';
import { ExclusiveLane, SharedLane } from './lanes.ts';
import { HungUp, serviceItself, type Requester } from './requester.ts';
import { registerArrays, wireTypes, type WireTypes } from './wire-types.ts';

/** A connection, or a pool of them, whose rows are shaped as the wire wants them. */
export type Sql = postgres.Sql<WireTypes>;

/** The connection of an open transaction. */
export type Transaction = postgres.TransactionSql<WireTypes>;

/**
 * The database as one customer uses it, in three lanes. Each lane has connections and limits of its own, so that what is
 * slow or stuck in one never keeps the others from answering. The places of a lane are shared between customers (`Places`).
 * Whatever goes wrong between us and the server (no place in the lane in time, a lost or silent connection, a timeout, a
 * deadlock, the server's limits) is a DomainError `unavailable`, in bounded time.
 */
export interface Database {
  /** Short reads of fixed shape: a few shared, pipelined connections with prepared statements. */
  lookup<T>(work: (sql: Sql) => Promise<T>): Promise<T>;
  /** Reads whose shape and cost depend on the caller: one connection each, planned anew for the values given. */
  search<T>(work: (sql: Sql) => Promise<T>): Promise<T>;
  /** Everything between begin and commit, on one connection; rolled back when `work` rejects. */
  transaction<T>(work: (sql: Transaction) => Promise<T>): Promise<T>;
}

/** The database that all customers share. Used directly, it works for the service itself. */
export interface SharedDatabase extends Database {
  /**
   * The database as a requester uses it. When the requester's signal is aborted, the caller is told so at once. Searches
   * are then cancelled on the server, and so are transactions, except after a hang-up: what was to be written is written,
   * unless it takes longer than the requester's time.
   */
  for(requester: Requester): Database;
  /** Reads that decide who a caller is. No customer's work is on these connections, so none delays them. */
  credentials<T>(work: (sql: Sql) => Promise<T>): Promise<T>;
  /** The gates of all lanes, for metrics. */
  readonly gates: readonly Gate[];
  /** Whether the last transaction failed because the disk of the database is full. */
  readonly isDiskFull: boolean;
  /** Refuses new work, waits for what is under way, closes the connections. */
  close(): Promise<void>;
}

/** The role that the service works as, whoever logs in: see migration 0001. */
const serviceRole = 'sales_data_api';

/** Seconds for a connection to be made, up to the first statement. */
const connectTimeout = 5;
/** Seconds past the statement timeout after which a server that owes an answer counts as gone. */
const silenceMargin = 2;
/** Queries that may be under way on one pipelined connection. */
const pipelineDepth = 64;
/** How often a server looks whether the client of a statement is still there, to end the statement if not. */
const clientCheckInterval = '250ms';

/** Opens the service's database; connects when first asked. */
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

/** Runs work in a transaction, then what waits for its commit. */
async function commit<T>(sql: Sql, work: (sql: Transaction) => Promise<T>): Promise<T> {
  let opened: Transaction | undefined;
  const result = await sql.begin((transaction) => work((opened = transaction)));
  runAfterCommit(opened!);
  return result as T;
}

/** Whoever hung up may have gone without a wish: what they sent to be written is written. */
const isTimeUp = (reason: unknown): boolean => !(reason instanceof HungUp);

/** What is particular to a lane's connections; `describe_first` comes with our patch. */
interface LaneOptions {
  max: number;
  /** Settings of the planner. */
  planner: Record<string, string>;
  prepare?: boolean;
  describe_first?: boolean;
  /** Called when a connection was closed, whoever closed it. */
  onclose?: () => void;
}

/**
 * Planned without regard to the values, and kept. Statistics are as old as the last `analyze`: by them a customer who began
 * later has a row, if any, and a table is as small as it was. What is planned for that reads all there is by now for each
 * row it looks for, statements of foreign keys included. No statement of these lanes reads a table from end to end.
 */
const plannedOnce = { planner: { plan_cache_mode: 'force_generic_plan', enable_seqscan: 'off' } };

/**
 * Planned for the values given, nothing kept; and in one round trip, since values that are texts need no asking for types.
 * Without parallel workers: a place in the lane then stands for one processor, whatever is asked.
 */
const plannedAnew = {
  planner: { plan_cache_mode: 'force_custom_plan', max_parallel_workers_per_gather: '0' },
  prepare: false,
  describe_first: false,
};

/** Options of the driver that its type declarations leave out; `silence_timeout` comes with our patch. */
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
      jit: 'off', // it compiles for longer than such statements run; the driver does not send a false
    },
  };
  const sql = postgres(url, options) as unknown as Sql;
  if (!('describe_first' in sql.options)) throw new Error('The PostgreSQL driver lacks its patch: run `npm ci` again');
  registerArrays(sql);
  return sql;
}

/** Seconds to the next attempt: at once after a single loss, then four times a second, so that we are back soon after the server is. */
const reconnectDelay = (failures: number): number => (failures < 2 ? 0 : 0.25);
