import * as fc from 'fast-check';

/** Values that replace a part of a valid body. */
const intruders: unknown[] = [
  null,
  true,
  0,
  -1,
  1.5,
  2 ** 31,
  2 ** 53,
  -1e300,
  '',
  ' ',
  'x'.repeat(300),
  'x'.repeat(20_000),
  'a\u0000b',
  '\ud83d',
  "'; drop table contacts; --",
  '%_\\',
  '=1+1',
  '__proto__',
  'İıſßﬁ مرحبا 東京都港区 👩‍👩‍👧‍👦 \u202e\u200b',
  '1e999',
  '2026-02-30T00:00:00Z',
  'not-a-uuid',
  [],
  [[]],
  [null],
  {},
  { a: { b: {} } },
  Array.from({ length: 1_001 }, (_, i) => i),
  JSON.parse('{"__proto__": 1, "constructor": {"prototype": 1}}') as unknown,
];

/** Returns a generator of bodies that differ from a valid one in one place: another value, a lost or a new member. */
export function mutantsOf(value: unknown): fc.Arbitrary<unknown> {
  const places = placesIn(value);
  return fc
    .tuple(fc.constantFrom(...places), fc.constantFrom(...intruders), fc.constantFrom('replace', 'remove', 'add'))
    .map(([place, intruder, kind]) => changed(value, place, kind, intruder));
}

type Place = readonly (string | number)[];

function placesIn(value: unknown, at: Place = []): Place[] {
  if (typeof value !== 'object' || value === null) return [at];
  const keys = Array.isArray(value) ? [...value.keys()] : Object.keys(value);
  return [at, ...keys.flatMap((key) => placesIn((value as Record<string, unknown>)[key], [...at, key]))];
}

function changed(value: unknown, place: Place, kind: string, intruder: unknown): unknown {
  const [key, ...rest] = place;
  if (key === undefined) {
    if (kind !== 'add' || typeof value !== 'object' || value === null) return intruder;
    return Array.isArray(value) ? [...(value as unknown[]), intruder] : { ...value, unexpected: intruder };
  }
  const isLast = rest.length === 0 && kind === 'remove';
  if (Array.isArray(value)) {
    const items = value as unknown[];
    return isLast
      ? items.toSpliced(Number(key), 1)
      : items.with(Number(key), changed(items[Number(key)], rest, kind, intruder));
  }
  const { [key]: member, ...others } = value as Record<string, unknown>;
  return isLast ? others : { ...others, [key]: changed(member, rest, kind, intruder) };
}

/** A generator of texts that are no JSON, or JSON that no body may be. */
export const brokenTexts: fc.Arbitrary<string> = fc.oneof(
  fc.constantFrom(
    '',
    '{',
    '{"a":1,}',
    '\ufeff{}',
    '[]',
    'null',
    '"text"',
    '{"a":1e400}',
    '{"a":NaN}',
    '{"limit":1,"limit":2}',
    `${'['.repeat(100)}${']'.repeat(100)}`,
    `{"a":${'{"a":'.repeat(80)}1${'}'.repeat(81)}`,
    String.raw`{"\u0000":1}`,
  ),
  fc.string({ unit: 'binary', maxLength: 50 }),
);
