/** Maximum length of a property name or a JSON pointer (UTF-16 units). A longer name or pointer is cut. */
const maxLength = 1_000;

/** Escapes a property name for use in a JSON pointer (RFC 6901). A very long name is cut first. */
export const escapePointer = (name: string): string => beginningOf(name).replaceAll('~', '~0').replaceAll('/', '~1');

/** Returns the first `maxLength` UTF-16 units of a property name. */
// The result is a copy: a slice would keep the whole name in memory.
const beginningOf = (name: string): string =>
  name.length > maxLength ? Array.from(name.slice(0, maxLength)).join('') : name;

/**
 * Returns the JSON pointer to a value in a request body.
 * @param tokens the property names and array indexes on the way to the value
 */
export function pointerTo(tokens: readonly (string | number)[]): string {
  let pointer = '';
  for (const token of tokens) {
    if (pointer.length > maxLength) break;
    pointer += `/${escapePointer(String(token))}`;
  }
  return pointer;
}
