import { Type, type Static } from '@sinclair/typebox';
import * as wire from './wire.ts';
import { ContactQuery, contactFields } from './contacts.ts';
import { Prospect } from './prospects.ts';
import { companyFields } from './companies.ts';
import { filterLimits } from './filters.ts';

export const contactDuplicateKeys = ['work_email', 'profnet_url', 'name_and_company'] as const;

export const companyDuplicateKeys = ['name', 'external_name', 'domain'] as const;

export type DuplicateKey = (typeof contactDuplicateKeys)[number] | (typeof companyDuplicateKeys)[number];

export const maxDuplicateIds = 100;

const duplicatesBody = <K extends DuplicateKey>(title: string, keys: readonly K[], description: string) =>
  wire.Strict(
    { by: wire.Enum(keys, { description, examples: [keys[0]] }), paginate: Type.Optional(wire.PaginateOrContinue) },
    { title, examples: [{ by: keys[0], paginate: { page: 1, limit: 25 } }] },
  );

export const ContactDuplicates = duplicatesBody(
  'ContactDuplicates',
  contactDuplicateKeys,
  'The value that duplicates share, whatever its case and accents.',
);

export const CompanyDuplicates = duplicatesBody(
  'CompanyDuplicates',
  companyDuplicateKeys,
  'The value that duplicates share, whatever its case and accents; `external_name`: also without legal forms such as ' +
    '`GmbH` or `Inc.`, and without punctuation. `domain`: exactly the same.',
);

export const DuplicateGroup = wire.Named('DuplicateGroup', {
  value: Type.String({ description: 'The value that the records share, in lower case and without accents.' }),
  count: Type.Integer({ description: 'How many records share the value. At least 2.' }),
  ids: Type.Array(wire.Uuid(), {
    description: `The ids of the records, the oldest first, at most ${maxDuplicateIds}.`,
  }),
});
export type DuplicateGroup = Static<typeof DuplicateGroup>;

export const enrichedFields = [
  'first_name',
  'last_name',
  'job_title',
  'industry',
  'work_email',
  'other_emails',
  'mobile_phone',
  'location_locality',
  'location_region',
  'location_country',
  'location_postal_code',
  'profnet_url',
  'social1_url',
  'social2_url',
  'company',
] as const;
export type EnrichedField = (typeof enrichedFields)[number];

export const maxEnriched = 100_000;

export const EnrichContacts = wire.Body(
  'EnrichContacts',
  [{ contact_ids: ['0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b'], fields: ['job_title'], max_credits: 1 }],
  {
    contact_ids: Type.Optional(
      Type.Array(wire.Uuid(), {
        minItems: 1,
        maxItems: 10_000,
        description: 'The contacts to enrich, in place of `filters`. Repeated ids are ignored.',
      }),
    ),
    filters: Type.Optional({
      ...ContactQuery.properties.filters,
      description: 'The contacts to enrich, in place of `contact_ids`. `{}` is all of them.',
    }),
    fields: Type.Optional(
      Type.Array(wire.Enum(enrichedFields), {
        minItems: 1,
        maxItems: enrichedFields.length,
        description: 'The fields that may be filled. By default all of them.',
      }),
    ),
    overwrite: wire.Flag('true: also fields that are not empty; false: only empty ones.'),
    max_credits: Type.Integer({
      minimum: 0,
      maximum: 1_000_000_000,
      description: 'The most that the job may cost. 0: only from people who are unlocked already.',
    }),
    dry_run: wire.Flag('Only return an estimate; enrich nothing.'),
  },
);
export type EnrichContacts = Static<typeof EnrichContacts>;

export const EnrichEstimate = wire.Named('EnrichEstimate', {
  contacts: Type.Integer({ description: 'Contacts that would be enriched, if the catalog has them.' }),
  cost: Type.Integer({ description: 'Credits that the start would reserve: the most that the job can cost.' }),
  available: Type.Integer({ description: 'Credits that can be spent.' }),
});
export type EnrichEstimate = Static<typeof EnrichEstimate>;

export const EnrichmentResult = wire.Named('Enrichment', {
  prospect_id: wire.Uuid('The prospect who is the same person.'),
  changed: Type.Array(wire.Enum(enrichedFields), { description: 'The fields that were filled.' }),
});

const maxMatched = 100;

