import { Type } from '@sinclair/typebox';
import { Instant, Strict, Uuid } from '../base/wire.ts';

export const DigestQuery = Type.Partial(
  Strict({
    buckets: Type.Integer({
      minimum: 1,
      maximum: 4_096,
      default: 64,
      description: 'Number of buckets. By default 64.',
    }),
    bucket: Type.Integer({ minimum: 0, maximum: 4_095, description: 'Only this bucket, with its records.' }),
  }),
  { additionalProperties: false, title: 'DigestQuery', examples: [{ buckets: 256 }] },
);

export const Digest = Type.Object(
  {
    cursor: Type.String({ description: 'The place in the feed of changes of which this is the digest.' }),
    buckets: Type.Array(
      Type.Object({
        bucket: Type.Integer({
          description: "The first 12 bits of the SHA-256 of the id's 16 bytes, modulo the number of buckets.",
        }),
        count: Type.Integer({ description: 'Number of records.' }),
        hash: Type.String({
          description:
            'The XOR, over all records, of the first 8 bytes of the SHA-256 of the id (16 bytes) and `updated_at` (as ' +
            'text), in hexadecimal.',
        }),
        records: Type.Optional(
          Type.Array(Type.Object({ id: Uuid('Id of the record.'), updated_at: Instant('When it was last changed.') }), {
            description: 'Its records, by id, if the request names the bucket.',
          }),
        ),
      }),
      { description: 'All buckets, or the one that the request names.' },
    ),
  },
  { title: 'Digest' },
);
