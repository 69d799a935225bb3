import { Type, type Static } from '@sinclair/typebox';
import { Enum, PaginateOrContinue, Strict, Uuid } from '../base/wire.ts';

export const contactDuplicateKeys = ['work_email', 'profnet_url', 'name_and_company'] as const;

export const companyDuplicateKeys = ['name', 'external_name', 'domain'] as const;

export type DuplicateKey = (typeof contactDuplicateKeys)[number] | (typeof companyDuplicateKeys)[number];

export const maxDuplicateIds = 100;

const body = <K extends DuplicateKey>(title: string, keys: readonly K[], description: string) =>
  Strict(
    { by: Enum(keys, { description, examples: [keys[0]] }), paginate: Type.Optional(PaginateOrContinue) },
    { title, examples: [{ by: keys[0], paginate: { page: 1, limit: 25 } }] },
  );

export const ContactDuplicates = body(
  'ContactDuplicates',
  contactDuplicateKeys,
  'The value that duplicates share, whatever its case and accents.',
);

export const CompanyDuplicates = body(
  'CompanyDuplicates',
  companyDuplicateKeys,
  'The value that duplicates share, whatever its case and accents; `external_name`: also without legal forms such as ' +
    '`GmbH` or `Inc.`, and without punctuation. `domain`: exactly the same.',
);

export const DuplicateGroup = Type.Object(
  {
    value: Type.String({ description: 'The value that the records share, in lower case and without accents.' }),
    count: Type.Integer({ description: 'How many records share the value. At least 2.' }),
    ids: Type.Array(Uuid(), {
      description: `The ids of the records, the oldest first, at most ${maxDuplicateIds}.`,
    }),
  },
  { title: 'DuplicateGroup' },
);
export type DuplicateGroup = Static<typeof DuplicateGroup>;
