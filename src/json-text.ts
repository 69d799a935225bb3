/** What JSON.parse does not tell of a text. */
export interface JsonShape {
  /** Levels of arrays and objects within each other, the outermost counted. */
  depth: number;
  /** Names that the text gives to members of objects; of a name given twice in one object, both. */
  names: number;
}

const [quote, backslash, colon, openArray, closeArray, openObject, closeObject] = Buffer.from('"\\:[]{}');

/** Reads the shape of a JSON text in one pass, without recursion. Of a text that is no JSON it means nothing. */
export function shapeOf(text: Buffer): JsonShape {
  let depth = 0;
  const shape = { depth: 0, names: 0 };
  for (let i = 0; i < text.length; i += 1) {
    const byte = text[i];
    if (byte === quote) i = endOfString(text, i + 1);
    else if (byte === colon) shape.names += 1;
    else if (byte === closeArray || byte === closeObject) depth -= 1;
    else if (byte === openArray || byte === openObject) {
      depth += 1;
      if (depth > shape.depth) shape.depth = depth;
    }
  }
  return shape;
}

/** The index of the quote that ends a string. */
function endOfString(text: Buffer, start: number): number {
  let i = start;
  while (i < text.length && text[i] !== quote) i += text[i] === backslash ? 2 : 1;
  return i;
}

/** How many members the objects of a JSON value have together. */
export function countMembers(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0;
  if (Array.isArray(value)) return value.reduce<number>((sum, element) => sum + countMembers(element), 0);
  let count = 0;
  for (const name in value) count += 1 + countMembers((value as Record<string, unknown>)[name]);
  return count;
}
