import { setTimeout as sleep } from 'node:timers/promises';
import type { FastifyBaseLogger } from 'fastify';
import type { PendingQuery, Row } from 'postgres';
import { randomUUID } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import type { EventActor, EventSource } from '../schemas/events.ts';
import { isConnectionLost, openPools } from './pools.ts';
import { connect, plansOfCitus, plansOfPostgres } from './connection.ts';
import type { Sql, Transaction, ConnectionOptions } from './connection.ts';
import type { Config } from '../process/config.ts';
import type { ConcurrencyLimiter } from '../access/concurrency-limiter.ts';
import { RecordsChanged } from '../errors.ts';
import { CallerHungUp, serviceItself, type Requester } from '../access/credentials.ts';

export interface Origin {
  /**
   * Source that the transaction's events get. With null, the transaction must not record events: if it does, it is
   * rolled back.
   */
  source: EventSource | null;
  actor: EventActor;
  changeId: string;
  requestId?: string | undefined;
  /** Called after the commit of a transaction that changes records, with the id of the change. */
  onChange?: (changeId: string) => void;
}

const origins = new WeakMap<object, Origin>();

/**
 * Stores the origin of a transaction's events: source, actor, change and request. Call it when the transaction is
 * opened. A second call replaces only the given members.
 */
export function setOrigin(sql: object, origin: Partial<Origin>): void {
  origins.set(sql, { ...origins.get(sql), ...origin } as Origin);
}

export function originOf(sql: object): Origin {
  const origin = origins.get(sql);
  if (!origin)
    throw new Error('The events of a transaction are recorded with its own object, not with that of a savepoint');
  return origin;
}

const retryMs = 500;

/**
 * Logs one line when the database becomes unavailable, and one when it is available again. Runs a test query to find
 * out, because a single connection can also break for other reasons.
 */
function watchOutages(ping: () => Promise<unknown>) {
  let log: FastifyBaseLogger | undefined;
  let isChecking = false;
  const closing = new AbortController();
  const findFault = async (): Promise<{ code: string | undefined; reason: string } | undefined> => {
    try {
      await ping();
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException;
      if (isConnectionLost(error)) return { code, reason: message };
    }
    return undefined;
  };
  const check = async (given: FastifyBaseLogger): Promise<void> => {
    let fault = await findFault();
    if (!fault || closing.signal.aborted) return;
    given.error(fault, 'the database does not answer');
    const since = performance.now();
    while (fault && !closing.signal.aborted) {
      await sleep(retryMs, undefined, { ref: false });
      fault = await findFault();
    }
    if (!closing.signal.aborted)
      given.info({ seconds: Math.round((performance.now() - since) / 1000) }, 'the database answers again');
  };
  return {
    logTo: (given: FastifyBaseLogger) => void (log = given),
    suspect: () => {
      if (!log || isChecking || closing.signal.aborted) return;
      isChecking = true;
      void check(log).finally(() => (isChecking = false));
    },
    close: () => closing.abort(),
  };
}

/**
 * Returns the log level for an error that is retried. Returns `debug` for a lost connection, because `watchOutages` logs it.
 */
export const retryLevel = (error: unknown): 'debug' | 'warn' => (isConnectionLost(error) ? 'debug' : 'warn');

const actions = new WeakMap<object, (() => void)[]>();

/**
 * Registers a function that runs after the transaction's commit. It must not throw. It does not run after a rollback,
 * or if the response to the commit is lost.
 */
export function afterCommit(sql: object, action: () => void): void {
  const own = actions.get(sql);
  if (own) own.push(action);
  else actions.set(sql, [action]);
}

const builders = new WeakMap<object, () => PendingQuery<Row[]>[]>();

/**
 * Registers the last statements of a transaction. They are sent together with the commit, which saves a round trip. If
 * one fails, PostgreSQL rolls back, and the transaction rejects with its error.
 */
export function sendWithCommit(sql: object, build: () => PendingQuery<Row[]>[]): void {
  builders.set(sql, build);
}

export class Transactions {
  isDiskFull = false;

  async run<T>(sql: Sql, origin: Origin, work: (sql: Transaction) => Promise<T>): Promise<T> {
    for (let attempts = 1; ; attempts += 1)
      try {
        return await this.#attempt(sql, origin, work);
      } catch (error) {
        if (!(error instanceof RecordsChanged) || attempts === maxAttempts) throw error;
      }
  }

