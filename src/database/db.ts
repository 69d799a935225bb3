import { randomUUID } from 'node:crypto';
import type { FastifyBaseLogger } from 'fastify';
import type { Config } from '../process/config.ts';
import type { Gate } from '../limits/gate.ts';
import type { EventSource } from '../schemas/events/types.ts';
import { CallerHungUp, serviceItself, type Requester } from '../credentials/requester.ts';
import {
  connect,
  plansOfCitus,
  plansOfPostgres,
  type ConnectionOptions,
  type Sql,
  type Transaction,
} from './connection.ts';
import { LaneSet, openExclusiveLane, openSharedLane, type LaneSource } from './lane-set.ts';
import type { Origin } from './origin.ts';
import { Outages } from './outages.ts';
import { Transactions } from './transactions.ts';

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
