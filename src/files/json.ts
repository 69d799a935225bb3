import { countMembers, maxJsonDepth, parsePlain, PrototypeNamed, prototypeNamed, shapeOf } from '../text/json-text.ts';

/**
 * Parses JSON from a file with the same checks as JSON in requests: limited nesting depth, no duplicate keys in an
 * object, and no key such as `__proto__`.
 * @returns The value, or the reason why the text is rejected.
 */
export function parseJson(text: string): { value?: unknown; fault?: string } {
  const { depth, names } = shapeOf(Buffer.from(text));
  if (depth > maxJsonDepth) return { fault: `is nested deeper than ${maxJsonDepth} levels` };
  if (names > maxNames) return { fault: `names more than ${maxNames} properties` };
  let value: unknown;
  try {
    value = parsePlain(text);
  } catch (error) {
    return { fault: error instanceof PrototypeNamed ? prototypeNamed : 'is not valid JSON' };
  }
  return countMembers(value) < names ? { fault: 'names a property of one object twice' } : { value };
}

/**
 * Maximum number of property names in one JSON text. Parsing an object with many more names would block the event loop
 * for too long.
 */
const maxNames = 10_000;
