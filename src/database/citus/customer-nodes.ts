import type postgres from 'postgres';

type Read = <T>(work: (sql: postgres.Sql) => Promise<T>) => Promise<T>;

/** Maximum number of customers whose shards are cached. When it is reached, the cache is emptied. */
const mostCustomers = 100_000;
/**
 * Age at which the nodes of the shards are read again, because shards can be moved to other nodes (ms). They are read
 * in the background of the next call, which still gets the old result.
 */
const maxAgeMs = 5_000;
/**
 * Number of random ids among which an id for each node is searched for. With n shards, one in n is in a given shard.
 */
const candidates = 20_000;

/**
 * Finds the node of a distributed database (Citus) that has a customer's rows. The result can be out of date after
 * shards were moved: use it to separate the load of the nodes, not to address a node.
 */
export class CustomerNodes {
  readonly #read: Read;
  readonly #shards = new Map<string, string>();
  #nodes = new Map<string, string>();
  /** For each node, an id whose rows would be there, if a customer had it. */
  #samples = new Map<string, string>();
  #readAt = -Infinity;
  #reading: Promise<void> | undefined;

  constructor(read: Read) {
    this.#read = read;
  }

  /** Returns the node of a customer as `host:port`; as a promise, if it must be read from the database first. */
  find(customerId: string): string | Promise<string> {
    const node = this.#nodes.get(this.#shards.get(customerId) ?? '');
    if (node === undefined) return this.#findUnknown(customerId);
    this.#refreshIfOld();
    return node;
  }

  /** Returns all nodes as `host:port`; as a promise, if they must be read from the database first. */
  all(): Iterable<string> | Promise<Iterable<string>> {
    if (this.#samples.size === 0) return this.#refresh().then(() => this.#samples.keys());
    this.#refreshIfOld();
    return this.#samples.keys();
  }

  /**
   * Returns an id for test queries to a node: rows of a customer with this id would be on that node. Returns undefined
   * if the node has no shards.
   */
  sampleOn(node: string): string | undefined {
    return this.#samples.get(node);
  }

  async #findUnknown(customerId: string): Promise<string> {
    const [row] = await this.#read(
      (sql) => sql<[{ shard: string }]>`
        select get_shard_id_for_distribution_column('contacts', ${customerId}::uuid)::text as shard`,
    );
    if (this.#shards.size >= mostCustomers) this.#shards.clear();
    this.#shards.set(customerId, row.shard);
    if (!this.#nodes.has(row.shard)) await this.#refresh();
    return this.#nodes.get(row.shard)!;
  }

  #refreshIfOld(): void {
    if (performance.now() - this.#readAt > maxAgeMs) void this.#refresh().catch(() => undefined);
  }

  #refresh(): Promise<void> {
    return (this.#reading ??= this.#readNodes().finally(() => (this.#reading = undefined)));
  }

  async #readNodes(): Promise<void> {
    this.#readAt = performance.now();
    const nodes = new Map(
      await this.#read(async (sql) => {
        const rows = await sql<{ shard: string; node: string }[]>`
          select shardid::text as shard, nodename || ':' || nodeport as node
          from pg_dist_shard
          join pg_dist_placement using (shardid)
          join pg_dist_node using (groupid)
          where logicalrelid = 'contacts'::regclass and noderole = 'primary'
          order by shardid`;
        return rows.map(({ shard, node }) => [shard, node] as const);
      }),
    );
    if (!isSame(nodes, this.#nodes)) this.#samples = await this.#readSamples();
    this.#nodes = nodes;
  }

  #readSamples(): Promise<Map<string, string>> {
    return this.#read(async (sql) => {
      const rows = await sql<{ node: string; id: string }[]>`
        with ids as materialized (
          select id, uuid_hash(id) as hash
          from (select gen_random_uuid() as id from generate_series(1, ${candidates}::integer)) random
        ),
        shards as (
          select distinct on (node) nodename || ':' || nodeport as node, shardminvalue::integer as low, shardmaxvalue::integer as high
          from pg_dist_shard
          join pg_dist_placement using (shardid)
          join pg_dist_node using (groupid)
          where logicalrelid = 'contacts'::regclass and noderole = 'primary'
          order by node
        )
        select node, sample.id
        from shards
        cross join lateral (select id from ids where hash between low and high limit 1) sample`;
      return new Map(rows.map(({ node, id }) => [node, id]));
    });
  }
}

const isSame = (a: Map<string, string>, b: Map<string, string>): boolean =>
  a.size === b.size && [...a].every(([key, value]) => b.get(key) === value);
