import postgres from 'postgres';
import type { Config } from '../process/config.ts';
import { isTracing, watchStatements } from '../tracing/tracing.ts';
import { sessionSettings } from './session-settings.ts';
import { registerArrays, wireTypes, type WireTypes } from './wire-types.ts';

/**
 * An instance of the PostgreSQL driver, with one or more connections. Queries return timestamps as ISO strings and
 * decimals as numbers, like the JSON of the API.
 */
export type Sql = postgres.Sql<WireTypes>;

/** An open database transaction. Queries that are part of the transaction must use this object. */
export type Transaction = postgres.TransactionSql<WireTypes>;

/** Runs statements, within a transaction or not. */
export type Queryable = Sql | Transaction;

declare const isLocked: unique symbol;

/**
 * The id of a row that this transaction has locked or inserted. Until it ends, no other transaction changes or deletes
 * the row. Only the statements that lock or insert rows return such ids.
 */
export type LockedId = string & { readonly [isLocked]: true };

/** A row that this transaction has locked or inserted. */
export type Locked<Row> = Row & { id: LockedId };

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
export const serviceRole = 'sales_data_api';

/** Maximum time to open a database connection (seconds). */
const connectTimeout = 5;
/**
 * Time that is added to the statement timeout (seconds). If the server has not responded after the statement timeout
 * plus this time, the connection is closed as lost.
 */
const silenceMargin = 2;
/**
 * Interval at which the PostgreSQL server checks that the client of a running statement is still connected. If the
 * client is gone, the server cancels the statement.
 */
const clientCheckInterval = '250ms';

/**
 * Options for a group of database connections.
 */
export interface ConnectionOptions {
  max: number;
  planner: Record<string, string>;
  prepare?: boolean;
  /** Age at which a connection is replaced (seconds); default: 20 to 40 minutes. */
  max_lifetime?: number;
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
 * Settings of PostgreSQL's query planner for searches: each query is planned for its actual parameter values, and runs
 * without parallel workers.
 */
const plannedAnew = {
  // With less `work_mem`, an index scan of a million records reads whole table pages instead of single rows.
  planner: { plan_cache_mode: 'auto', max_parallel_workers_per_gather: '0', work_mem: '32MB' },
  prepare: false,
};

export interface QueryPlans {
  plannedOnce: Omit<ConnectionOptions, 'max'>;
  /** For searches, which are planned for their actual parameter values. */
  plannedAnew: Omit<ConnectionOptions, 'max'>;
}

export const plansOfPostgres: QueryPlans = { plannedOnce, plannedAnew };

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
export const plansOfCitus: QueryPlans = {
  plannedOnce: { planner: { plan_cache_mode: 'auto', enable_seqscan: 'off', [anyCustomerSetting]: 'auto' } },
  plannedAnew: { ...plannedAnew, planner: { ...plannedAnew.planner, [anyCustomerSetting]: 'force_custom_plan' } },
};

/**
 * Options of the database driver, including options that are missing in its type declarations. `silence_timeout` exists
 * only in our patched version of the driver.
 */
type Options = postgres.Options<typeof wireTypes> & Omit<ConnectionOptions, 'planner'> & { silence_timeout: number };

/** Creates an instance of the database driver. Its connections are opened at their first use. */
export function connect(config: Config, url: string, { planner, ...lane }: ConnectionOptions): Sql {
  const options: Options = {
    max_lifetime: 60 * (20 + Math.random() * 20),
    ...lane,
    types: wireTypes,
    fetch_types: false,
    connect_timeout: connectTimeout,
    silence_timeout: config.STATEMENT_TIMEOUT_MS / 1000 + silenceMargin,
    backoff: reconnectDelay,
    onnotice: () => {},
    connection: {
      application_name: 'sales-data-api',
      role: serviceRole,
      ...sessionSettings,
      statement_timeout: config.STATEMENT_TIMEOUT_MS,
      lock_timeout: config.STATEMENT_TIMEOUT_MS,
      idle_in_transaction_session_timeout: config.STATEMENT_TIMEOUT_MS,
      client_connection_check_interval: clientCheckInterval,
      ...planner,
      jit: 'off', // compiling takes longer than such statements run; the driver does not send `false`
    },
  };
  const sql = postgres(url, options) as unknown as Sql;
  if (!('silence_timeout' in sql.options)) throw new Error('The PostgreSQL driver lacks its patch: run `npm ci` again');
  registerArrays(sql);
  if (isTracing()) watchStatements(sql``.constructor);
  return sql;
}

/**
 * Returns the delay before the next connection attempt (seconds).
 * @param failures The number of failed attempts.
 */
const reconnectDelay = (failures: number): number => (failures < 2 ? 0 : 0.25);
