import { createHmac, randomBytes } from 'node:crypto';
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { KeyedDigests } from '../../src/text/ids.ts';

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
