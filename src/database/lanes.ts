import { setTimeout as sleep } from 'node:timers/promises';
import { DomainError, unavailable } from '../errors.ts';
import { Gate, type GateLimits } from '../limits/gate.ts';
import type { Requester } from '../requester.ts';
import { inLane } from '../tracing/tracing.ts';

/** An instance of the database driver, with one or more connections. */
interface Connections {
  end(options: { timeout: number }): Promise<void>;
}

/** How long `close` waits for running operations (seconds). */
const closeTimeout = 10;
/** Maximum time to wait until the server has closed the connection of a cancelled operation (seconds). */
const cutTimeout = 15;

/**
 * A group of database connections that many operations use at the same time. A running statement is never cancelled,
 * because the cancel request could hit a statement of another operation.
 */
export class SharedLane<Sql extends Connections> {
  readonly #gate: Gate;
  readonly #sql: Sql;

  constructor(sql: Sql, limits: GateLimits) {
    this.#gate = new Gate(limits);
    this.#sql = sql;
  }

  get gate(): Gate {
    return this.#gate;
  }

  /**
   * Runs `work` for one customer (the requester) on the shared connections. If too many operations are running, waits
   * first.
   */
  run<T>(requester: Requester, work: (sql: Sql) => Promise<T>): Promise<T> {
    return translateErrors(() => this.#gate.run(requester, () => this.#traced(work)));
  }

  /** Runs `work` for the service itself on the shared connections. If too many operations are running, waits first. */
  runAlone<T>(work: (sql: Sql) => Promise<T>): Promise<T> {
    return translateErrors(() => this.#gate.runAlone(() => this.#traced(work)));
  }

  async close(): Promise<void> {
    await emptied(this.#gate);
    await this.#sql.end({ timeout: 1 });
  }

  #traced<T>(work: (sql: Sql) => Promise<T>): Promise<T> {
    return inLane(this.#gate.name, () => work(this.#sql));
  }
}

/** One database connection: a driver instance that may open only one connection. */
interface Line<Sql> {
  sql: Sql;
  /** Called when the database connection has closed. */
  closed: () => void;
}

/**
 * A group of database connections in which each operation has its own connection. Each connection is a separate driver
 * instance, because the driver's pool can give one connection to two transactions.
 * @see https://github.com/porsager/postgres/issues/1204
 */
export class ExclusiveLane<Sql extends Connections> {
  readonly #gate: Gate;
  readonly #connect: (onclose: () => void) => Sql;
  readonly #all = new Set<Line<Sql>>();
  readonly #free: Line<Sql>[] = [];

  constructor(connect: (onclose: () => void) => Sql, limits: GateLimits) {
    this.#gate = new Gate(limits);
    this.#connect = connect;
  }

  get gate(): Gate {
    return this.#gate;
  }

  /**
   * Runs `work` for one customer (the requester) on its own connection. If too many operations are running, waits
   * first.
   * @param isToEnd is called with the reason when the requester's signal aborts. If it returns true, `work` is
   *   cancelled at once; if false, `work` continues until the requester's time is up.
   */
  run<T>(
    requester: Requester,
    work: (sql: Sql) => Promise<T>,
    isToEnd: (reason: unknown) => boolean = () => true,
  ): Promise<T> {
    return translateErrors(() => this.#gate.run(requester, () => this.#admitted(work, requester, isToEnd)));
  }

  async close(): Promise<void> {
    await emptied(this.#gate);
    await Promise.all([...this.#all].map(({ sql }) => sql.end({ timeout: 1 })));
  }

  async #admitted<T>(
    work: (sql: Sql) => Promise<T>,
    { signal, timeUp }: Requester,
    isToEnd: (reason: unknown) => boolean,
  ): Promise<T> {
    const line = this.#free.pop() ?? this.#open();
    let cut: Promise<void> | undefined;
    const cancel = () => void (cut ??= this.#cut(line));
    const abort = () => {
      if (isToEnd(signal!.reason)) cancel();
    };
    signal?.addEventListener('abort', abort);
    timeUp?.addEventListener('abort', cancel);
    try {
      return await inLane(this.#gate.name, () => work(line.sql));
    } finally {
      signal?.removeEventListener('abort', abort);
      timeUp?.removeEventListener('abort', cancel);
      if (cut) await cut;
      else this.#free.push(line);
    }
  }

  #open(): Line<Sql> {
    const line: Line<Sql> = { sql: this.#connect(() => line.closed()), closed: () => undefined };
    this.#all.add(line);
    return line;
  }

  /**
   * Cancels an operation by closing its connection. Resolves when the server has also closed the connection, or after
   * `cutTimeout`.
   */
  async #cut(line: Line<Sql>): Promise<void> {
    // No cancel request: it could arrive late and hit the next statement on the connection. Until the server has closed
    // the connection, the operation counts as running.
    this.#all.delete(line);
    const { promise: isClosed, resolve } = Promise.withResolvers<void>();
    line.closed = resolve;
    await line.sql.end({ timeout: 0 });
    await Promise.race([isClosed, sleep(cutTimeout * 1000, undefined, { ref: false })]);
  }
}

/**
 * Makes a `Gate` (a limiter of concurrent operations) reject new operations. Resolves when all running operations have
 * ended, or after `closeTimeout`.
 */
const emptied = (gate: Gate): Promise<unknown> =>
  Promise.race([gate.close(), sleep(closeTimeout * 1000, undefined, { ref: false })]);

/**
 * Runs a database operation. If the connection or the server fails, throws `unavailable`. All other errors are thrown
 * unchanged.
 */
async function translateErrors<T>(run: () => Promise<T>): Promise<T> {
  try {
    return await run();
  } catch (error) {
    throw isConnectionFailure(error) ? unavailable('The database does not answer at the moment', 1, error) : error;
  }
}

/**
 * Error codes of the database driver and the operating system for a connection that was lost or could not be opened.
 */
const connectionCodes = new Set(
  (
    'CONNECTION_CLOSED CONNECTION_ENDED CONNECTION_DESTROYED CONNECTION_SILENT CONNECT_TIMEOUT ' +
    'ECONNREFUSED ECONNRESET ECONNABORTED EPIPE ENOENT ETIMEDOUT EHOSTUNREACH ENETUNREACH ENOTFOUND EAI_AGAIN'
  ).split(' '),
);

// Connection errors (08), insufficient resources (53), shutdown, crash and start of the server (57P0x), cancelled
// statements, timeouts of locks, statements and transactions, serialisation failures, deadlocks.
/**
 * Matches the PostgreSQL error codes (SQLSTATE) of temporary failures, after which a retry can succeed, e.g. a
 * deadlock, a timeout or a restart of the server.
 * @see https://www.postgresql.org/docs/18/errcodes-appendix.html
 */
const troubleStates = /^(08...|53...|57P0[1-5]|57014|55P03|40001|40P01|25P0[34])$/;

/**
 * Matches the PostgreSQL error codes (SQLSTATE) for a lost or rejected connection: the server stops, starts or has
 * crashed.
 */
const lostStates = /^(08...|57P0[1-3])$/;

const isConnectionFailure = (error: unknown): boolean => {
  const code = codeOf(error);
  return connectionCodes.has(code) || troubleStates.test(code);
};

/**
 * Returns true if an error, or its cause, means that a connection to the database was lost or could not be opened.
 * Returns false for errors that the server itself returns while it is running, such as a deadlock.
 */
export function isConnectionLost(error: unknown): boolean {
  const code = codeOf(error instanceof DomainError ? error.cause : error);
  return connectionCodes.has(code) || lostStates.test(code);
}

function codeOf(error: unknown): string {
  const { code } = Object(error) as { code?: unknown };
  return typeof code === 'string' ? code : '';
}
