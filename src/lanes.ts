import { setTimeout as sleep } from 'node:timers/promises';
import { unavailable } from './errors.ts';
import { Gate, type GateLimits } from './gate.ts';
import type { Requester } from './requester.ts';

/** A driver instance, of one connection or several. */
interface Connections {
  end(options: { timeout: number }): Promise<void>;
}

/** Seconds that `close` waits for what is under way. */
const closeTimeout = 10;
/** Seconds that a place is kept at most for a connection that was cut off and that the server does not close. */
const cutTimeout = 15;

/** One driver instance for all works at once. Its statements are not cancelled: that could hit one of another work. */
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

  /** Runs work for a requester. */
  run<T>(requester: Requester, work: (sql: Sql) => Promise<T>): Promise<T> {
    return guarded(() => this.#gate.run(requester, () => work(this.#sql)));
  }

  /** Runs work for nobody in particular. */
  runAlone<T>(work: (sql: Sql) => Promise<T>): Promise<T> {
    return guarded(() => this.#gate.runAlone(() => work(this.#sql)));
  }

  async close(): Promise<void> {
    await emptied(this.#gate);
    await this.#sql.end({ timeout: 1 });
  }
}

/** A driver instance of one connection. */
interface Line<Sql> {
  sql: Sql;
  /** Called when the connection was closed. */
  closed: () => void;
}

/**
 * A driver instance of one connection for each work. The driver's own pool is known to hand one connection to two
 * transactions under load and on reconnects; here there is nothing to confuse.
 *
 * Work is cancelled by closing its connection. A cancel request could come late and hit the next statement of the
 * connection; what is closed has no next statement.
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
   * Runs work for a requester.
   * @param isToEnd tells by the reason of an abort whether the work is cancelled; else only the wait for it ends, and the work
   *   is cancelled when the requester's time is up
   */
  run<T>(
    requester: Requester,
    work: (sql: Sql) => Promise<T>,
    isToEnd: (reason: unknown) => boolean = () => true,
  ): Promise<T> {
    return guarded(() => this.#gate.run(requester, () => this.#admitted(work, requester, isToEnd)));
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

  /** Closes the connection and waits until the server has ended its work: for that long the place is in use. */
  async #cut(line: Line<Sql>): Promise<void> {
    this.#all.delete(line);
    const { promise: isClosed, resolve } = Promise.withResolvers<void>();
    line.closed = resolve;
    await line.sql.end({ timeout: 0 });
    await Promise.race([isClosed, sleep(cutTimeout * 1000, undefined, { ref: false })]);
  }
}

/** Waits until a gate has closed behind its last work, or that takes too long. */
const emptied = (gate: Gate): Promise<unknown> =>
  Promise.race([gate.close(), sleep(closeTimeout * 1000, undefined, { ref: false })]);

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
