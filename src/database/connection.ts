import postgres from 'postgres';
import type { Config } from '../process/config.ts';
import { isTracing, watchStatements } from '../process/tracing.ts';

/**
 * Settings that each new connection sends. They make the text form of values and the isolation level independent of the
 * settings of the database or login.
 */
export const sessionSettings = {
  array_nulls: 'on',
  bytea_output: 'hex',
  client_encoding: 'UTF8',
  DateStyle: 'ISO,MDY',
  default_transaction_isolation: 'read committed',
  extra_float_digits: '1',
  IntervalStyle: 'postgres',
  standard_conforming_strings: 'on',
  TimeZone: 'UTC',
} as const;

/**
 * Returns the URL with `sessionSettings` and `more` added to its parameter `options`. Used for pg-boss, which takes
 * settings only from the URL.
 */
export function withSessionSettings(url: string, more: Record<string, string>): string {
  const given = /[?&]options=([^&#]*)/.exec(url)?.[1] ?? '';
  const own = Object.entries({ ...sessionSettings, ...more }).map(
    ([name, value]) => `-c ${name}=${value.replaceAll(' ', String.raw`\ `)}`,
  );
  const options = [decodeURIComponent(given.replaceAll('+', ' ')), ...own].join(' ').trim();
  return `${url}${url.includes('?') ? '&' : '?'}options=${encodeURIComponent(options)}`;
}

export const lowestId = '00000000-0000-0000-0000-000000000000';
export const highestId = 'ffffffff-ffff-ffff-ffff-ffffffffffff';

type WireTypes = { instant: string };

type Oid = number;

interface TypeOids {
  oid: Oid;
  array: Oid;
}

const types = {
  boolean: { oid: 16, array: 1000 },
  bytea: { oid: 17, array: 1001 },
  bigint: { oid: 20, array: 1016 },
  smallint: { oid: 21, array: 1005 },
  integer: { oid: 23, array: 1007 },
  text: { oid: 25, array: 1009 },
  json: { oid: 114, array: 199 },
  float4: { oid: 700, array: 1021 },
  float8: { oid: 701, array: 1022 },
  varchar: { oid: 1043, array: 1015 },
  date: { oid: 1082, array: 1182 },
  timestamp: { oid: 1114, array: 1115 },
  timestamptz: { oid: 1184, array: 1185 },
  numeric: { oid: 1700, array: 1231 },
  uuid: { oid: 2950, array: 2951 },
  jsonb: { oid: 3802, array: 3807 },
} as const satisfies Record<string, TypeOids>;

const asText = (value: unknown): string => (value instanceof Date ? value.toISOString() : String(value));

export const wireTypes = {
  instant: { to: types.timestamptz.oid, from: [types.timestamptz.oid], serialize: asText, parse: toInstant },
  calendar: {
    to: types.date.oid,
    from: [types.date.oid, types.timestamp.oid],
    serialize: asText,
    parse: (text: string) => text,
  },
  // The API keeps these numbers within JavaScript's range.
  decimal: { to: types.numeric.oid, from: [types.numeric.oid, types.bigint.oid], serialize: asText, parse: Number },
} satisfies Record<string, postgres.PostgresType>;

/**
 * Converts a timestamp in UTC (`2026-03-14 09:26:53.5+00`) to ISO 8601 (`2026-03-14T09:26:53.500Z`), cut to
 * milliseconds. Returns other texts unchanged, such as `infinity`.
 */
export function toInstant(text: string): string {
  if (text.charCodeAt(10) !== 32 || !text.endsWith('+00')) return text;
  const fraction = text.length > 22 ? text.slice(20, -3) : '';
  return `${text.slice(0, 10)}T${text.slice(11, 19)}.${fraction.slice(0, 3).padEnd(3, '0')}Z`;
}

interface Codecs {
  parsers: Record<Oid, ((text: string) => unknown) | undefined>;
  serializers: Record<Oid, ((value: unknown) => unknown) | undefined>;
  shared: { typeArrayMap: Record<Oid, Oid> };
}

export function registerArrays(sql: postgres.Sql<WireTypes>): void {
  // `fetch_types` costs a round trip, and a connection lost at that moment ends the process with an unhandled rejection.
  const codecs = sql.options as unknown as Codecs;
  for (const { oid: element, array } of Object.values<TypeOids>(types)) {
    const parse = codecs.parsers[element] ?? ((text: string) => text);
    const serialize = codecs.serializers[element] ?? String;
    codecs.shared.typeArrayMap[element] = array;
    codecs.parsers[array] = (text) => parseArray(text, parse);
    codecs.serializers[array] = (value) => (Array.isArray(value) ? serializeArray(value, serialize) : value);
  }
}

function serializeArray(values: readonly unknown[], serialize: (value: unknown) => unknown): string {
  const element = (value: unknown): string => {
    if (value === null) return 'NULL';
    if (value === undefined)
      throw new TypeError('An array parameter for PostgreSQL contains undefined; use null instead');
    if (Array.isArray(value)) return serializeArray(value, serialize);
    return `"${String(serialize(value)).replaceAll(/["\\]/g, '\\$&')}"`;
  };
  return `{${values.map(element).join(',')}}`;
}

const token = /"((?:[^"\\]|\\.)*)"|([^{},"]+)|[{}]/gs;

