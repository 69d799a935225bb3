import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import type { EncodedPerson } from '../../src/catalog/catalog.ts';
import { toDocument } from '../../src/catalog/document.ts';
import { Writer } from '../../src/catalog/writer.ts';
import { person } from './people.ts';

test('what is under way stays as it was given, however late it is read and however long people are', async () => {
  const kept = new Map<string, string>();
  // Engines answer when they like; here the bytes are read at the very last.
  const catalog = {
    encode: (document: { person: object }) => JSON.stringify(document.person),
    write: async (people: EncodedPerson[]) => {
      await sleep(Math.random() * 20);
      for (const { id, bytes } of people) kept.set(id, bytes.toString());
    },
  };
  const writer = new Writer(catalog, { position: 0, line: 1, loaded: 0, bad: 0 }, () => Promise.resolve());
  const expected = new Map<string, string>();
  // Ten of a batch's thousand are so long that its memory is too small for them all; every tenth person comes twice.
  const people = Array.from({ length: 8_000 }, (_, i) =>
    person({ job_title: `Zoë ${i} ${'東京'.repeat(i % 100 === 0 ? 60_000 : 20)}` }),
  );
  for (const [line, one] of people
    .flatMap((one, i) => (i % 10 === 0 ? [person({ _id: one._id }), one] : [one]))
    .entries()) {
    const document = toDocument(one);
    expected.set(one._id, catalog.encode(document));
    await writer.take({ line, end: line }, document);
  }
  await writer.end();
  expect(kept.size).toBe(people.length);
  expect([...kept].filter(([id, text]) => text !== expected.get(id))).toEqual([]);
});
