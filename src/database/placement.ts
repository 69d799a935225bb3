/**
 * Where the rows of a table live in a database that is distributed over several machines with Citus.
 *
 * - `distributed`: each customer's rows are together on one worker.
 * - `reference`: every machine has all rows. Every machine must be up for a write.
 * - `local`: the coordinator has all rows.
 */
export type Placement = 'distributed' | 'reference' | 'local';

/**
 * Tables that seldom change. Rows of distributed tables refer to them, or queries join them with distributed tables.
 * Large catalogs of prospects are in Elasticsearch; the table `prospects` is then empty.
 */
const referenceTables = new Set(['customers', 'prospects', 'subscription_tiers', 'users']);

// Keys and sessions are read before a request can know which worker has the customer's rows. What is written for every
// customer, such as the last use of a key, must not depend on all workers.
/** Tables that only the coordinator has, although some of them belong to customers. */
const localTables = new Set([
  'api_keys',
  'audit_events',
  'catalog_imports',
  'catalog_state',
  'catalogs',
  'failed_logins',
  'prospect_values',
  'schema_migrations',
  'sessions',
  'worker_slots',
]);

/** Returns where a table of the schema `public` lives in a distributed database. */
export function placementOf(table: string): Placement {
  if (referenceTables.has(table)) return 'reference';
  return localTables.has(table) ? 'local' : 'distributed';
}

/** The column by which tables are distributed. */
export const distributionColumn = 'customer_id';
