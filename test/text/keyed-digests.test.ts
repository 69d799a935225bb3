import { createHmac, randomBytes } from 'node:crypto';
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { KeyedDigests } from '../../src/text/keyed-digests.ts';
import { profileKey } from '../../src/text/normalise.ts';

test('a keyed digest is the HMAC-SHA-256 of the text, whatever its length, and does not depend on earlier texts', () => {
  const secret = randomBytes(32);
  const digests = new KeyedDigests(secret);
  const texts = fc.array(
    fc.oneof(fc.string({ unit: 'binary' }), fc.constantFrom('', 'é'.repeat(5_000), 'x'.repeat(960))),
  );
  fc.assert(
    fc.property(texts, (given) => {
      for (const text of given)
        expect(digests.of(text)).toBe(createHmac('sha256', secret).update(text).digest('binary'));
    }),
  );
});

test('URLs of one profile have the same key, whatever scheme, case, query and closing slashes they have', () => {
  const same = [
    'https://www.profnet.example/in/ada',
    'http://profnet.example/in/ADA//',
    ' profnet.example/in/Ada/?from=x#top',
  ];
  expect(new Set(same.map(profileKey))).toEqual(new Set(['profnet.example/in/ada']));
  expect(profileKey('https://profnet.example/in/ada/posts')).toBe('profnet.example/in/ada/posts');
});
