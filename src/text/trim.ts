/**
 * White space, and marks that nobody sees: zero-width characters, and those that set the direction of writing. Phones, web
 * pages and address books leave them around what people copy.
 */
const blank = /[\s\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/;

/** Removes white space and invisible marks at both ends of a text. */
export function trimText(given: string): string {
  const text = given.trim(); // faster for long white space
  let [start, end] = [0, text.length];
  while (start < end && blank.test(text[start]!)) start += 1;
  while (end > start && blank.test(text[end - 1]!)) end -= 1;
  return text.slice(start, end);
}
