import type { Config } from '../process/config.ts';
import type { ConnectionOptions, QueryPlans, Sql } from './connection.ts';
import { ExclusiveLane, SharedLane } from './lanes.ts';

/**
 * Maximum number of operations at the same time for each shared connection. Their queries are sent at once; the server
 * executes those on one connection one after another.
 */
const pipelineDepth = 64;

/** What is needed to open lanes (groups of database connections). */
export interface LaneSource {
  config: Config;
  /** Settings of the query planner. */
  plans: QueryPlans;
  /** Opens connections. */
  connect: (options: ConnectionOptions) => Sql;
}

/**
 * Creates a lane whose connections are shared by many short reads at the same time.
 * @param name The name of the lane in the metrics.
 * @param max The number of connections.
 */
export function openSharedLane({ config, plans, connect }: LaneSource, name: string, max: number): SharedLane<Sql> {
  return new SharedLane(connect({ max, ...plans.plannedOnce }), {
    name,
    limit: max * pipelineDepth,
    maxWaiting: config.DATABASE_QUEUE_LENGTH,
    maxWaitMs: config.DATABASE_QUEUE_MS,
  });
}

/**
 * Creates a lane that gives each operation a connection of its own.
 * @param limit The maximum number of connections.
 */
export function openExclusiveLane(
  { config, connect }: LaneSource,
  name: string,
  limit: number,
  options: Omit<ConnectionOptions, 'max'>,
): ExclusiveLane<Sql> {
  return new ExclusiveLane((onclose) => connect({ max: 1, onclose, ...options }), {
    name,
    limit,
    maxWaiting: config.DATABASE_QUEUE_LENGTH,
    maxWaitMs: config.DATABASE_QUEUE_MS,
  });
}

/** Three lanes (groups of database connections): for look-ups, for searches and for transactions. */
export class LaneSet {
  readonly lookup: SharedLane<Sql>;
  readonly search: ExclusiveLane<Sql>;
  readonly transaction: ExclusiveLane<Sql>;

  /** @param suffix The end of the lanes' names in the metrics, such as the name of a node. */
  constructor(source: LaneSource, suffix = '') {
    const { config, plans } = source;
    this.lookup = openSharedLane(source, `lookup${suffix}`, config.DATABASE_LOOKUP_CONNECTIONS);
    this.search = openExclusiveLane(source, `search${suffix}`, config.DATABASE_SEARCH_CONNECTIONS, plans.plannedAnew);
    this.transaction = openExclusiveLane(
      source,
      `transaction${suffix}`,
      config.DATABASE_TRANSACTION_CONNECTIONS,
      plans.plannedOnce,
    );
  }

  /** The three lanes. */
  get lanes(): readonly (SharedLane<Sql> | ExclusiveLane<Sql>)[] {
    return [this.lookup, this.search, this.transaction];
  }

  /** Waits at most 10 s for running operations, then closes all connections. */
  async close(): Promise<void> {
    await Promise.all(this.lanes.map((lane) => lane.close()));
  }

  /** Closes all connections at once, so that running operations fail. */
  abandon(): void {
    for (const lane of this.lanes) lane.abandon();
  }
}
