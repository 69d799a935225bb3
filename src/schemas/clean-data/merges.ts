import { Type, type Static } from '@sinclair/typebox';
import { companyFields } from '../companies.ts';
import { contactFields } from '../contacts.ts';
import { filterLimits } from '../filters.ts';
import { customFieldsLimits, ErrorBody, DoneWith, Strict, Uuid } from '../base/wire.ts';

/** Fields of a contact whose record a merge can choose. `company` stands for the column `company_id`. */
export const mergedContactFields = [...contactFields, 'company'] as const;

export const mergedCompanyFields = companyFields;

export const maxMovedRecords = 5_000;

const body = (title: string, noun: string, fields: readonly string[]) =>
  Strict(
    {
      id: Uuid(`Id of the ${noun} that stays.`),
      merge_ids: Type.Array(Uuid(), {
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
          additionalProperties: Uuid(),
          maxProperties: fields.length + customFieldsLimits.keys,
          description:
            'For single fields, the id of the record whose value is taken: one of the merged records, or the one that ' +
            `stays. Fields: ${fields.map((name) => `\`${name}\``).join(', ')}, \`custom_fields.<key>\`.`,
        }),
      ),
    },
    {
      title,
      examples: [
        {
          id: '0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b',
          merge_ids: ['0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5c'],
          fields: { [fields.includes('job_title') ? 'job_title' : 'size']: '0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5c' },
        },
      ],
    },
  );

export const ContactMerge = body('ContactMerge', 'contact', mergedContactFields);
export const CompanyMerge = body('CompanyMerge', 'company', mergedCompanyFields);

export type Merge = Static<typeof ContactMerge>;

export const Merged = DoneWith(
  'Merged',
  {
    id: Uuid('Id of the record that stays.'),
    merged: Type.Array(Uuid(), { description: 'Ids of the records that were merged into it and deleted.' }),
  },
  'The records, by their ids.',
);

export const GoneBody = Type.Composite(
  [
    ErrorBody,
    Type.Object({
      merged_into: Type.Optional(
        Uuid('The record into which this one was merged within the last 400 days. Absent if it was not.'),
      ),
    }),
  ],
  { title: 'Gone' },
);
