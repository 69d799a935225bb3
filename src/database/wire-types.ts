import type postgres from 'postgres';

/** The smallest and the largest UUID. No record has one of them as its id. */
export const lowestId = '00000000-0000-0000-0000-000000000000';
export const highestId = 'ffffffff-ffff-ffff-ffff-ffffffffffff';

/** The project's own types for the driver. `instant` is a timestamp as an ISO string. */
export type WireTypes = { instant: string };

type Oid = number;

interface TypeOids {
  oid: Oid;
  /** Of the arrays of this type. */
  array: Oid;
}

/** Of built-in types: the same on every server. */
const types = {
  boolean: { oid: 16, array: 1000 },
  bytea: { oid: 17, array: 1001 },
  bigint: { oid: 20, array: 1016 },
  smallint: { oid: 21, array: 1005 },
  integer: { oid: 23, array: 1007 },
  text: { oid: 25, array: 1009 },
  json: { oid: 114, array: 199 },
  float4: { oid: 700, array: 1021 },
  float8: { oid: 701, array: 1022 },
  varchar: { oid: 1043, array: 1015 },
  date: { oid: 1082, array: 1182 },
  timestamp: { oid: 1114, array: 1115 },
  timestamptz: { oid: 1184, array: 1185 },
  numeric: { oid: 1700, array: 1231 },
  uuid: { oid: 2950, array: 2951 },
  jsonb: { oid: 3802, array: 3807 },
} as const satisfies Record<string, TypeOids>;

const asText = (value: unknown): string => (value instanceof Date ? value.toISOString() : String(value));

/** The driver's option `types`. Decimals and 64-bit integers become JavaScript numbers. */
export const wireTypes = {
  instant: { to: types.timestamptz.oid, from: [types.timestamptz.oid], serialize: asText, parse: toInstant },
  calendar: {
    to: types.date.oid,
    from: [types.date.oid, types.timestamp.oid],
    serialize: asText,
    parse: (text: string) => text,
  },
  // The API keeps these numbers within JavaScript's range.
  decimal: { to: types.numeric.oid, from: [types.numeric.oid, types.bigint.oid], serialize: asText, parse: Number },
} satisfies Record<string, postgres.PostgresType>;

/**
 * Converts a timestamp in UTC (`2026-03-14 09:26:53.5+00`) to ISO 8601 (`2026-03-14T09:26:53.500Z`), cut to
 * milliseconds. Returns other texts unchanged, such as `infinity`.
 */
export function toInstant(text: string): string {
  if (text.charCodeAt(10) !== 32 || !text.endsWith('+00')) return text;
  const fraction = text.length > 22 ? text.slice(20, -3) : '';
  return `${text.slice(0, 10)}T${text.slice(11, 19)}.${fraction.slice(0, 3).padEnd(3, '0')}Z`;
}

interface Codecs {
  parsers: Record<Oid, ((text: string) => unknown) | undefined>;
  serializers: Record<Oid, ((value: unknown) => unknown) | undefined>;
  shared: { typeArrayMap: Record<Oid, Oid> };
}

/** Adds array types to an instance of the driver, in place of its option `fetch_types`. */
export function registerArrays(sql: postgres.Sql<WireTypes>): void {
  // `fetch_types` costs a round trip, and a connection lost at that moment ends the process with an unhandled rejection.
  const codecs = sql.options as unknown as Codecs;
  for (const { oid: element, array } of Object.values<TypeOids>(types)) {
    const parse = codecs.parsers[element] ?? ((text: string) => text);
    const serialize = codecs.serializers[element] ?? String;
    codecs.shared.typeArrayMap[element] = array;
    codecs.parsers[array] = (text) => parseArray(text, parse);
    codecs.serializers[array] = (value) => (Array.isArray(value) ? serializeArray(value, serialize) : value);
  }
}

/** Formats an array literal. All elements except null are quoted, so that PostgreSQL reads them as plain text. */
function serializeArray(values: readonly unknown[], serialize: (value: unknown) => unknown): string {
  const element = (value: unknown): string => {
    if (value === null) return 'NULL';
    if (value === undefined)
      throw new TypeError('An array parameter for PostgreSQL contains undefined; use null instead');
    if (Array.isArray(value)) return serializeArray(value, serialize);
    return `"${String(serialize(value)).replaceAll(/["\\]/g, '\\$&')}"`;
  };
  return `{${values.map(element).join(',')}}`;
}

const token = /"((?:[^"\\]|\\.)*)"|([^{},"]+)|[{}]/gs;

/**
 * Parses an array literal, which may be nested.
 * @see https://www.postgresql.org/docs/18/arrays.html#ARRAYS-IO
 */
function parseArray(text: string, parse: (element: string) => unknown): unknown[] {
  const root: unknown[] = [];
  const open = [root];
  for (const [whole, quoted, bare] of text.slice(text.indexOf('{')).matchAll(token)) {
    if (whole === '{') {
      const inner: unknown[] = [];
      open.at(-1)!.push(inner);
      open.push(inner);
    } else if (whole === '}') open.pop();
    else if (quoted !== undefined) open.at(-1)!.push(parse(quoted.replaceAll(/\\(.)/gs, '$1')));
    else open.at(-1)!.push(bare === 'NULL' ? null : parse(bare!));
  }
  return root[0] as unknown[];
}
