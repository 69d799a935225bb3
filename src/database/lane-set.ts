import type { Config } from '../process/config.ts';
import type { ConnectionOptions, QueryPlans, Sql } from './connection.ts';
import { ExclusiveLane, SharedLane } from './lanes.ts';

/** Operations at the same time on each shared connection. The server executes their queries one after another. */
const pipelineDepth = 64;

export interface LaneSource {
  config: Config;
  plans: QueryPlans;
  connect: (options: ConnectionOptions) => Sql;
}

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
 * @param limit number of connections
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

export class LaneSet {
  readonly lookup: SharedLane<Sql>;
  readonly search: ExclusiveLane<Sql>;
  readonly transaction: ExclusiveLane<Sql>;

  constructor(source: LaneSource) {
    const { config, plans } = source;
    this.lookup = openSharedLane(source, 'lookup', config.DATABASE_LOOKUP_CONNECTIONS);
    this.search = openExclusiveLane(source, 'search', config.DATABASE_SEARCH_CONNECTIONS, plans.plannedAnew);
    this.transaction = openExclusiveLane(
      source,
      'transaction',
      config.DATABASE_TRANSACTION_CONNECTIONS,
      plans.plannedOnce,
    );
  }

  get lanes(): readonly (SharedLane<Sql> | ExclusiveLane<Sql>)[] {
    return [this.lookup, this.search, this.transaction];
  }

  async close(): Promise<void> {
    await Promise.all(this.lanes.map((lane) => lane.close()));
  }
}
