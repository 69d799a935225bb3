import type { Json } from './declared.ts';

/**
 * A position in a body that its schema describes: a JSON pointer (array elements have index 0) and the schema there.
 */
export interface Position {
  pointer: string;
  schema: Json;
}

/** Whether code reads the value: conditions, orders, exported fields, and the items of batches. */
export const isReadByCode = (schema: Json): boolean =>
  'x-batch-items' in schema ||
  'x-max-conditions' in schema ||
  /(Order|ExportFields)$/.test((schema['title'] ?? '') as string);

/** Returns every position of a body, from the root down. Alternatives at one position are listed separately. */
export function positionsOf(schema: Json, pointer = ''): Position[] {
  if (isReadByCode(schema)) return [{ pointer, schema }];
  const alternatives = (schema['anyOf'] ?? schema['oneOf']) as Json[] | undefined;
  if (alternatives) return alternatives.flatMap((one) => positionsOf(one, pointer));
  const members = Object.entries(propertiesOf(schema)).flatMap(([name, one]) => positionsOf(one, `${pointer}/${name}`));
  const elements = schema['items'] ? positionsOf(schema['items'] as Json, `${pointer}/0`) : [];
  return [{ pointer, schema }, ...members, ...elements];
}

export const propertiesOf = (schema: Json): Record<string, Json> =>
  (schema['properties'] ?? {}) as Record<string, Json>;

export const requiredOf = (schema: Json): string[] => (schema['required'] ?? []) as string[];

/** Returns the types that a schema allows; all types if it names none. */
export function typesOf(schema: Json): string[] {
  if (schema['type'] !== undefined) return [schema['type']].flat() as string[];
  if (schema['anyOf'] !== undefined) return (schema['anyOf'] as Json[]).flatMap(typesOf);
  if ('const' in schema) return [typeof schema['const']];
  return ['string', 'number', 'integer', 'boolean', 'null', 'array', 'object'];
}

/** Returns a pointer without its array indices: `/company/id`, `/list_ids`. */
export const placeOf = (pointer: string): string => pointer.replaceAll(/\/\d+(?=\/|$)/g, '');

/** Returns the value for a position where the schema alone is not enough; undefined to derive it from the schema. */
export type Known = (place: string, schema: Json) => unknown;

/**
 * Returns the smallest valid body that contains the position of `pointer`: the required fields, and those that lead to
 * the position.
 * @param known returns known values of positions; called for every leaf
 */
export function sampleBody(schema: Json, known: Known, pointer = ''): unknown {
  return sample(schema, known, '', pointer.split('/').slice(1));
}

/**
 * Returns a valid body with every field of its root, so that it contains something to write. Without an order: its
 * schema does not tell what it consists of.
 */
export function wholeBody(schema: Json, known: Known, pointer = ''): unknown {
  const names = Object.entries(propertiesOf(schema)).flatMap(([name, one]) =>
    ((one['title'] ?? '') as string).endsWith('Order') ? [] : [name],
  );
  const bodies = names.map((name) => sampleBody(schema, known, `/${name}`) as Json);
  return Object.assign({}, ...bodies, sampleBody(schema, known, pointer));
}

function sample(schema: Json, known: Known, at: string, [next, ...rest]: string[]): unknown {
  const given = known(placeOf(at), schema);
  if (given !== undefined) return given;
  const alternatives = (schema['anyOf'] ?? schema['oneOf']) as Json[] | undefined;
  if (alternatives)
    return sample(
      alternatives.find((one) => leadsTo(one, next))!,
      known,
      at,
      next === undefined ? [] : [next, ...rest],
    );
  const type = typesOf(schema)[0];
  if (type === 'object') return sampleObject(schema, known, at, next, rest);
  if (type === 'array') return sampleArray(schema, known, at, next, rest);
  return sampleLeaf(schema, at);
}

const leadsTo = (schema: Json, token: string | undefined): boolean =>
  token === undefined
    ? schema['type'] !== 'null'
    : token in propertiesOf(schema) || (token === '0' && 'items' in schema);

/** Returns what a member needs beside it: of alternatives, such as `name` or `domain` beside `industry`, the first. */
function followersIn(schema: Json): Record<string, string[]> {
  const lacking = ((schema['not'] as Json | undefined)?.['anyOf'] ?? []) as Json[];
  const others = lacking.flatMap((one) => {
    const needed = (one['not'] as { anyOf: Json[] } | undefined)?.anyOf[0];
    return needed ? [[requiredOf(one)[0]!, requiredOf(needed)] as const] : [];
  });
  return { ...(schema['dependentRequired'] as Record<string, string[]> | undefined), ...Object.fromEntries(others) };
}

function sampleObject(schema: Json, known: Known, at: string, next: string | undefined, rest: string[]): unknown {
  const properties = propertiesOf(schema);
  const follows = followersIn(schema);
  const names = new Set(requiredOf(schema));
  if (next !== undefined) for (const name of [next, ...(follows[next] ?? [])]) names.add(name);
  const members = [...names].map((name) => {
    const member = properties[name];
    if (!member) throw new Error(`${at} has no ${name}`);
    return [name, sample(member, known, `${at}/${name}`, name === next ? rest : [])];
  });
  return Object.fromEntries(members);
}

function sampleArray(schema: Json, known: Known, at: string, next: string | undefined, rest: string[]): unknown {
  if ('x-batch-items' in schema) return [{}]; // an invalid item does not make the batch invalid
  const length = next === undefined ? ((schema['minItems'] ?? 0) as number) : 1;
  return Array.from({ length }, () => sample(schema['items'] as Json, known, `${at}/0`, rest));
}

const formatted: Record<string, string> = {
  email: 'grace.hopper@example.com',
  domain: 'example.com',
  'date-time': '2026-03-14T09:26:53.589Z',
  'feed-start': 'start',
  name: 'Grace',
  'key-name': 'Grace',
  country: 'GB',
  currency: 'EUR',
};

function sampleLeaf(schema: Json, at: string): unknown {
  if ('const' in schema) return schema['const'];
  if (Array.isArray(schema['enum'])) return schema['enum'][0];
  if (Array.isArray(schema['examples'])) return schema['examples'][0];
  const type = typesOf(schema)[0];
  if (type === 'integer' || type === 'number') return schema['default'] ?? schema['minimum'] ?? 1;
  if (type === 'boolean') return true;
  if (type !== 'string') throw new Error(`no sample for ${at}: ${JSON.stringify(schema)}`);
  const format = schema['format'] as string | undefined;
  if (format !== undefined && !(format in formatted)) throw new Error(`no sample of the format ${format}, at ${at}`);
  return format === undefined ? 'x'.repeat(Math.max(1, Number(schema['minLength'] ?? 1))) : formatted[format];
}

/** Returns a copy of a body with another value at one position. A function gets the previous value. */
export function replaced(body: unknown, pointer: string, value: unknown): unknown {
  if (pointer === '') return typeof value === 'function' ? value(body) : value;
  const copy = structuredClone(body);
  const tokens = pointer.split('/').slice(1);
  const last = tokens.pop()!;
  const parent = tokens.reduce((node, token) => node[token] as Json, copy as Json);
  parent[last] = typeof value === 'function' ? value(parent[last]) : value;
  return copy;
}
