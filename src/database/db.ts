import { setTimeout as sleep } from 'node:timers/promises';
import type { FastifyBaseLogger } from 'fastify';
import type { PendingQuery, Row } from 'postgres';
import { randomUUID } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import type { EventActor, EventSource } from '../schemas/events.ts';
import { isConnectionLost, LaneSet, openExclusiveLane, openSharedLane, type LaneSource } from './lanes.ts';
import { connect, plansOfCitus, plansOfPostgres } from './connection.ts';
import type { Sql, Transaction, ConnectionOptions } from './connection.ts';
import type { Config } from '../process/config.ts';
import type { Gate } from '../access/gate.ts';
import { CallerHungUp, serviceItself, type Requester } from '../access/credentials.ts';
import { isUnavailable } from '../errors.ts';

/** What a transaction was opened for, as the journal tells it. */
export interface Origin {
  /** Null: the transaction records nothing. One that records something all the same is rolled back. */
  source: EventSource | null;
  actor: EventActor;
  /** The same for all that one call, job or import changes. */
  changeId: string;
  /** The id of the request, as its log line has it. Undefined: no request. */
  requestId?: string | undefined;
}

const origins = new WeakMap<object, Origin>();

/** Must be called when a transaction is opened. Called again, it replaces members. */
export function setOrigin(sql: object, origin: Partial<Origin>): void {
  origins.set(sql, { ...origins.get(sql), ...origin } as Origin);
}

/** @throws Error if this is not the object of a transaction, but for example that of a savepoint */
export function originOf(sql: object): Origin {
  const origin = origins.get(sql);
  if (!origin)
    throw new Error('The events of a transaction are recorded with its own object, not with that of a savepoint');
  return origin;
}

/** Interval at which an unavailable database is checked (ms). */
const retryMs = 500;

/**
 * Logs one line when the database becomes unavailable, and one when it is available again. A test statement decides,
 * because a single connection can also break for other reasons.
 */
class Outages {
  readonly #ping: () => Promise<unknown>;
  #log: FastifyBaseLogger | undefined;
  #isChecking = false;
  #isClosed = false;

  constructor(ping: () => Promise<unknown>) {
    this.#ping = ping;
  }

  /** Before this call, nothing is checked or logged. */
  logTo(log: FastifyBaseLogger): void {
    this.#log = log;
  }

  /** Starts a check, unless one is running. Call it when a connection has closed. */
  suspect(): void {
    if (!this.#log || this.#isChecking || this.#isClosed) return;
    this.#isChecking = true;
    void this.#check(this.#log).finally(() => (this.#isChecking = false));
  }

  close(): void {
    this.#isClosed = true;
  }

  async #check(log: FastifyBaseLogger): Promise<void> {
    let fault = await this.#faultOf();
    if (!fault || this.#isClosed) return;
    log.error(fault, 'the database does not answer');
    const since = performance.now();
    while (fault && !this.#isClosed) {
      await sleep(retryMs, undefined, { ref: false });
      fault = await this.#faultOf();
    }
    if (this.#isClosed) return;
    log.info({ seconds: Math.round((performance.now() - since) / 1000) }, 'the database answers again');
  }

  /** Returns the error if the database cannot be reached. Undefined if it responds, even with an error. */
  async #faultOf(): Promise<{ code: string | undefined; reason: string } | undefined> {
    try {
      await this.#ping();
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException;
      if (isConnectionLost(error)) return { code, reason: message };
    }
    return undefined;
  }
}

/** Returns the log level for an error that is retried: `debug` for a lost connection, because `Outages` logs it. */
export const retryLevel = (error: unknown): 'debug' | 'warn' => (isConnectionLost(error) ? 'debug' : 'warn');

const actions = new WeakMap<object, (() => void)[]>();

/**
 * Runs `action`, which must not throw, after the commit. It does not run after a rollback, or if the response to the
 * commit is lost.
 */
export function afterCommit(sql: object, action: () => void): void {
  const own = actions.get(sql);
  if (own) own.push(action);
  else actions.set(sql, [action]);
}

/** Must be called after the commit. */
function runAfterCommit(sql: object): void {
  for (const action of actions.get(sql) ?? []) action();
}

/** What builds a transaction's last statements, by transaction object (`sql`). */
const builders = new WeakMap<object, () => PendingQuery<Row[]>[]>();
const lastStatements = new WeakMap<object, Promise<unknown>>();

/**
 * Sets what builds a transaction's last statements, when everything else is done. The commit follows without waiting for
 * their answers, which saves a round trip. If one of them fails, PostgreSQL rolls back instead of committing, and the
 * transaction rejects with its error.
 */
export function sendWithCommit(sql: object, build: () => PendingQuery<Row[]>[]): void {
  builders.set(sql, build);
}

/** Must be called as the last step before the commit. */
function sendLastStatements(sql: object): void {
  const statements = builders.get(sql)?.() ?? [];
  // Sent now, so that one that cannot be built fails before the commit is sent.
  const answers = Promise.all(statements.map((statement) => statement.execute()));
  // Thrown by `settleLastStatements`, unless the transaction has failed before.
  answers.catch(() => undefined);
  lastStatements.set(sql, answers);
}

/** Must be called after the commit. Rejects if a last statement failed, because nothing was committed then. */
const settleLastStatements = (sql: object): Promise<unknown> => Promise.resolve(lastStatements.get(sql));

/** Runs transactions, and remembers whether the disk is full. */
export class Transactions {
  #isDiskFull = false;

