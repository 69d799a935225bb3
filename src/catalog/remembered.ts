/** How much a function remembers: at least so many texts, at most twice as many, none longer than this (UTF-16 units). */
const limits = { most: 10_000, longest: 64 };

/**
 * The same function, with a memory of what it made lately: names, titles and places repeat. The older half is forgotten at
 * a time. What is made is shared, and must not depend on anything but the text.
 */
export function remembered<T extends string | object>(make: (text: string) => T): (text: string) => T {
  let lately = new Map<string, T>();
  let before = lately;
  return (text) => {
    const known = lately.get(text);
    if (known !== undefined) return known;
    const made = before.get(text) ?? make(text);
    if (text.length > limits.longest) return made;
    if (lately.size >= limits.most) [lately, before] = [new Map(), lately];
    lately.set(text, made);
    return made;
  };
}