const WantedPerson = wire.Strict(
  {
    profnet_url: Type.Optional(wire.Url('Profile in the professional network. Decides before the names.')),
    first_name: Type.Optional(wire.Text(255, 'First name. Only together with last name and company.')),
    last_name: Type.Optional(wire.Text(255, 'Last name. Only together with first name and company.')),
    company_name: Type.Optional(wire.Text(255, 'Name of the company that the person works for.')),
    location_country: Type.Optional(
      wire.Text(255, 'Code or name of the country. Decides if several people have these names at this company.'),
    ),
  },
  { title: 'WantedPerson', description: 'A person: by the URL of the profile, or by both names and the company.' },
);

export const ProspectMatch = wire.Body(
  'ProspectMatch',
  [
    {
      people: [
        { profnet_url: 'https://profnet.example/in/ada' },
        { first_name: 'Ada', last_name: 'Lovelace', company_name: 'Analytical Engines Ltd', location_country: 'GB' },
      ],
    },
  ],
  {
    people: Type.Array(WantedPerson, {
      minItems: 1,
      maxItems: maxMatched,
      description: 'The people to find. Each needs a profile URL, or both names and a company.',
    }),
  },
);
export type ProspectMatch = Static<typeof ProspectMatch>;

const matchStatuses = ['matched', 'ambiguous', 'none'] as const;

export const ProspectMatches = wire.Named('ProspectMatches', {
  results: Type.Array(
    Type.Object({
      index: Type.Integer({ description: 'Index of the person in the request. The first is 0.' }),
      status: wire.Enum(matchStatuses, '`matched`: exactly one person fits; `ambiguous`: several; `none`: nobody.'),
      prospect: Type.Optional(
        Type.Unsafe<Prospect>({
          ...Prospect,
          description: 'The person who fits, as in lists. Absent unless `matched`.',
        }),
      ),
      candidates: Type.Optional(
        Type.Array(Prospect, { description: 'Up to 5 people who fit, the best first. Absent unless `ambiguous`.' }),
      ),
      matched_on: Type.Array(wire.Enum(['profnet_url', 'name_and_company', 'location_country'] as const), {
        description: 'What decided. Empty if nobody fits.',
      }),
    }),
    { description: 'One result for each person of the request, in the same order.' },
  ),
});
export type ProspectMatches = Static<typeof ProspectMatches>;

export const mergedContactFields = [...contactFields, 'company'] as const;

export const mergedCompanyFields = companyFields;

export const maxMovedRecords = 5_000;

const mergeBody = (title: string, noun: string, fields: readonly string[]) =>
  wire.Body(
    title,
    [
      {
        id: '0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b',
        merge_ids: ['0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5c'],
        fields: { [fields.includes('job_title') ? 'job_title' : 'size']: '0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5c' },
      },
    ],
    {
      id: wire.Uuid(`Id of the ${noun} that stays.`),
      merge_ids: Type.Array(wire.Uuid(), {
        minItems: 1,
        maxItems: 20,
        'x-distinct-ids': true,
        description: `Ids of the records that become part of the ${noun} and are deleted. They fill its empty fields in this order.`,
      }),
      fields: Type.Optional(
        Type.Unsafe<Record<string, string>>({
          type: 'object',
          propertyNames: {
            type: 'string',
            anyOf: [{ enum: fields }, { pattern: String.raw`^custom_fields\.[\s\S]{1,${filterLimits.customKey}}$` }],
          },
          additionalProperties: wire.Uuid(),
          maxProperties: fields.length + wire.customFieldsLimits.keys,
          description:
            'For single fields, the id of the record whose value is taken: one of the merged records, or the one that ' +
            `stays. Fields: ${fields.map((name) => `\`${name}\``).join(', ')}, \`custom_fields.<key>\`.`,
        }),
      ),
    },
  );

export const ContactMerge = mergeBody('ContactMerge', 'contact', mergedContactFields);
export const CompanyMerge = mergeBody('CompanyMerge', 'company', mergedCompanyFields);

export type Merge = Static<typeof ContactMerge>;

export const Merged = wire.DoneWith(
  'Merged',
  {
    id: wire.Uuid('Id of the record that stays.'),
    merged: Type.Array(wire.Uuid(), { description: 'Ids of the records that were merged into it and deleted.' }),
  },
  'The records, by their ids.',
);

export const GoneBody = Type.Composite(
  [
    wire.ErrorBody,
    Type.Object({
      merged_into: Type.Optional(
        wire.Uuid('The record into which this one was merged within the last 400 days. Absent if it was not.'),
      ),
    }),
  ],
  { title: 'Gone' },
);
