/** Maximum length of a name or pointer (UTF-16 units). A longer one is cut. */
const maxLength = 1_000;

/** Escapes a property name (RFC 6901). A very long name is cut first. */
export const escapePointer = (name: string): string => beginningOf(name).replaceAll('~', '~0').replaceAll('/', '~1');

/** Returns the first `maxLength` UTF-16 units as a copy: a slice would keep the whole name in memory. */
const beginningOf = (name: string): string =>
  name.length > maxLength ? Array.from(name.slice(0, maxLength)).join('') : name;

/** @param tokens property names and array indexes on the way to the value */
export function pointerTo(tokens: readonly (string | number)[]): string {
  let pointer = '';
  for (const token of tokens) {
    if (pointer.length > maxLength) break;
    pointer += `/${escapePointer(String(token))}`;
  }
  return pointer;
}

export const tokensOf = (pointer: string): string[] =>
  pointer
    .split('/')
    .slice(1)
    .map((token) => token.replaceAll('~1', '/').replaceAll('~0', '~'));
