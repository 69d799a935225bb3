/** Longer names and pointers are cut here: an answer shows less of them (src/fault-list.ts). */
const longest = 1_000;

/** A name as a token of a JSON pointer (RFC 6901). The cost does not depend on how long the name is. */
export const escapePointer = (name: string): string => beginningOf(name).replaceAll('~', '~0').replaceAll('/', '~1');

/** A copy where it is cut: a slice would keep the whole name in memory. */
const beginningOf = (name: string): string =>
  name.length > longest ? Array.from(name.slice(0, longest)).join('') : name;

/** The JSON pointer to a place of a body. */
export function pointerTo(tokens: readonly (string | number)[]): string {
  let pointer = '';
  for (const token of tokens) {
    if (pointer.length > longest) break;
    pointer += `/${escapePointer(String(token))}`;
  }
  return pointer;
}
