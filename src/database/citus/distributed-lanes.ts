import type { FastifyBaseLogger } from 'fastify';
import { allCustomers, serviceItself } from '../../credentials/requester.ts';
import type { CustomerNodes } from './customer-nodes.ts';
import { databaseUnavailable } from '../lanes.ts';
import { NodeMonitor, type Probe } from './node-monitor.ts';

interface Closable {
  /** Waits at most 10 s for running operations, then closes all connections. */
  close(): Promise<void>;
  /** Closes all connections at once, so that running operations fail. */
  abandon(): void;
}

/** The name that stands for the coordinator where the name of a node is expected. */
export const coordinatorItself = 'coordinator';

interface Node<Lanes> {
  lanes: Lanes;
  monitor: NodeMonitor;
}

interface DistributedLanesOptions<Lanes> {
  customers: CustomerNodes;
  /**
   * Opens a set of connections to the coordinator.
   * @param name suffix for the names of the set in the metrics
   */
  open: (name: string) => Lanes;
  openProbe: (node: string) => Probe;
  /** Time without a response after which a node counts as down (ms). */
  silenceMs: number;
}

// All connections are to the coordinator, which passes the statements on. Statements that wait for a node that does not
// respond keep their connections, so the other nodes have connections of their own.
/**
 * The connections to a distributed database: a set of connections for each node, so that a node which does not respond
 * harms only its own customers. Work for these customers, and work that reads the rows of all customers, fails at once
 * until the node responds again.
 */
export class DistributedLanes<Lanes extends Closable> {
  readonly #options: DistributedLanesOptions<Lanes>;
  readonly #coordinator: Lanes;
  /** Tells silent nodes from a silent coordinator, through which all test queries go. */
  readonly #coordinatorMonitor: NodeMonitor;
  readonly #nodes = new Map<string, Node<Lanes>>();
  #everywhere: Lanes;
  #log: FastifyBaseLogger | undefined;

  /** @param coordinator the connections for work on tables that are not distributed: only the coordinator has them */
  constructor(coordinator: Lanes, options: DistributedLanesOptions<Lanes>) {
    this.#coordinator = coordinator;
    this.#options = options;
    this.#everywhere = options.open(':all');
    this.#coordinatorMonitor = new NodeMonitor({
      node: coordinatorItself,
      openProbe: () => options.openProbe(coordinatorItself),
      silenceMs: Infinity,
      onChange: () => undefined,
    });
  }

  get sets(): Lanes[] {
    return [this.#coordinator, this.#everywhere, ...[...this.#nodes.values()].map(({ lanes }) => lanes)];
  }

  get states(): { node: string; isUp: boolean }[] {
    return [...this.#nodes].map(([node, { monitor }]) => ({ node, isUp: monitor.isUp }));
  }

  /**
   * Runs `work` with the connections for a customer's node.
   * @param customerId id of the customer; or `serviceItself` for work on tables that only the coordinator has; or
   * `allCustomers` for work that needs all nodes
   * @throws DomainError `unavailable` if a node that the work needs does not respond
   */
  async run<T>(customerId: string, work: (lanes: Lanes) => Promise<T>): Promise<T> {
    if (customerId === serviceItself) return work(this.#coordinator);
    if (customerId === allCustomers) return this.#runEverywhere(work);
    const found = this.#options.customers.find(customerId);
    const { monitor, lanes } = this.#nodeOf(typeof found === 'string' ? found : await found);
    if (!monitor.isUp) throw databaseUnavailable();
    const result = await work(lanes);
    monitor.responded();
    return result;
  }

  async group(customerIds: readonly string[]): Promise<string[][]> {
    const nodes = await Promise.all(
      customerIds.map(async (id) => [await this.#options.customers.find(id), id] as const),
    );
    return Object.values(Object.groupBy(nodes, ([node]) => node)).map((group) => group!.map(([, id]) => id));
  }

  logTo(log: FastifyBaseLogger): void {
    this.#log = log;
    for (const { monitor } of this.#nodes.values()) monitor.logTo(log);
  }

  async close(): Promise<void> {
    for (const { monitor } of this.#nodes.values()) monitor.close();
    this.#coordinatorMonitor.close();
    await Promise.all(this.sets.map((lanes) => lanes.close()));
  }

  async #runEverywhere<T>(work: (lanes: Lanes) => Promise<T>): Promise<T> {
    const nodes = [...(await this.#options.customers.all())];
    if (!nodes.every((name) => this.#nodeOf(name).monitor.isUp)) throw databaseUnavailable();
    return work(this.#everywhere);
  }

  #nodeOf(name: string): Node<Lanes> {
    const known = this.#nodes.get(name);
    if (known) return known;
    const { open, openProbe, silenceMs } = this.#options;
    const onChange = (isUp: boolean) => {
      if (!isUp) this.#abandon(name);
    };
    const isExcused = () => this.#coordinatorMonitor.isDoubtful;
    const monitor = new NodeMonitor({ node: name, openProbe: () => openProbe(name), silenceMs, isExcused, onChange });
    if (this.#log) monitor.logTo(this.#log);
    const node = { lanes: open(`:${name}`), monitor };
    this.#nodes.set(name, node);
    return node;
  }

  /** Lets all running work that may wait for a node fail, and opens new connections for later work. */
  #abandon(name: string): void {
    const { open } = this.#options;
    const node = this.#nodes.get(name)!;
    const stuck = [node.lanes, this.#everywhere];
    node.lanes = open(`:${name}`);
    this.#everywhere = open(':all');
    for (const lanes of stuck) lanes.abandon();
  }
}
