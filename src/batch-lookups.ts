/**
 * Returns a function that looks up a record by key. Calls made in one round of the event loop share one query. A call
 * never joins a query that has already started, so it never gets older data than at its own start.
 * @param keyOf returns a text that identifies a key
 * @param load loads the records of the given distinct keys; it leaves out keys that have no record
 * @param keyOfFound returns the key of a loaded record
 */
export function batchLookups<K, V>(
  keyOf: (key: K) => string,
  load: (keys: K[]) => Promise<V[]>,
  keyOfFound: (found: V) => K,
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
    batch ??= open();
    batch.keys.set(name, key);
    return (await batch.loaded).get(name);
  };
}
