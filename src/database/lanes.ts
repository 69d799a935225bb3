import { setTimeout as sleep } from 'node:timers/promises';
import { unavailable } from '../errors.ts';
import { Gate, type GateLimits } from '../limits/gate.ts';
import type { Requester } from '../requester.ts';

/** A driver instance with one or more connections. */
interface Connections {
  end(options: { timeout: number }): Promise<void>;
}

/** How long `close` waits for work in flight (seconds). */
const closeTimeout = 10;
/** How long a cancelled connection keeps its slot if the server does not close it (seconds). */
const cutTimeout = 15;

/**
 * A lane whose operations share one driver instance. Their statements are not cancelled: a cancel request could hit a
 * statement of another operation.
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

  /** Runs `work` for a requester, within the limits of the lane's gate. */
  run<T>(requester: Requester, work: (sql: Sql) => Promise<T>): Promise<T> {
    return translateErrors(() => this.#gate.run(requester, () => work(this.#sql)));
  }

  /** Runs `work` for no customer, within the limits of the lane's gate. */
  runAlone<T>(work: (sql: Sql) => Promise<T>): Promise<T> {
    return translateErrors(() => this.#gate.runAlone(() => work(this.#sql)));
  }

  async close(): Promise<void> {
    await emptied(this.#gate);
    await this.#sql.end({ timeout: 1 });
  }
}

/** A driver instance with a single connection. */
interface Line<Sql> {
  sql: Sql;
  /** Called when the connection has closed. */
  closed: () => void;
}

/**
 * A lane that gives each operation a connection of its own. The driver's own pool is known to hand one connection to
 * two transactions under load and on reconnects; a driver instance with one connection cannot.
 *
 * To cancel an operation, its connection is closed. A cancel request could arrive late and hit the next statement of
 * the connection; a closed connection has no next statement.
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
   * Runs `work` for a requester on a connection of its own.
   * @param isToEnd decides by the reason of an abort whether `work` is cancelled at once; if not, only the caller's
   *   wait ends, and `work` is cancelled when the requester's time is up
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
      return await work(line.sql);
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

  /** Closes the connection and waits until the server has ended its statement. Until then the slot stays in use. */
  async #cut(line: Line<Sql>): Promise<void> {
    this.#all.delete(line);
    const { promise: isClosed, resolve } = Promise.withResolvers<void>();
    line.closed = resolve;
    await line.sql.end({ timeout: 0 });
    await Promise.race([isClosed, sleep(cutTimeout * 1000, undefined, { ref: false })]);
  }
}

/** Closes a gate and waits for its last operation, up to `closeTimeout`. */
const emptied = (gate: Gate): Promise<unknown> =>
  Promise.race([gate.close(), sleep(closeTimeout * 1000, undefined, { ref: false })]);

/** Runs an operation and converts connection and server failures to `unavailable`. Other errors pass unchanged. */
async function translateErrors<T>(run: () => Promise<T>): Promise<T> {
  try {
    return await run();
  } catch (error) {
    throw isConnectionFailure(error) ? unavailable('The database does not answer at the moment', 1, error) : error;
  }
}

/** Error codes of the driver and the operating system for a lost connection or a failed attempt to connect. */
const connectionCodes = new Set(
  (
    'CONNECTION_CLOSED CONNECTION_ENDED CONNECTION_DESTROYED CONNECTION_SILENT CONNECT_TIMEOUT ' +
    'ECONNREFUSED ECONNRESET ECONNABORTED EPIPE ENOENT ETIMEDOUT EHOSTUNREACH ENETUNREACH ENOTFOUND EAI_AGAIN'
  ).split(' '),
);

/**
 * SQLSTATEs of temporary failures: connection exceptions (08), insufficient resources (53), operator intervention
 * (57P0x: shutdown, crash, starting up), cancelled or timed-out statements, lock timeouts, idle and long transactions,
 * serialisation failures and deadlocks. A retry can succeed after each of them.
 * @see https://www.postgresql.org/docs/18/errcodes-appendix.html
 */
const troubleStates = /^(08...|53...|57P0[1-5]|57014|55P03|40001|40P01|25P0[34])$/;

function isConnectionFailure(error: unknown): boolean {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  return typeof code === 'string' && (connectionCodes.has(code) || troubleStates.test(code));
}
