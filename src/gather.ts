/**
 * Gathers the look-ups of one turn of the event loop into one statement. A look-up that arrives while a statement is under
 * way waits for the next one, so that what it gets was read after it asked.
 * @param keyOf what tells keys apart
 * @param load finds what it can of these keys, each given once
 * @param keyOfFound the key that a found record belongs to
 */
export function gather<K, V>(
  keyOf: (key: K) => string,
  load: (keys: K[]) => Promise<V[]>,
  keyOfFound: (found: V) => K,
): (key: K) => Promise<V | undefined> {
  let batch: { keys: Map<string, K>; loaded: Promise<Map<string, V>> } | undefined;

  const open = () => {
    const keys = new Map<string, K>();
    // Requests of one turn come in separate callbacks of the poll phase; the check phase follows them all.
    const closed = new Promise<void>((resolve) => {
      setImmediate(() => {
        batch = undefined;
        resolve();
      });
    });
    const loaded = closed.then(async () => {
      const found = await load([...keys.values()]);
      return new Map(found.map((one) => [keyOf(keyOfFound(one)), one]));
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
