/**
 * Where the rows of a table are stored in a database that is distributed over several machines with Citus:
 *
 * - `distributed`: all rows of a customer are stored on the same worker.
 * - `reference`: each machine stores all rows. A write fails if a machine is down.
 * - `local`: the coordinator stores all rows.
 */
type Placement = 'distributed' | 'reference' | 'local';

/**
 * Tables of which each machine stores a full copy in a distributed database. These tables seldom change. Distributed
 * tables refer to them or are joined with them.
 */
const referenceTables = new Set(['customers', 'prospects', 'subscription_tiers', 'users']);

// Keys and sessions are read before a request can know which worker has the customer's rows. What is written for every
// customer, such as the last use of a key, must not depend on all workers.
/** Tables that are stored only on the coordinator in a distributed database. */
const localTables = new Set([
  'api_keys',
  'audit_events',
  'catalog_imports',
  'catalog_state',
  'catalogs',
  'failed_logins',
  'held_people',
  'password_links',
  'privacy_log',
  'prospect_values',
  'schema_migrations',
  'sessions',
  'suppressions',
]);

/** Returns where the rows of a table are stored in a distributed database. The table must be in the schema `public`. */
export function placementOf(table: string): Placement {
  if (referenceTables.has(table)) return 'reference';
  return localTables.has(table) ? 'local' : 'distributed';
}

/** The column whose value determines on which worker a row of a distributed table is stored. */
export const distributionColumn = 'customer_id';
