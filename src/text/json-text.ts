export interface JsonShape {
  /** Nesting depth of arrays and objects: 0 for a single number, 1 for `[]`, 2 for `[[]]`. */
  depth: number;
  /** Number of property names. One that occurs twice in an object counts twice. */
  names: number;
}

/** Maximum nesting depth of JSON that callers send. Recursive functions must not overflow the stack. */
export const maxJsonDepth = 64;

const [quote, backslash, colon, openArray, closeArray, openObject, closeObject] = Buffer.from('"\\:[]{}');

/** Meaningless if the text is not JSON. */
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

/**
 * Returns the index of the closing quote.
 * @param start the index after the opening quote
 */
function endOfString(text: Buffer, start: number): number {
  let i = start;
  while (i < text.length && text[i] !== quote) i += text[i] === backslash ? 2 : 1;
  return i;
}

/** A property's name could change the prototype of an object. */
export class PrototypeNamed extends Error {}

export const prototypeNamed = 'names a property `__proto__`, or `prototype` of a `constructor`, which is not allowed';

/**
 * Parses JSON whose nesting depth the caller has checked.
 * @throws PrototypeNamed if a property's name could change the prototype of an object
 * @throws SyntaxError if the text is not JSON
 */
export function parsePlain(text: string): unknown {
  const value: unknown = JSON.parse(text);
  // Names can be written with escapes.
  if (/__proto__|prototype|\\u/.test(text) && hasPrototypeName(value)) throw new PrototypeNamed();
  return value;
}

function hasPrototypeName(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  if (Array.isArray(value)) return value.some(hasPrototypeName);
  for (const name in value) {
    const member = (value as Record<string, unknown>)[name];
    if (name === '__proto__' || hasPrototypeName(member)) return true;
    if (name === 'constructor' && Object.hasOwn(Object(member), 'prototype')) return true;
  }
  return false;
}

/** Counts the properties, including those of nested objects. */
export function countMembers(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0;
  if (Array.isArray(value)) return value.reduce<number>((sum, element) => sum + countMembers(element), 0);
  let count = 0;
  for (const name in value) count += 1 + countMembers((value as Record<string, unknown>)[name]);
  return count;
}
