export interface JsonLimits {
  names?: number;
  values?: number;
  members?: number;
}

/**
 * Parses JSON from outside. Rejects deep nesting, duplicate names in an object, and names such as `__proto__`.
 * @param bytes the text in UTF-8
 * @returns the value, or the reason why the text is rejected, which follows the name of the text in a sentence
 */
export function parseJson(text: string, bytes: Buffer, limits: JsonLimits = {}): { value?: unknown; fault?: string } {
  const { depth, names, values, members } = shapeOf(bytes);
  if (depth > maxJsonDepth) return { fault: `is nested deeper than ${maxJsonDepth} levels` };
  if (names > (limits.names ?? Infinity)) return { fault: `names more than ${limits.names} properties` };
  if (values > (limits.values ?? Infinity)) return { fault: `has more than ${limits.values} values` };
  if (members > (limits.members ?? Infinity))
    return { fault: `has an array or object with more than ${limits.members} members` };
  try {
    const value: unknown = JSON.parse(text);
    return countNames(value) < names ? { fault: 'names a property of one object twice' } : { value };
  } catch (error) {
    return { fault: error instanceof PrototypeNamed ? error.message : 'is not valid JSON' };
  }
}

/** Maximum nesting depth of JSON that callers send. It prevents stack overflows in recursive functions. */
const maxJsonDepth = 64;

const [quote, backslash, colon, comma, openArray, closeArray, openObject, closeObject] = Buffer.from('"\\:,[]{}');

/** The numbers of a JSON text that `JsonLimits` limits. If the text is not JSON, they are meaningless. */
interface JsonShape extends Required<JsonLimits> {
  /** The nesting depth of arrays and objects: 0 for a single number, 1 for `[]`, at most `maxJsonDepth + 1`. */
  depth: number;
}

/** A name that occurs twice in one object counts twice. If the text is nested too deeply, returns early. */
function shapeOf(text: Buffer): JsonShape {
  const shape = { depth: 0, names: 0, values: 1, members: 0 };
  /** For each open array and object, by its depth, the number of its members so far. */
  const members = new Uint32Array(maxJsonDepth + 2);
  let depth = 0;
  for (let i = 0; i < text.length && depth <= maxJsonDepth; i += 1) {
    const byte = text[i];
    if (byte === quote) i = endOfString(text, i + 1);
    else if (byte === colon) shape.names += 1;
    else if (byte === comma) {
      shape.values += 1;
      members[depth]! += 1;
      if (members[depth]! > shape.members) shape.members = members[depth]!;
    } else if (byte === closeArray || byte === closeObject) depth -= 1;
    else if (byte === openArray || byte === openObject) {
      shape.values += 1;
      depth += 1;
      members[depth] = 1;
      if (depth > shape.depth) shape.depth = depth;
    }
  }
  return shape;
}

function endOfString(text: Buffer, start: number): number {
  let i = start;
  while (i < text.length && text[i] !== quote) i += text[i] === backslash ? 2 : 1;
  return i;
}

class PrototypeNamed extends Error {
  override readonly message = 'names a property `__proto__`, or `prototype` of a `constructor`, which is not allowed';
}

function countNames(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0;
  if (Array.isArray(value)) return value.reduce<number>((sum, element) => sum + countNames(element), 0);
  const names = Object.keys(value);
  let count = names.length;
  for (const name of names) {
    const member = (value as Record<string, unknown>)[name];
    const isPrototype = name === '__proto__' || (name === 'constructor' && Object.hasOwn(Object(member), 'prototype'));
    if (isPrototype) throw new PrototypeNamed();
    count += countNames(member);
  }
  return count;
}