  /** True from an error which says that the disk is full until a later transaction has written data. */
  get isDiskFull(): boolean {
    return this.#isDiskFull;
  }

  /**
   * Rolls back if `work` throws.
   * @param sql a connection that nothing else uses meanwhile
   */
  async run<T>(sql: Sql, origin: Origin, work: (sql: Transaction) => Promise<T>): Promise<T> {
    let hasWritten = false;
    // Asked only while the disk is full, because it costs a round trip. Reading proves nothing about the disk.
    const noting = async (transaction: Transaction) => {
      const result = await work(transaction);
      hasWritten = await hasChanges(transaction);
      return result;
    };
    try {
      const result = await commit(sql, origin, this.#isDiskFull ? noting : work);
      if (hasWritten) this.#isDiskFull = false;
      return result;
    } catch (error) {
      if (isDiskFullError(error)) this.#isDiskFull = true;
      throw error;
    }
  }
}

/** True if the transaction has written data: PostgreSQL assigns an id only at the first write. */
async function hasChanges(sql: Transaction): Promise<boolean> {
  const [row] = await sql<[{ changed: boolean }]>`select pg_current_xact_id_if_assigned() is not null as changed`;
  return row.changed;
}

/** SQLSTATE 53100. */
const isDiskFullError = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && error.code === '53100';

/** After the commit, calls what `work` registered with `afterCommit`. */
async function commit<T>(sql: Sql, origin: Origin, work: (sql: Transaction) => Promise<T>): Promise<T> {
  let opened: Transaction | undefined;
  const result = await sql.begin(async (transaction) => {
    setOrigin(transaction, origin);
    const done = await work((opened = transaction));
    sendLastStatements(transaction);
    return done;
  });
  await settleLastStatements(opened!);
  runAfterCommit(opened!);
  return result as T;
}

export type { Locked, LockedId, Queryable, Sql, Transaction } from './connection.ts';

/**
 * Look-ups, searches and transactions use separate connections, so that slow searches do not delay other work. A
 * temporary failure (a timeout, a deadlock, a lost connection) throws the DomainError `unavailable`.
 */
export interface Database {
  /** For short queries with constant SQL text. They use prepared statements on a few shared connections. */
  lookup<T>(work: (sql: Sql) => Promise<T>): Promise<T>;
  /**
   * For queries whose text or cost depends on the request. Each call has its own connection, and each query is planned
   * for its actual parameters.
   */
  search<T>(work: (sql: Sql) => Promise<T>): Promise<T>;
  /**
   * Rolls back if `work` throws.
   * @throws DomainError `unavailable` after a temporary failure. If the connection was lost during the commit, the
   * transaction may be committed all the same.
   */
  transaction<T>(work: (sql: Transaction) => Promise<T>): Promise<T>;
}

/** Maximum time of a query of a health check (ms). The supplied proxies wait five seconds for the answer. */
const healthMs = 4_000;

/** Age of a connection for health checks (seconds). A login that PostgreSQL refuses shows only on a new connection. */
const healthLifetime = 5;

/**
 * The connections of the process. `Database`'s own methods run the service's work, such as commands; `for` gives access
 * for a customer's.
 */
export interface SharedDatabase extends Database {
  /**
   * Returns access for one customer's work. When the requester's signal aborts, a running call rejects, and its search
   * or transaction is cancelled. If the caller has only closed the HTTP connection, its transaction continues until it
   * ends or the request's time is up.
   * @param source what the changes that its transactions make count as in the feed of changes. Null: they record no
   * events, and one that does so all the same is rolled back
   */
  for(requester: Requester, source: EventSource | null): Database;
  /** Reads API keys and sessions on separate connections, so that the work of customers cannot delay it. */
  credentials<T>(work: (sql: Sql) => Promise<T>): Promise<T>;
  /** For health checks. Does not depend on the load that callers cause. A query is cancelled after four seconds. */
  health<T>(work: (sql: Sql) => Promise<T>): Promise<T>;
  /** Of each lane, for metrics. */
  readonly gates: readonly Gate[];
  /** True from an error which says that the disk is full until a later transaction has written data. */
  readonly isDiskFull: boolean;
  logOutages(log: FastifyBaseLogger): void;
  /** Rejects new calls, waits at most 10 s for running ones, and closes all connections. */
  close(): Promise<void>;
}

/**
 * Connections are opened at their first use.
 * @param distributed whether the URL is that of the coordinator of a Citus cluster, which plans statements differently
 */
export function openDatabase(config: Config, url: string, { distributed = false } = {}): SharedDatabase {
  const plans = distributed ? plansOfCitus : plansOfPostgres;
  const open = (options: ConnectionOptions) =>
    connect(config, url, { ...options, onclose: () => (options.onclose?.(), outages.suspect()) });
  const source: LaneSource = { config, plans, connect: open };
  // A connection of its own, because the lanes reject work while they are full.
  const test = open({ max: 1, ...plans.plannedOnce });
  const outages = new Outages(() => test`select 1`);
  const credentials = openSharedLane(source, 'credentials', config.DATABASE_CREDENTIAL_CONNECTIONS);
  const lanes = new LaneSet(source);
  const transactions = new Transactions();
  const health = openExclusiveLane(source, 'health', 2, { ...plans.plannedOnce, max_lifetime: healthLifetime });
  const use = (requester: Requester, source: EventSource | null): Database => ({
    lookup: (work) => lanes.lookup.run(requester, work),
    search: (work) => lanes.search.run(requester, work),
    transaction: <T>(work: (sql: Transaction) => Promise<T>) =>
      lanes.transaction.run(requester, (sql) => transactions.run(sql, originFor(requester, source), work), isTimeUp),
  });
  return {
    ...use({ customerId: serviceItself }, 'command'),
    for: use,
    credentials: (work) => credentials.runAlone(work),
    health: (work) => health.run({ customerId: serviceItself, signal: AbortSignal.timeout(healthMs) }, work),
    get isDiskFull() {
      return transactions.isDiskFull;
    },
    gates: [credentials, ...lanes.lanes].map(({ gate }) => gate),
    logOutages: (log) => outages.logTo(log),
    close: async () => {
      outages.close();
      await Promise.all([credentials.close(), health.close(), lanes.close(), test.end({ timeout: 1 })]);
    },
  };
}

const originFor = ({ actor, changeId, requestId }: Requester, source: EventSource | null): Origin => ({
  source,
  requestId,
  actor: actor ?? { type: source === 'command' ? 'operator' : 'service' },
  changeId: changeId ?? randomUUID(),
});

/** True if an abort must cancel the transaction. It continues if the caller has only closed the HTTP connection. */
const isTimeUp = (reason: unknown): boolean => !(reason instanceof CallerHungUp);

/** How long an operation is retried (ms). An import waits equally long for a search cluster. */
const defaultPatienceMs = 300_000;

/**
 * Retries each operation while the database is unavailable. Each must be safe to repeat: a transaction may have been
 * committed although the connection was lost.
 * @param patienceMs maximum time for retries before the error is thrown (ms)
 */
export function retryingDatabase(db: SharedDatabase, patienceMs = defaultPatienceMs): SharedDatabase {
  const patient = (wrapped: Database): Database => ({
    lookup: (work) => retryWhileUnavailable(() => wrapped.lookup(work), patienceMs),
    search: (work) => retryWhileUnavailable(() => wrapped.search(work), patienceMs),
    transaction: (work) => retryWhileUnavailable(() => wrapped.transaction(work), patienceMs),
  });
  return {
    ...db,
    ...patient(db),
    for: (requester, source) => patient(db.for(requester, source)),
    credentials: (work) => retryWhileUnavailable(() => db.credentials(work), patienceMs),
    get isDiskFull() {
      return db.isDiskFull;
    },
  };
}

async function retryWhileUnavailable<T>(run: () => Promise<T>, patienceMs: number): Promise<T> {
  const deadline = performance.now() + patienceMs;
  for (let pause = 50; ; pause = Math.min(2 * pause, 5_000)) {
    try {
      return await run();
    } catch (error) {
      if (!isUnavailable(error) || performance.now() + pause > deadline) throw error;
      await sleep(pause * (0.5 + Math.random()));
    }
  }
}

/**
 * Returns a function that loads one record by its key, or undefined. Calls in the same round of the event loop share
 * one call of `load`.
 * @param keyOf converts a key to a unique string
 * @param load returns only records that exist
 * @param keyOfFound returns the key of a loaded record
 * @param maxKeys of one call of `load`
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

/** Maximum number of records that one statement reads. */
const maxRecords = 16;

/**
 * Returns a function that reads one record of a customer, or undefined. Reads for the same customer in the same round of
 * the event loop share one statement.
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
