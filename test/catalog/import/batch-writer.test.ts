import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import type { EncodedPerson } from '../../../src/catalog/catalog.ts';
import { toDocument } from '../../../src/catalog/document.ts';
import { BatchWriter } from '../../../src/catalog/import-people.ts';
import { person } from '../people.ts';

const start = { line: 1, loaded: 0, bad: 0, suppressed: 0 };

test('the bytes of a batch do not change before its write has ended, however late they are read and however long texts are', async () => {
  const kept = new Map<string, string>();
  // An engine may read the bytes at any time during the write. This one reads them as late as possible.
  const catalog = {
    encode: (document: { person: object }) => JSON.stringify(document.person),
    write: async (people: EncodedPerson[]) => {
      await sleep(Math.random() * 20);
      for (const { id, bytes } of people) kept.set(id, bytes.toString());
    },
  };
  const writer = new BatchWriter(catalog, start, () => Promise.resolve());
  const expected = new Map<string, string>();
  // Ten people of each thousand have very long texts. Every tenth person occurs twice.
  const people = Array.from({ length: 8_000 }, (_, i) =>
    person({ job_title: `Zoë ${i} ${'東京'.repeat(i % 100 === 0 ? 60_000 : 20)}` }),
  );
  for (const [line, one] of people
    .flatMap((one, i) => (i % 10 === 0 ? [person({ _id: one._id }), one] : [one]))
    .entries()) {
    const document = toDocument(one);
    expected.set(one._id, catalog.encode(document));
    await writer.take(line, document);
  }
  await writer.end();
  expect(kept.size).toBe(people.length);
  expect([...kept].filter(([id, text]) => text !== expected.get(id))).toEqual([]);
});

test('while a batch is written slowly others are written too, but the saved line does not pass it', async () => {
  const first = person({});
  const noted: number[] = [];
  const written: string[][] = [];
  const others = Promise.withResolvers<void>();
  const catalog = {
    encode: () => '{}',
    write: async (people: EncodedPerson[]) => {
      if (people.some(({ id }) => id === first._id)) {
        await others.promise;
        noted.push(-1);
      } else await sleep(1);
      written.push(people.map(({ id }) => id));
      if (written.length === 3) others.resolve();
    },
  };
  const writer = new BatchWriter(catalog, start, async ({ line }) => {
    noted.push(line);
  });
  for (const [line, one] of [first, ...Array.from({ length: 25_000 }, () => person({}))].entries())
    await writer.take(line, toDocument(one));
  await writer.end();
  expect(written.flat()).toHaveLength(25_001);
  expect(noted[0], 'no line was saved before the first batch was written').toBe(-1);
  expect(noted.at(-1)).toBe(25_001);
});
