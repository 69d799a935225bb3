import type { FastifyBaseLogger } from 'fastify';
import type { Config } from '../process/config.ts';
import type { Gate } from '../limits/gate.ts';
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

export type { Sql, Transaction } from './connection.ts';

/**
 * Access to the database. Look-ups, searches and transactions use separate connections, so that slow searches do not
 * delay other work. A temporary failure (such as a timeout, a deadlock or a lost connection) throws the DomainError
 * `unavailable`.
 */
export interface Database {
  /** Runs short queries whose SQL text is constant. The queries use prepared statements on a few shared connections. */
  lookup<T>(work: (sql: Sql) => Promise<T>): Promise<T>;
  /**
   * Runs queries whose SQL text or cost depends on the request, such as searches. Each call has its own connection.
   * PostgreSQL plans each query for its actual parameter values.
   */
  search<T>(work: (sql: Sql) => Promise<T>): Promise<T>;
  /**
   * Runs `work` in a transaction. Rolls the transaction back if `work` throws.
   * @throws DomainError `unavailable` after a temporary failure. If the connection was lost during the commit, the
   * transaction may be committed all the same.
   */
  transaction<T>(work: (sql: Transaction) => Promise<T>): Promise<T>;
}

/** Runs the queries of health checks. Each has at most four seconds; then it is cancelled and rejects. */
export interface HealthChecks {
  /** Runs queries that read only tables of the whole service. */
  service<T>(work: (sql: Sql) => Promise<T>): Promise<T>;
  /** Runs queries that read the rows of all customers. In a distributed database, they fail while a node is down. */
  allCustomers<T>(work: (sql: Sql) => Promise<T>): Promise<T>;
}

/** Maximum time of one query of a health check (ms). The supplied proxies wait five seconds for the answer. */
const healthMs = 4_000;

/**
 * The database connections of the whole process. The methods of `Database` run the service's own work. For the work of
 * a customer, use the object that `for` returns.
 */
export interface SharedDatabase extends Database {
  /**
   * Returns the database access for the work of one customer. If the abort signal of `requester` fires, a running call
   * rejects, and its search or transaction is cancelled. Exception: if the caller has only closed the HTTP connection,
   * the call rejects, but its transaction continues until it ends or the time limit of the request is reached.
   */
  for(requester: Requester): Database;
  /**
   * Runs queries that read API keys and sessions to authenticate callers. The queries use separate connections, so that
   * the work of customers cannot delay them.
   */
  credentials<T>(work: (sql: Sql) => Promise<T>): Promise<T>;
  /** The database access of health checks. It does not depend on the load that callers cause. */
  readonly health: HealthChecks;
  /** For each group of connections, the `Gate` that limits the number of concurrent operations. Used for metrics. */
  readonly gates: readonly Gate[];
  /**
   * For each node of a distributed database that this process has used so far, whether it responds. Empty for a
   * database on one server.
   */
  readonly nodes: readonly { node: string; isUp: boolean }[];
  /**
   * True if the disk of the database is full: from the error of a transaction that says so until a later transaction
   * has written data.
   */
  readonly isDiskFull: boolean;
  /**
   * Starts to log outages of the database: one line when the database becomes unavailable, and one line when it is
   * available again.
   */
  logOutages(log: FastifyBaseLogger): void;
  /** Rejects new calls, waits at most 10 s for the running calls, and closes all connections. */
  close(): Promise<void>;
}

/**
 * Creates the object through which this process uses the database. Connections are opened at their first use.
 * @param distributed True if the tables of the database are distributed over several machines with Citus.
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
  const server = new LaneSet(source);
  const nodes = distributed ? openNodes(source, server, url) : undefined;
  const run = <T>({ customerId }: Requester, work: (lanes: LaneSet) => Promise<T>): Promise<T> =>
    nodes ? nodes.run(customerId, work) : work(server);
  const transactions = new Transactions();
  const health = openExclusiveLane(source, 'health', 2, plans.plannedOnce);
  const checkAs =
    (customerId: string): HealthChecks['service'] =>
    (work) => {
      const requester = { customerId, signal: AbortSignal.timeout(healthMs) };
      // Nodes of a distributed database that do not respond are known to their lanes.
      return nodes && customerId === allCustomers ? use(requester).lookup(work) : health.run(requester, work);
    };
  const use = (requester: Requester): Database => ({
    lookup: (work) => run(requester, ({ lookup }) => lookup.run(requester, work)),
    search: (work) => run(requester, ({ search }) => search.run(requester, work)),
    transaction: <T>(work: (sql: Transaction) => Promise<T>) =>
      run(requester, ({ transaction }) => transaction.run(requester, (sql) => transactions.run(sql, work), isTimeUp)),
  });
  return {
    ...use({ customerId: serviceItself }),
    for: use,
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

/**
 * Creates the connections to the nodes of a distributed database.
 * @param coordinator The connections for tables that only the coordinator has.
 */
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
 * Creates the test query for a node of a distributed database.
 * @param sql A connection that nothing else uses, because the query may wait for a long time.
 * @param sample Returns a customer id whose rows would be on the node (no customer has it), or undefined if no
 * customer's rows can be there. Then nothing is sent, and the node counts as up.
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

/** Creates the test query for the coordinator of a distributed database. It needs no other node. */
const probeCoordinator = (sql: Sql): Probe => ({
  send: () => sql`select 1`,
  close: () => void sql.end({ timeout: 0 }),
});

/**
 * Returns true if an abort must cancel the running transaction. Returns false if the caller has closed the HTTP
 * connection: in this case the transaction continues.
 * @param reason The reason of the abort signal.
 */
const isTimeUp = (reason: unknown): boolean => !(reason instanceof CallerHungUp);
