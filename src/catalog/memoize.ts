/**
 * The limits of one cache: it holds at least the last `most` texts and at most twice as many. It does not store texts
 * longer than `longest` (UTF-16 units).
 */
const limits = { most: 10_000, longest: 64 };

/**
 * Wraps a pure function of a text with a cache of recent results, because names, titles and places repeat. When the
 * cache is full, its older half is dropped. Callers share the results and must not change them.
 */
export function memoize<T extends string | object>(make: (text: string) => T): (text: string) => T {
  let recent = new Map<string, T>();
  let older = recent;
  return (text) => {
    const known = recent.get(text);
    if (known !== undefined) return known;
    const result = older.get(text) ?? make(text);
    if (text.length > limits.longest) return result;
    if (recent.size >= limits.most) [recent, older] = [new Map(), recent];
    recent.set(text, result);
    return result;
  };
}
