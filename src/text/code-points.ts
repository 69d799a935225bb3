/** Returns the length of a text in code points. JSON Schema counts lengths in this way. */
export function lengthOf(text: string): number {
  let length = 0;
  for (const _ of text) length += 1;
  return length;
}

/** Returns true if PostgreSQL can store a text: it contains no NUL character and no lone surrogate. */
export const isStorable = (text: string): boolean => !text.includes('\0') && text.isWellFormed();

const isSurrogate = (unit: number): boolean => unit >= 0xd800 && unit <= 0xdfff;

/**
 * Compares two texts by Unicode code points, as PostgreSQL's collation "C" does. JavaScript's operator `<` compares
 * UTF-16 units instead. Returns a negative number if `a` comes first, 0 if both are equal, and a positive number if `b`
 * comes first.
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
