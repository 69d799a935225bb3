import { setTimeout as sleep } from 'node:timers/promises';
import { DomainError, unavailable } from '../errors.ts';
import { ConcurrencyLimiter, type ConcurrencyLimits } from '../access/concurrency-limiter.ts';
import type { Requester } from '../access/credentials.ts';
import { inPool } from '../process/tracing.ts';
import type { Config } from '../process/config.ts';
import type { ConnectionOptions, QueryPlans, Sql } from './connection.ts';

const closeTimeout = 10;
/** Maximum seconds to wait until the server has closed the connection of a cancelled operation. */
const cutTimeout = 15;

/**
 * Opens a pool whose connections are shared by its operations. It never cancels a running statement, because the cancel
 * request could hit the statement of another operation.
 */
function sharedPool(sql: Sql, limits: ConcurrencyLimits) {
  const limiter = new ConcurrencyLimiter(limits);
  const traced = <T>(work: (sql: Sql) => Promise<T>) => inPool(limiter.name, () => work(sql));
  return {
    limiter,
    run: <T>(requester: Requester, work: (sql: Sql) => Promise<T>): Promise<T> =>
      translateErrors(() => limiter.run(requester, () => traced(work))),
    runAlone: <T>(work: (sql: Sql) => Promise<T>): Promise<T> =>
      translateErrors(() => limiter.runAlone(() => traced(work))),
    close: async (): Promise<void> => {
      await emptied(limiter);
      await sql.end({ timeout: 1 });
    },
  };
}

interface Line {
  sql: Sql;
  closed: () => void;
}

/**
 * Opens a pool in which each operation has a connection to itself. Each connection is a driver instance, because the
 * driver's own pool can give one connection to two transactions.
 * @see https://github.com/porsager/postgres/issues/1204
 */
function exclusivePool(connect: (onclose: () => void) => Sql, limits: ConcurrencyLimits) {
  const limiter = new ConcurrencyLimiter(limits);
  const all = new Set<Line>();
  const free: Line[] = [];

  function open(): Line {
    const line: Line = { sql: connect(() => line.closed()), closed: () => undefined };
    all.add(line);
    return line;
  }

  async function cut(line: Line): Promise<void> {
    // No cancel request: it could arrive late and hit the next statement on the connection. Until the server has closed
    // the connection, the operation counts as running.
    all.delete(line);
    const { promise: isClosed, resolve } = Promise.withResolvers<void>();
    line.closed = resolve;
    await line.sql.end({ timeout: 0 });
    await Promise.race([isClosed, sleep(cutTimeout * 1000, undefined, { ref: false })]);
  }

  async function admitted<T>(
    work: (sql: Sql) => Promise<T>,
    { signal, timeUp }: Requester,
    shouldCancel: (reason: unknown) => boolean,
  ): Promise<T> {
    const line = free.pop() ?? open();
    let cutting: Promise<void> | undefined;
    const cancel = () => void (cutting ??= cut(line));
    const abort = () => {
      if (shouldCancel(signal!.reason)) cancel();
    };
    signal?.addEventListener('abort', abort);
    timeUp?.addEventListener('abort', cancel);
    try {
      return await inPool(limiter.name, () => work(line.sql));
    } finally {
      signal?.removeEventListener('abort', abort);
      timeUp?.removeEventListener('abort', cancel);
      if (cutting) await cutting;
      else free.push(line);
    }
  }

  return {
    limiter,
    /**
     * Runs `work` on a free connection. Waits first if too many operations are running.
     * @param shouldCancel called with the reason when the requester's signal aborts. It returns true to cancel `work`
     * at once, or false to let it run until the request's time is up
     */
    run: <T>(
      requester: Requester,
      work: (sql: Sql) => Promise<T>,
      shouldCancel: (reason: unknown) => boolean = () => true,
    ): Promise<T> => translateErrors(() => limiter.run(requester, () => admitted(work, requester, shouldCancel))),
    close: async (): Promise<void> => {
      await emptied(limiter);
      await Promise.all([...all].map(({ sql }) => sql.end({ timeout: 1 })));
    },
  };
}

const emptied = (limiter: ConcurrencyLimiter): Promise<unknown> =>
  Promise.race([limiter.close(), sleep(closeTimeout * 1000, undefined, { ref: false })]);

