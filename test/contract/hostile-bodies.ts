import type { Json } from './declared.ts';
import { Raw, toJson } from './mistakes.ts';
import { isReadByCode, positionsOf, replaced, requiredOf, sampleBody, typesOf, type Known } from './positions.ts';

/** A body of about 1 MiB that is more expensive to read than to send. */
export interface Attack {
  kind: string;
  /** JSON pointer to the hostile value. */
  pointer: string;
  /** The body, as JSON text. */
  text(known: Known): string;
}

/** Returns a hostile value as JSON text. For an array it contains an element that the schema accepts. */
type Hostile = (element: unknown) => string;

/** Size of a hostile value (bytes): a little less than the body limit, to leave space for the rest of the body. */
const size = 1024 * 1024 - 2_048;

/** Returns as many copies of a text as fit, joined by commas. */
const repeated = (element: string): string =>
  Array(Math.floor(size / (element.length + 1)))
    .fill(element)
    .join(',');

/** Returns as many elements as fit, each created from its index. */
function numbered(element: (i: number) => string): string {
  const elements: string[] = [];
  for (let length = 0; length < size; length += elements.at(-1)!.length + 1) elements.push(element(elements.length));
  return elements.slice(0, -1).join(',');
}

const nested = (open: string, close: string, levels: number): string =>
  `${open.repeat(levels)}0${close.repeat(levels)}`;

const longName = 'k'.repeat(size * 0.7);
const escaped = (code: string): string => `"${`\\u${code}`.repeat(Math.floor(size / 6))}"`;

/** JSON texts that are hostile at any position. */
const anywhere: Record<string, Hostile> = {
  'deep arrays': () => nested('[', ']', size / 2 - 1),
  'deep objects': () => nested('{"a":', '}', Math.floor(size / 6) - 1),
  'arrays as deep as they may be': () => `[${repeated(nested('[', ']', 50))}]`,
  numbers: () => `[${repeated('0')}]`,
  'empty objects': () => `[${repeated('{}')}]`,
  'objects with an index for a name': () => `[${repeated('{"499":0}')}]`,
  'many names': () => `{${numbered((i) => `"${i.toString(36)}":0`)}}`,
  'many names to escape': () => `{${numbered((i) => `"~/${i}~/":{}`)}}`,
  'the same name again and again': () => `{${repeated('"a":0')}}`,
  'a long name': () => `{"${longName}":0}`,
  'faults below a long name': () =>
    `{"${longName}":[${Array(30_000)
      .fill(String.raw`"\u0000"`)
      .join(',')}]}`,
  'names that cannot be kept': () => `{${numbered((i) => String.raw`"\ud800${i}":0`)}}`,
  'texts that cannot be kept': () => `[${repeated(String.raw`"\u0000"`)}]`,
  'a text of NUL characters': () => escaped('0000'),
  'a text of surrogate pairs': () => `"${'😀'.repeat(size / 4)}"`,
  'a number of a million digits': () => '1'.repeat(size),
  // Without the exponent it is read as 0, which a price may be.
  'a number of a million digits with an exponent': () => `0.${'0'.repeat(size - 20)}1e2000000`,
  'numbers past every number': () => `[${repeated('1e400')}]`,
  'an array that does not end': () => `[${repeated('0')}`,
  'an object that does not end': () => `{${numbered((i) => `"${i}":0`)}`,
  'names of the prototype': () => `[${repeated('{"__proto__":0}')}]`,
};

/** Texts that match the schema's format except for their end. */
const almost: Record<string, string> = {
  email: `a@${'a.'.repeat(size / 2 - 10)}`,
  domain: 'a.'.repeat(size / 2 - 10),
  'date-time': `2026-03-14T09:26:53.${'1'.repeat(size - 30)}`,
  uuid: '0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5'.repeat(size / 36 - 1),
  name: 'x'.repeat(size),
  'key-name': 'x'.repeat(size),
};

/** Values that are hostile to the schema of a position. */
function fitting(schema: Json): Record<string, Hostile> {
  const types = typesOf(schema);
  const text = almost[String(schema['format'])];
  return {
    ...(text === undefined ? {} : { [`almost a ${String(schema['format'])}`]: () => `"${text}"` }),
    ...(types.includes('string') ? { 'a text of words and commas': () => `"${'a, '.repeat(size / 3)}"` } : {}),
    ...(schema['items'] && !isReadByCode(schema) ? ofElements : {}),
    ...(schema['items'] && requiredOf(schema['items'] as Json).length > 0
      ? { [maxFaults]: () => `[${repeated('{}')}]` }
      : {}),
  };
}

/** The kind of body with the most faults: each of about 300,000 elements lacks several fields. */
export const maxFaults = 'elements that lack everything';

const ofElements: Record<string, Hostile> = {
  'a valid element again and again': (element) => `[${repeated(JSON.stringify(element))}]`,
  'elements with a fault each': (element) => `[${repeated(faulty(element))}]`,
  'valid elements, and a fault in the last': (element) =>
    `[${repeated(JSON.stringify(element)).slice(0, -2 * faulty(element).length)},${faulty(element)}]`,
};

const faulty = (element: unknown): string =>
  JSON.stringify(typeof element === 'string' ? `${element}x` : { ...(element as object), unknown: 1 });

/** Returns a body for each hostile value at each position of a schema, including its root. */
export const attacksOn = (schema: Json): Attack[] =>
  positionsOf(schema).flatMap(({ pointer, schema: here }) =>
    Object.entries({ ...anywhere, ...fitting(here) }).map(([kind, value]) => ({
      kind,
      pointer,
      text(known) {
        const along = kind in ofElements ? `${pointer}/0` : pointer;
        const body = sampleBody(schema, known, along);
        return toJson(replaced(body, pointer, new Raw(value(at(body, along)))));
      },
    })),
  );

const at = (body: unknown, pointer: string): unknown =>
  pointer
    .split('/')
    .slice(1)
    .reduce((node, token) => (node as Json)[token], body);
