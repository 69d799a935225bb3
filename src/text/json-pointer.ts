/**
 * Maximum length of a name or a pointer (UTF-16 units); the rest is cut. An error answer shows less than that
 * (src/plugins/fault-list.ts).
 */
const maxLength = 1_000;

/** Escapes a property name for a JSON pointer (RFC 6901). The cost does not depend on the length of the name. */
export const escapePointer = (name: string): string => beginningOf(name).replaceAll('~', '~0').replaceAll('/', '~1');

/** Returns the beginning of a name. A cut name is copied: a slice would keep the whole name in memory. */
const beginningOf = (name: string): string =>
  name.length > maxLength ? Array.from(name.slice(0, maxLength)).join('') : name;

/** Returns the JSON pointer to a value of a body, from its property names and array indexes. */
export function pointerTo(tokens: readonly (string | number)[]): string {
  let pointer = '';
  for (const token of tokens) {
    if (pointer.length > maxLength) break;
    pointer += `/${escapePointer(String(token))}`;
  }
  return pointer;
}
