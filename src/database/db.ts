import type { FastifyBaseLogger } from 'fastify';
import type { Config } from '../process/config.ts';
import type { Gate } from '../limits/gate.ts';
import type { EventSource } from '../schemas/events/types.ts';
import { allCustomers, CallerHungUp, serviceItself, type Requester } from '../credentials/requester.ts';
import {
  connect,
  plansOfCitus,
  plansOfPostgres,
  type ConnectionOptions,
  type Sql,
  type Transaction,
} from './connection.ts';
import { CustomerNodes } from './citus/customer-nodes.ts';
import { coordinatorItself, DistributedLanes } from './citus/distributed-lanes.ts';
import { LaneSet, openExclusiveLane, openSharedLane, type LaneSource } from './lane-set.ts';
import type { Probe } from './citus/node-monitor.ts';
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

/** Each query has at most four seconds; then it is cancelled and rejects. */
interface HealthChecks {
  /** For tables of the whole service. */
  service<T>(work: (sql: Sql) => Promise<T>): Promise<T>;
  /** For rows of all customers. In a distributed database, fails while a node is down. */
  allCustomers<T>(work: (sql: Sql) => Promise<T>): Promise<T>;
}

/** Time of one query (ms). The supplied proxies wait five seconds for the answer. */
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
  /** Divides customers by the nodes that have their rows. One group, if the database is on one server. */
  groupByNode(customerIds: readonly string[]): Promise<string[][]>;
  /** Reads API keys and sessions on separate connections, so that the work of customers cannot delay it. */
  credentials<T>(work: (sql: Sql) => Promise<T>): Promise<T>;
  /** Does not depend on the load that callers cause. */
  readonly health: HealthChecks;
  /** Of each lane, for metrics. */
  readonly gates: readonly Gate[];
  /** Whether each node that this process has used responds. Empty for a database on one server. */
  readonly nodes: readonly { node: string; isUp: boolean }[];
  /** True from an error which says that the disk is full until a later transaction has written data. */
  readonly isDiskFull: boolean;
  logOutages(log: FastifyBaseLogger): void;
  /** Rejects new calls, waits at most 10 s for running ones, and closes all connections. */
  close(): Promise<void>;
}

/** Connections are opened at their first use. */
export function openDatabase(config: Config, url: string, { distributed = false } = {}): SharedDatabase {
  const plans = distributed ? plansOfCitus : plansOfPostgres;
  const open = (options: ConnectionOptions) =>
    connect(config, url, { ...options, onclose: () => (options.onclose?.(), outages.suspect()) });
  const source: LaneSource = { config, plans, connect: open };
  // A connection of its own, because the lanes reject work while they are full.
  const test = open({ max: 1, ...plans.plannedOnce });
  const outages = new Outages(() => test`select 1`);
  const credentials = openSharedLane(source, 'credentials', config.DATABASE_CREDENTIAL_CONNECTIONS);
  const server = new LaneSet(source);
  const nodes = distributed ? openNodes(source, server, url) : undefined;
  const run = <T>({ customerId }: Requester, work: (lanes: LaneSet) => Promise<T>): Promise<T> =>
    nodes ? nodes.run(customerId, work) : work(server);
  const transactions = new Transactions();
  const health = openExclusiveLane(source, 'health', 2, { ...plans.plannedOnce, max_lifetime: healthLifetime });
  const checkAs =
    (customerId: string): HealthChecks['service'] =>
    (work) => {
      const requester = { customerId, signal: AbortSignal.timeout(healthMs) };
      // Nodes of a distributed database that do not respond are known to their lanes.
      return nodes && customerId === allCustomers ? use(requester, null).lookup(work) : health.run(requester, work);
    };
  const isRecording = config.EVENTS === 'on';
  const use = (requester: Requester, source: EventSource | null): Database => ({
    lookup: (work) => run(requester, ({ lookup }) => lookup.run(requester, work)),
    search: (work) => run(requester, ({ search }) => search.run(requester, work)),
    transaction: <T>(work: (sql: Transaction) => Promise<T>) =>
      run(requester, ({ transaction }) =>
        transaction.run(requester, (sql) => transactions.run(sql, { source, isRecording }, work), isTimeUp),
      ),
  });
  return {
    ...use({ customerId: serviceItself }, 'command'),
    for: use,
    groupByNode: async (ids) => (nodes ? nodes.group(ids) : [[...ids]]),
    credentials: (work) => credentials.runAlone(work),
    health: { service: checkAs(serviceItself), allCustomers: checkAs(allCustomers) },
    get nodes() {
      return nodes?.states ?? [];
    },
    get isDiskFull() {
      return transactions.isDiskFull;
    },
    get gates() {
      return [credentials, ...(nodes?.sets ?? [server]).flatMap(({ lanes }) => lanes)].map(({ gate }) => gate);
    },
    logOutages: (log) => {
      outages.logTo(log);
      nodes?.logTo(log);
    },
    close: async () => {
      outages.close();
      await Promise.all([credentials.close(), health.close(), (nodes ?? server).close(), test.end({ timeout: 1 })]);
    },
  };
}

/** @param coordinator the connections for tables that only the coordinator has */
function openNodes(source: LaneSource, coordinator: LaneSet, url: string): DistributedLanes<LaneSet> {
  const { config, plans } = source;
  const customers = new CustomerNodes((work) => coordinator.lookup.runAlone(work));
  return new DistributedLanes(coordinator, {
    customers,
    open: (suffix) => new LaneSet(source, suffix),
    openProbe: (node) => {
      const sql = connect(config, url, { max: 1, ...plans.plannedOnce });
      return node === coordinatorItself ? probeCoordinator(sql) : probe(sql, () => customers.sampleOn(node));
    },
    silenceMs: config.DATABASE_NODE_SILENCE_MS,
  });
}

/**
 * Creates the test query of a node.
 * @param sql a connection that nothing else uses, because the query may wait long
 * @param sample returns a customer id whose rows would be on the node (no customer has it), or undefined if none can be
 * there. Then nothing is sent, and the node counts as up
 */
function probe(sql: Sql, sample: () => string | undefined): Probe {
  return {
    send: async () => {
      const id = sample();
      // Of a small table that no maintenance locks for long: a lock must not look like a node that is down.
      if (id !== undefined) await sql`select from credit_balances where customer_id = ${id}::uuid limit 1`;
    },
    close: () => void sql.end({ timeout: 0 }),
  };
}

/** Needs no other node. */
const probeCoordinator = (sql: Sql): Probe => ({
  send: () => sql`select 1`,
  close: () => void sql.end({ timeout: 0 }),
});

/** True if an abort must cancel the transaction. It continues if the caller has only closed the HTTP connection. */
const isTimeUp = (reason: unknown): boolean => !(reason instanceof CallerHungUp);
