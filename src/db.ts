import { setTimeout as sleep } from 'node:timers/promises';
import postgres from 'postgres';
import type { Config } from './config.ts';
import { unavailable } from './errors.ts';
import { Gate, type GateLimits } from './gate.ts';
import { registerArrays, wireTypes, type WireTypes } from './wire-types.ts';

/** A connection, or a pool of them, whose rows are shaped as the wire wants them. */
export type Sql = postgres.Sql<WireTypes>;

/** The connection of an open transaction. */
export type Transaction = postgres.TransactionSql<WireTypes>;

/**
 * The database in three lanes, each with connections and limits of its own, so that what is slow or stuck in one never
 * keeps the others from answering. Whatever goes wrong between us and the server (no place in the lane in time, a lost
 * or silent connection, a timeout, a deadlock, the server's limits) is a DomainError `unavailable`, in bounded time.
 */
export interface Database {
  /** Short reads of fixed shape: a few shared, pipelined connections with prepared statements. */
  lookup<T>(work: (sql: Sql) => Promise<T>): Promise<T>;
  /** Reads whose shape and cost depend on the caller: one connection each, planned anew for the values given. */
  search<T>(work: (sql: Sql) => Promise<T>): Promise<T>;
  /** Everything between begin and commit, on one connection; rolled back when `work` rejects. */
  transaction<T>(work: (sql: Transaction) => Promise<T>): Promise<T>;
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
/** Seconds that `close` waits for what is under way. */
const closeTimeout = 10;

/** Opens the service's database; connects when first asked. */
export function openDatabase(config: Config, url: string): Database {
  const limits = { maxWaiting: config.DATABASE_QUEUE_LENGTH, maxWaitMs: config.DATABASE_QUEUE_MS };
  const lookup = shared(connect(config, url, { max: config.DATABASE_LOOKUP_CONNECTIONS, ...plannedOnce }), {
    limit: config.DATABASE_LOOKUP_CONNECTIONS * pipelineDepth,
    ...limits,
  });
  const search = exclusive(() => connect(config, url, { max: 1, ...plannedAnew }), {
    limit: config.DATABASE_SEARCH_CONNECTIONS,
    ...limits,
  });
  const transaction = exclusive(() => connect(config, url, { max: 1, ...plannedOnce }), {
    limit: config.DATABASE_TRANSACTION_CONNECTIONS,
    ...limits,
  });
  return {
    lookup: (work) => lookup.run(work),
    search: (work) => search.run(work),
    transaction: <T>(work: (sql: Transaction) => Promise<T>) => transaction.run((sql) => sql.begin(work) as Promise<T>),
    close: async () => void (await Promise.all([lookup, search, transaction].map((lane) => lane.close()))),
  };
}

interface Lane {
  run<T>(work: (sql: Sql) => Promise<T>): Promise<T>;
  close(): Promise<void>;
}

/** One driver instance for all works at once. */
function shared(sql: Sql, limits: GateLimits): Lane {
  const gate = new Gate(limits);
  return {
    run: (work) => guarded(() => gate.run(() => work(sql))),
    close: () => closeLane(gate, () => [sql]),
  };
}

/**
 * A driver instance of one connection for each work. The driver's own pool is known to hand one connection to two
 * transactions under load and on reconnects; here there is nothing to confuse.
 * @see https://github.com/porsager/postgres/issues/1204
 */
function exclusive(open: () => Sql, limits: GateLimits): Lane {
  const gate = new Gate(limits);
  const all: Sql[] = [];
  const free: Sql[] = [];
  const admitted = async <T>(work: (sql: Sql) => Promise<T>): Promise<T> => {
    const sql = free.pop() ?? all[all.push(open()) - 1]!;
    try {
      return await work(sql);
    } finally {
      free.push(sql);
    }
  };
  return {
    run: (work) => guarded(() => gate.run(() => admitted(work))),
    close: () => closeLane(gate, () => all),
  };
}

async function closeLane(gate: Gate, connections: () => Sql[]): Promise<void> {
  await Promise.race([gate.close(), sleep(closeTimeout * 1000, undefined, { ref: false })]);
  await Promise.all(connections().map((sql) => sql.end({ timeout: 1 })));
}

/** What is particular to a lane's connections; `describe_first` comes with our patch. */
interface LaneOptions {
  max: number;
  /** Settings of the planner. */
  planner: Record<string, string>;
  prepare?: boolean;
  describe_first?: boolean;
}

/**
 * Planned without regard to the values, and kept. Statistics are as old as the last `analyze`: by them a customer who began
 * later has a row, if any, and a table is as small as it was. What is planned for that reads all there is by now for each
 * row it looks for, statements of foreign keys included. No statement of these lanes reads a table from end to end.
 */
const plannedOnce = { planner: { plan_cache_mode: 'force_generic_plan', enable_seqscan: 'off' } };

/** Planned for the values given, nothing kept; and in one round trip, since values that are texts need no asking for types. */
const plannedAnew = { planner: { plan_cache_mode: 'force_custom_plan' }, prepare: false, describe_first: false };

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

/** Runs a lane's work; trouble with the server comes out as `unavailable`, everything else as it is. */
async function guarded<T>(run: () => Promise<T>): Promise<T> {
  try {
    return await run();
  } catch (error) {
    throw isTrouble(error) ? unavailable('The database does not answer at the moment', 1, error) : error;
  }
}

/** Codes of the driver and of the operating system for a connection that is lost or cannot be made. */
const connectionCodes = new Set(
  (
    'CONNECTION_CLOSED CONNECTION_ENDED CONNECTION_DESTROYED CONNECTION_SILENT CONNECT_TIMEOUT ' +
    'ECONNREFUSED ECONNRESET ECONNABORTED EPIPE ENOENT ETIMEDOUT EHOSTUNREACH ENETUNREACH ENOTFOUND EAI_AGAIN'
  ).split(' '),
);

/**
 * SQLSTATEs that say "not now": connection exceptions (08), insufficient resources (53), the operator's interventions
 * (57P0x: shutdown, crash, starting up), cancelled or timed out statements, locks, idle and whole transactions, and the
 * two that a retry cures, serialisation failure and deadlock.
 * @see https://www.postgresql.org/docs/18/errcodes-appendix.html
 */
const troubleStates = /^(08...|53...|57P0[1-5]|57014|55P03|40001|40P01|25P0[34])$/;

function isTrouble(error: unknown): boolean {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  return typeof code === 'string' && (connectionCodes.has(code) || troubleStates.test(code));
}
