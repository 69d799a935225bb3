/** Returns the length in code points, as JSON Schema counts. */
export function lengthOf(text: string): number {
  let length = 0;
  for (const _ of text) length += 1;
  return length;
}

/** Returns whether PostgreSQL can store a text: it takes no NUL character and no lone surrogate. */
export const isStorable = (text: string): boolean => !text.includes('\0') && text.isWellFormed();