  async #attempt<T>(sql: Sql, origin: Origin, work: (sql: Transaction) => Promise<T>): Promise<T> {
    let hasWritten = false;
    // Asked only while the disk is full, because it costs a round trip. Reading proves nothing about the disk.
    const noting = async (transaction: Transaction) => {
      const result = await work(transaction);
      hasWritten = await hasChanges(transaction);
      return result;
    };
    try {
      const result = await commit(sql, origin, this.isDiskFull ? noting : work);
      if (hasWritten) this.isDiskFull = false;
      return result;
    } catch (error) {
      if (isDiskFullError(error)) this.isDiskFull = true;
      throw error;
    }
  }
}

export const maxAttempts = 5;

class RolledBack extends Error {}

/**
 * Runs `work` in a transaction or savepoint, rolls back its changes, and returns its result.
 * @param begin opens the transaction or savepoint
 */
export async function rolledBack<T>(
  begin: (work: (sql: Transaction) => Promise<never>) => Promise<unknown>,
  work: (sql: Transaction) => Promise<T>,
): Promise<T> {
  let result: T;
  const attempt = begin(async (sql) => {
    result = await work(sql);
    throw new RolledBack();
  });
  await attempt.catch((error: unknown) => {
    if (!(error instanceof RolledBack)) throw error;
  });
  return result!;
}

/** Returns true if the transaction has written data. PostgreSQL assigns an id only at the first write. */
async function hasChanges(sql: Transaction): Promise<boolean> {
  const [row] = await sql<[{ changed: boolean }]>`select pg_current_xact_id_if_assigned() is not null as changed`;
  return row.changed;
}

const isDiskFullError = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && error.code === '53100';

async function commit<T>(sql: Sql, origin: Origin, work: (sql: Transaction) => Promise<T>): Promise<T> {
  let opened: Transaction | undefined;
  let answers: Promise<unknown> | undefined;
  const result = await sql.begin(async (transaction) => {
    setOrigin(transaction, origin);
    const done = await work((opened = transaction));
    // Sent now, so that one that cannot be built fails before the commit is sent.
    answers = Promise.all((builders.get(transaction)?.() ?? []).map((statement) => statement.execute()));
    answers.catch(() => undefined); // thrown below, unless the transaction has failed before
    return done;
  });
  // If one of the last statements failed, nothing was committed.
  await answers;
  for (const action of actions.get(opened!) ?? []) action();
  return result as T;
}

export type { Locked, LockedId, Queryable, Sql, Transaction } from './connection.ts';

/**
 * Runs statements on separate connections for look-ups, searches and transactions, so that slow searches do not delay
 * other work. The methods throw the DomainError `unavailable` after a temporary failure (a timeout, a deadlock, a lost
 * connection).
 */
export interface Database {
  /** Runs short queries with constant SQL text, as prepared statements on a few shared connections. */
  lookup<T>(work: (sql: Sql) => Promise<T>): Promise<T>;
  /** Runs queries whose text or cost depends on the request. Each call has a connection to itself. */
  search<T>(work: (sql: Sql) => Promise<T>): Promise<T>;
  /**
   * Runs `work` in a transaction. Rolls back if `work` throws. Runs it again if it throws `RecordsChanged`.
   * @throws DomainError `unavailable` after a temporary failure. If the connection was lost during the commit, the
   *   changes may be committed
   */
  transaction<T>(work: (sql: Transaction) => Promise<T>): Promise<T>;
}

/**
 * Milliseconds after which a health check's query is cancelled. The supplied proxies wait five seconds for a response.
 */
const healthMs = 4_000;

/**
 * Database access of the whole service. Its own methods run internal work, such as commands. Use `for` for the work of
 * a customer.
 */
export interface SharedDatabase extends Database {
  /**
   * Returns database access for the work of one customer. If the requester's signal aborts, the running calls reject,
   * and their statements are cancelled. A transaction continues after the caller has closed the HTTP connection, until
   * the request's time is up.
   * @param source source that the transactions' events get. With null, transactions must not record events
   */
  for(requester: Requester, source: EventSource | null): Database;
  /** Runs `work`, which reads API keys or sessions, on connections that are for nothing else. So it waits for no customer. */
  credentials<T>(work: (sql: Sql) => Promise<T>): Promise<T>;
  health<T>(work: (sql: Sql) => Promise<T>): Promise<T>;
  readonly limiters: readonly ConcurrencyLimiter[];
  /** True after an error about a full disk, until a transaction has written data again. */
  readonly isDiskFull: boolean;
  logOutages(log: FastifyBaseLogger): void;
  close(): Promise<void>;
}

