import { expect, test } from 'vitest';
import { maxKept, parseInPieces } from '../../src/text/json-pieces.ts';
import { countMembers, shapeOf } from '../../src/text/json-text.ts';

const read = (text: string) => parseInPieces(Buffer.from(text), JSON.parse as (text: string) => unknown);
const long = (count: number, one: (i: number) => string): string =>
  Array.from({ length: count }, (_, i) => one(i)).join();
const text = 'ä"\\{}[],:'.repeat(9_000);

const values: Record<string, unknown> = {
  'a small value': { a: [1, { b: null }] },
  'a long text': text,
  'long texts in an array': [text, 1, text, text],
  'long texts in an object': { a: text, [text]: { a: text }, b: 1 },
  'many objects': { items: Array.from({ length: 4_000 }, (_, i) => ({ i, text: `"${i},]}` })), match: 'id' },
  'many properties': Object.fromEntries(Array.from({ length: 4_900 }, (_, i) => [`"k${i}`, { a: [`${i}`.repeat(9)] }])),
  'large values in large values': { a: [[{ b: [text, [text]] }, [text]], {}], c: [], d: { e: { f: text } } },
  'large values between small ones': [0, [text], 1, 2, { a: text }, [text], [], 3],
};

test.each(Object.entries(values))('%s is read as JSON.parse reads it', async (_name, value) => {
  for (const indent of [0, 2]) {
    const json = ` ${JSON.stringify(value, undefined, indent)}\n`;
    const { value: found, names } = await read(json);
    expect(found).toEqual(value);
    expect(names).toBe(countMembers(value));
    expect(names).toBe(shapeOf(Buffer.from(json)).names);
  }
});

const run = long(22_000, () => '[]');
const bases = {
  'an array in an array': `[1,[${run}],2]`,
  'an array in an object': `{"a":1,"b":[${run}],"c":2}`,
  'two arrays': `[[${run}],[${run}]]`,
  'an object in an object': `{"a":{${long(4_000, (i) => `"key ${i}":[${i}]`)}}}`,
};
const insertions = [',', '[', ']', '}', '"', ':', '1', String.fromCodePoint(0xa0)];

/** Returns the indexes of a text around the starts and ends of its large values, and two in the middle. */
function placesIn(base: string): number[] {
  const large = ['[[', '[{', ':[', ':{', ']]', ']}', '],[', '],"', ',[', '}}'].flatMap((part) => {
    const [first, last] = [base.indexOf(part), base.lastIndexOf(part)];
    return first === -1 ? [] : [first + 1, last + 1];
  });
  return [
    ...new Set([0, 1, 2, base.length - 2, base.length - 1, base.length, base.length >> 1, base.length >> 2, ...large]),
  ];
}

test.each(Object.entries(bases))('%s, damaged anywhere, is refused if JSON.parse refuses it', async (_name, base) => {
  const damaged = placesIn(base).flatMap((at) => [
    ...insertions.map((inserted) => base.slice(0, at) + inserted + base.slice(at)),
    base.slice(0, at) + base.slice(at + 1),
    base.slice(0, at),
  ]);
  for (const json of damaged) {
    const expected = await outcomeOf(async () => keep(JSON.parse(json)));
    const found = await outcomeOf(async () => (await read(json)).value);
    expect(found === expected, `${json.slice(0, 30)} … ${json.slice(-30)}`).toBe(true);
  }
});

/** Returns a value as JSON, or that its text is refused. */
const outcomeOf = (parse: () => Promise<unknown>): Promise<string> =>
  parse().then(
    (value) => JSON.stringify(value),
    () => 'refused',
  );

/** Cuts the arrays of a value as `parseInPieces` cuts large ones. */
const keep = (value: unknown): unknown =>
  Array.isArray(value)
    ? value.slice(0, maxKept).map(keep)
    : typeof value === 'object' && value !== null
      ? Object.fromEntries(Object.entries(value).map(([name, one]) => [name, keep(one)]))
      : value;

test('other work runs while a large text is parsed', async () => {
  let rounds = 0;
  let isDone = false;
  const round = (): void => {
    rounds += 1;
    if (!isDone) setImmediate(round);
  };
  setImmediate(round);
  await read(`{${long(300_000, (i) => `"k${i}":0`)}}`);
  isDone = true;
  expect(rounds).toBeGreaterThan(4);
});

test('no large part of a text is parsed at once, even if the text is cut off', async () => {
  const json = `{"a":[${long(200_000, () => '{}')}]}`;
  for (const text of [json, json.slice(0, -1), json.slice(0, -2), `${json}]`]) {
    let longest = 0;
    const parse = (part: string): unknown => {
      longest = Math.max(longest, part.length);
      return JSON.parse(part);
    };
    await outcomeOf(() => parseInPieces(Buffer.from(text), parse));
    expect(longest, text.slice(-5)).toBeLessThan(200_000);
  }
});

test('large arrays and objects keep their first members only', async () => {
  const { value, names } = await read(
    `{"a":[${long(100_000, () => '{}')}],"b":{${long(50_000, (i) => `"k${i}":0`)}},"c":1}`,
  );
  const { a, b, c } = value as { a: unknown[]; b: object; c: number };
  expect([a.length, Object.keys(b).length, c]).toEqual([maxKept, maxKept, 1]);
  expect(Object.keys(b).at(-1)).toBe(`k${maxKept - 1}`);
  expect(names).toBe(3 + 50_000);
});

test('a name that occurs twice counts once, however far apart', async () => {
  const members = long(50_000, (i) => `"k${i}":0`);
  for (const first of ['k7', 'k49999', 'k20000']) {
    const json = `{"${first}":[0],${members}}`;
    expect((await read(json)).names).toBe(50_000);
    expect(shapeOf(Buffer.from(json)).names).toBe(50_001);
  }
});
