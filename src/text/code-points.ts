/** Returns the length in code points, as JSON Schema counts. */
export function lengthOf(text: string): number {
  let length = 0;
  for (const _ of text) length += 1;
  return length;
}

/** PostgreSQL cannot store NUL characters and lone surrogates. */
export const isStorable = (text: string): boolean => !text.includes('\0') && text.isWellFormed();

const isSurrogate = (unit: number): boolean => unit >= 0xd800 && unit <= 0xdfff;

/**
 * Compares by Unicode code points, like PostgreSQL's collation "C". JavaScript's `<` compares UTF-16 units. Returns a
 * negative number if `a` comes first, 0 if both are equal, and a positive number if `b` comes first.
 */
export function compareTexts(a: string, b: string): number {
  // Surrogates stand for code points above all others. Lone surrogates are not allowed.
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i += 1) {
    const [x, y] = [a.charCodeAt(i), b.charCodeAt(i)];
    if (x !== y) return isSurrogate(x) === isSurrogate(y) ? x - y : isSurrogate(x) ? 1 : -1;
  }
  return a.length - b.length;
}
