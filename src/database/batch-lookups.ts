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