function parseArray(text: string, parse: (element: string) => unknown): unknown[] {
  const root: unknown[] = [];
  const open = [root];
  for (const [whole, quoted, bare] of text.slice(text.indexOf('{')).matchAll(token)) {
    if (whole === '{') {
      const inner: unknown[] = [];
      open.at(-1)!.push(inner);
      open.push(inner);
    } else if (whole === '}') open.pop();
    else if (quoted !== undefined) open.at(-1)!.push(parse(quoted.replaceAll(/\\(.)/gs, '$1')));
    else open.at(-1)!.push(bare === 'NULL' ? null : parse(bare!));
  }
  return root[0] as unknown[];
}

export type Sql = postgres.Sql<WireTypes>;

export type Transaction = postgres.TransactionSql<WireTypes>;

export type Queryable = Sql | Transaction;

declare const isLocked: unique symbol;

/**
 * The id of a row that this transaction has locked or inserted. No other transaction can change or delete the row until
 * this one ends. Only statements that lock or insert rows return such ids.
 */
export type LockedId = string & { readonly [isLocked]: true };

export type Locked<Row> = Row & { id: LockedId };

export interface DatabaseAddress {
  host: string;
  port: string;
  name: string;
}

export function addressOf(url: string): DatabaseAddress {
  const { host, port, database } = postgres(url).options;
  return { host: host.join(), port: port.join(), name: database };
}

/**
 * PostgreSQL role under which the service runs all its statements, whatever login the database URL names. Migration
 * 0001 creates it.
 */
export const serviceRole = 'sales_data_api';

const connectTimeout = 5;
/** The driver closes a connection this many seconds after the statement timeout, if the server has not responded. */
const silenceMargin = 2;
/**
 * Interval at which PostgreSQL checks that the client of a running statement is still connected. If not, it cancels the
 * statement.
 */
const clientCheckInterval = '250ms';

export interface ConnectionOptions {
  max: number;
  planner: Record<string, string>;
  prepare?: boolean;
  /** Seconds after which a connection is replaced. Default: a random time of 20 to 40 minutes. */
  max_lifetime?: number;
  onclose?: () => void;
}

// Statistics can be out of date. For a customer added after the last `analyze`, the planner expects at most one row and
// may choose a plan that scans a whole table for each look-up, even for foreign key checks. No statement with these
// settings needs a full scan.
const genericPlans = { planner: { plan_cache_mode: 'force_generic_plan', enable_seqscan: 'off' } };

/**
 * Settings for searches. PostgreSQL makes a new plan for each query, without parallel workers. Statements are not
 * prepared, unless they ask for it: their texts depend on requests, and the server keeps prepared ones.
 */
const customPlans = {
  // With less `work_mem`, an index scan of a million records reads whole table pages instead of single rows.
  planner: { plan_cache_mode: 'force_custom_plan', max_parallel_workers_per_gather: '0', work_mem: '32MB' },
  prepare: false,
};

export interface QueryPlans {
  genericPlans: Omit<ConnectionOptions, 'max'>;
  customPlans: Omit<ConnectionOptions, 'max'>;
}

export const plansOfPostgres: QueryPlans = { genericPlans, customPlans };

/**
 * Name of a setting that exists only in a Citus database. Its value is the `plan_cache_mode` of statements that need
 * the same plan for all customers.
 */
export const anyCustomerSetting = 'sales_data_api.plan_for_any_customer';

// A statement of one customer goes to the worker that has this customer's rows. Citus cannot choose the worker in a plan
// for all parameter values, and then refuses to plan most statements. The workers plan each statement anew.
export const plansOfCitus: QueryPlans = {
  genericPlans: { planner: { plan_cache_mode: 'auto', enable_seqscan: 'off', [anyCustomerSetting]: 'auto' } },
  customPlans: { ...customPlans, planner: { ...customPlans.planner, [anyCustomerSetting]: 'force_custom_plan' } },
};

/** Options of the PostgreSQL driver. `silence_timeout` exists only in our patched driver. */
type Options = postgres.Options<typeof wireTypes> & Omit<ConnectionOptions, 'planner'> & { silence_timeout: number };

export function connect(config: Config, url: string, { planner, ...pool }: ConnectionOptions): Sql {
  const options: Options = {
    max_lifetime: 60 * (20 + Math.random() * 20),
    ...pool,
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

const reconnectDelay = (failures: number): number => (failures < 2 ? 0 : 0.25);
