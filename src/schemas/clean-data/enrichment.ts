import { Type, type Static } from '@sinclair/typebox';
import { ContactQuery } from '../contacts.ts';
import { Enum, Flag, Strict, Uuid } from '../base/wire.ts';

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

export const EnrichContacts = Strict(
  {
    contact_ids: Type.Optional(
      Type.Array(Uuid(), {
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
      Type.Array(Enum(enrichedFields), {
        minItems: 1,
        maxItems: enrichedFields.length,
        description: 'The fields that may be filled. By default all of them.',
      }),
    ),
    overwrite: Flag('true: also fields that are not empty; false: only empty ones.'),
    max_credits: Type.Integer({
      minimum: 0,
      maximum: 1_000_000_000,
      description: 'The most that the job may cost. 0: only from people who are unlocked already.',
    }),
    dry_run: Flag('Only return an estimate; enrich nothing.'),
  },
  {
    title: 'EnrichContacts',
    examples: [{ contact_ids: ['0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b'], fields: ['job_title'], max_credits: 1 }],
  },
);
export type EnrichContacts = Static<typeof EnrichContacts>;

export const EnrichEstimate = Type.Object(
  {
    contacts: Type.Integer({ description: 'Contacts that would be enriched, if the catalog has them.' }),
    cost: Type.Integer({ description: 'Credits that the start would reserve: the most that the job can cost.' }),
    available: Type.Integer({ description: 'Credits that can be spent.' }),
  },
  { title: 'EnrichEstimate' },
);
export type EnrichEstimate = Static<typeof EnrichEstimate>;

export const EnrichmentResult = Type.Object(
  {
    prospect_id: Uuid('The prospect who is the same person.'),
    changed: Type.Array(Enum(enrichedFields), { description: 'The fields that were filled.' }),
  },
  { title: 'Enrichment' },
);
