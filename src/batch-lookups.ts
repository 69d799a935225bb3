/**
 * Batches the look-ups of one event loop round into one query. A look-up that arrives while a query is running waits
 * for the next one, so it never returns data read before it was made.
 * @param keyOf returns a text that identifies a key
 * @param load finds the records of the given distinct keys; keys without a record are skipped
 * @param keyOfFound returns the key that a found record belongs to
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
