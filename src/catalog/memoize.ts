/**
 * A full cache holds between `most` and 2 × `most` results. Those for texts longer than `longest` (UTF-16 units) are
 * not cached.
 */
const limits = { most: 10_000, longest: 64 };

/**
 * Caches the results of a pure function for recent texts. Do not change the results: all callers share them. The older
 * half of a full cache is deleted.
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
