import { LRUCache } from 'lru-cache';
import type { SharedDatabase, Sql } from './db.ts';

/**
 * Returns a function that loads one record by its key, or undefined. Calls in the same round of the event loop share
 * one call of `load`.
 * @param keyOf converts a key to a unique string
 * @param load returns only records that exist
 * @param keyOfFound returns the key of a loaded record
 * @param maxKeys of one call of `load`
 */
export function batchLookups<K, V>(
  keyOf: (key: K) => string,
  load: (keys: K[]) => Promise<V[]>,
  keyOfFound: (found: V) => K,
  maxKeys = Infinity,
): (key: K) => Promise<V | undefined> {
  let batch: { keys: Map<string, K>; loaded: Promise<Map<string, V>> } | undefined;

  const open = () => {
    const keys = new Map<string, K>();
    // Requests of one round arrive in separate callbacks of the poll phase; the check phase runs after all of them.
    const closed = new Promise<void>((resolve) => {
      setImmediate(() => {
        batch = undefined;
        resolve();
      });
    });
    const loaded = closed.then(async () => {
      const found = await load([...keys.values()]);
      return new Map(found.map((record) => [keyOf(keyOfFound(record)), record]));
    });
    return { keys, loaded };
  };

  return async (key) => {
    const name = keyOf(key);
    // A batch that has started is never joined, so the data is not older than this call.
    batch ??= open();
    batch.keys.set(name, key);
    const { keys, loaded } = batch;
    if (keys.size >= maxKeys) batch = undefined;
    return (await loaded).get(name);
  };
}

/** Maximum number of records that one statement reads. */
const maxRecords = 16;

/**
 * Returns a function that reads one record of a customer, or undefined. Reads for the same customer in the same round of
 * the event loop share one statement.
 */
export function recordReader<Row extends { id: string }>(
  db: Pick<SharedDatabase, 'for'>,
  find: (sql: Sql, customerId: string, ids: string[]) => Promise<Row[]>,
): (customerId: string, id: string) => Promise<Row | undefined> {
  const readers = new LRUCache<string, (id: string) => Promise<Row | undefined>>({ max: 1_000 });
  const open = (customerId: string) => {
    const load = (ids: string[]) => db.for({ customerId }, null).lookup((sql) => find(sql, customerId, ids));
    const reader = batchLookups(String, load, ({ id }) => id, maxRecords);
    readers.set(customerId, reader);
    return reader;
  };
  return (customerId, id) => (readers.get(customerId) ?? open(customerId))(id);
}