export function openDatabase(config: Config, url: string, { distributed = false } = {}): SharedDatabase {
  const plans = distributed ? plansOfCitus : plansOfPostgres;
  const open = (options: ConnectionOptions) =>
    connect(config, url, { ...options, onclose: () => (options.onclose?.(), outages.suspect()) });
  // A connection of its own, because the pools reject work while they are full.
  const test = open({ max: 1, ...plans.genericPlans });
  const outages = watchOutages(() => test`select 1`);
  const { health, ...pools } = openPools(config, plans, open);
  const transactions = new Transactions();
  const use = (requester: Requester, source: EventSource | null): Database => ({
    lookup: (work) => pools.lookup.run(requester, work),
    search: (work) => pools.search.run(requester, work),
    transaction: <T>(work: (sql: Transaction) => Promise<T>) =>
      pools.transaction.run(requester, (sql) => transactions.run(sql, originFor(requester, source), work), isTimeUp),
  });
  return {
    ...use({ customerId: serviceItself }, 'command'),
    for: use,
    credentials: (work) => pools.credentials.runAlone(work),
    health: (work) => health.run({ customerId: serviceItself, signal: AbortSignal.timeout(healthMs) }, work),
    get isDiskFull() {
      return transactions.isDiskFull;
    },
    limiters: Object.values(pools).map(({ limiter }) => limiter),
    logOutages: (log) => outages.logTo(log),
    close: async () => {
      outages.close();
      await Promise.all([...Object.values(pools), health].map((pool) => pool.close()));
      await test.end({ timeout: 1 });
    },
  };
}

const originFor = (requester: Requester, source: EventSource | null): Origin => ({
  source,
  requestId: requester.requestId,
  actor: requester.actor ?? { type: source === 'command' ? 'operator' : 'service' },
  changeId: requester.changeId ?? randomUUID(),
  onChange: (changeId) => void (requester.committedChange = changeId),
});

const isTimeUp = (reason: unknown): boolean => !(reason instanceof CallerHungUp);

/**
 * Returns a function that loads one record by its key. Calls in the same round of the event loop share one call of
 * `load`.
 * @param keyOf converts a key to a unique string
 * @param load returns the records that exist, in any order
 * @param keyOfFound returns the key of a loaded record
 * @param maxKeys maximum number of keys for each call of `load`
 */
export function batchLookups<K, V>(
  keyOf: (key: K) => string,
  load: (keys: K[]) => Promise<V[]>,
  keyOfFound: (found: V) => K,
  maxKeys = Infinity,
): (key: K) => Promise<V | undefined> {
  let batch: { keys: Map<string, K>; loaded: Promise<Map<string, V>> } | undefined;

  const open = () => {
    const keys = new Map<string, K>();
    // Requests of one round arrive in separate callbacks of the poll phase; the check phase runs after all of them.
    const closed = new Promise<void>((resolve) => {
      setImmediate(() => {
        batch = undefined;
        resolve();
      });
    });
    const loaded = closed.then(async () => {
      const found = await load([...keys.values()]);
      return new Map(found.map((record) => [keyOf(keyOfFound(record)), record]));
    });
    return { keys, loaded };
  };

  return async (key) => {
    const name = keyOf(key);
    // A batch that has started is never joined, so the data is not older than this call.
    batch ??= open();
    batch.keys.set(name, key);
    const { keys, loaded } = batch;
    if (keys.size >= maxKeys) batch = undefined;
    return (await loaded).get(name);
  };
}

const maxRecords = 16;

/**
 * Returns a function that reads one record of a customer. Reads for the same customer in the same round of the event
 * loop share one statement.
 */
export function recordReader<Row extends { id: string }>(
  db: Pick<SharedDatabase, 'for'>,
  find: (sql: Sql, customerId: string, ids: string[]) => Promise<Row[]>,
): (customerId: string, id: string) => Promise<Row | undefined> {
  const readers = new LRUCache<string, (id: string) => Promise<Row | undefined>>({ max: 1_000 });
  const open = (customerId: string) => {
    const load = (ids: string[]) => db.for({ customerId }, null).lookup((sql) => find(sql, customerId, ids));
    const reader = batchLookups(String, load, ({ id }) => id, maxRecords);
    readers.set(customerId, reader);
    return reader;
  };
  return (customerId, id) => (readers.get(customerId) ?? open(customerId))(id);
}
