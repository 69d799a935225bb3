import { countMembers, maxJsonDepth, parsePlain, PrototypeNamed, prototypeNamed, shapeOf } from '../text/json-text.ts';

/**
 * Parses JSON with the same checks as in requests: limited depth, no duplicate keys, and no key such as `__proto__`.
 * @returns the value, or why the text is rejected
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

/** Property names in one text. An object with many more would block the event loop for too long. */
const maxNames = 10_000;