async function translateErrors<T>(run: () => Promise<T>): Promise<T> {
  try {
    return await run();
  } catch (error) {
    throw isConnectionFailure(error) ? databaseUnavailable(error) : error;
  }
}

const databaseUnavailable = (cause?: unknown): DomainError =>
  unavailable('The database does not answer at the moment', 1, cause);

const connectionCodes = new Set(
  (
    'CONNECTION_CLOSED CONNECTION_ENDED CONNECTION_DESTROYED CONNECTION_SILENT CONNECT_TIMEOUT ' +
    'ECONNREFUSED ECONNRESET ECONNABORTED EPIPE ENOENT ETIMEDOUT EHOSTUNREACH ENETUNREACH ENOTFOUND EAI_AGAIN'
  ).split(' '),
);

// A refused login (28) is the operator's to mend. The caller's request is not at fault, and succeeds when it is mended.
/**
 * SQLSTATEs of temporary failures, after which a retry can succeed: connection errors (08), refused logins (28),
 * insufficient resources (53), shutdown, crash and start (57P0x), cancelled statements, timeouts, serialisation
 * failures, deadlocks.
 * @see https://www.postgresql.org/docs/18/errcodes-appendix.html
 */
const troubleStates = /^(08...|28000|28P01|53...|57P0[1-5]|57014|55P03|40001|40P01|25P0[34])$/;

const lostStates = /^(08...|28000|28P01|57P0[1-3])$/;

/**
 * Matches Citus's messages about a lost connection to a machine. Citus reports some as an internal error (XX000) or an
 * I/O error (58030).
 * @see https://github.com/citusdata/citus/blob/main/src/backend/distributed/commands/multi_copy.c and beside it
 */
const lostNodeMessages = new RegExp(
  '^(' +
    [
      'server closed the connection unexpectedly',
      'failure on connection marked as essential',
      'connection not open',
      'could not commit transaction for shard',
      'could not connect to any active placements',
      'cannot connect to ',
      'failed to (COPY to shard|complete COPY on|prepare transaction|read result) ',
    ].join('|') +
    ')',
);

const isConnectionFailure = (error: unknown): boolean => {
  const code = codeOf(error);
  if (code === 'XX000' || code === '58030') return lostNodeMessages.test((error as Error).message);
  return connectionCodes.has(code) || troubleStates.test(code);
};

export const isStatementTimeout = (error: unknown): boolean => codeOf(causeOf(error)) === '57014';

export const isLockTimeout = (error: unknown): boolean => codeOf(causeOf(error)) === '55P03';

export function isConnectionLost(error: unknown): boolean {
  const code = codeOf(causeOf(error));
  return connectionCodes.has(code) || lostStates.test(code);
}

const causeOf = (error: unknown): unknown => (error instanceof DomainError ? error.cause : error);

function codeOf(error: unknown): string {
  const { code } = Object(error) as { code?: unknown };
  return typeof code === 'string' ? code : '';
}

const pipelineDepth = 64;

/** Seconds after which a connection for health checks is replaced. */
const healthLifetime = 5;

export function openPools(
  config: Config,
  { genericPlans, customPlans }: QueryPlans,
  connect: (options: ConnectionOptions) => Sql,
) {
  const queue = { maxWaiting: config.DATABASE_QUEUE_LENGTH, maxWaitMs: config.DATABASE_QUEUE_MS };
  const shared = (name: string, max: number) =>
    sharedPool(connect({ max, ...genericPlans }), { name, limit: max * pipelineDepth, ...queue });
  const exclusive = (name: string, limit: number, options: Omit<ConnectionOptions, 'max'>) =>
    exclusivePool((onclose) => connect({ max: 1, onclose, ...options }), { name, limit, ...queue });
  return {
    credentials: shared('credentials', config.DATABASE_CREDENTIAL_CONNECTIONS),
    lookup: shared('lookup', config.DATABASE_LOOKUP_CONNECTIONS),
    search: exclusive('search', config.DATABASE_SEARCH_CONNECTIONS, customPlans),
    transaction: exclusive('transaction', config.DATABASE_TRANSACTION_CONNECTIONS, genericPlans),
    health: exclusive('health', 2, { ...genericPlans, max_lifetime: healthLifetime }),
  };
}
