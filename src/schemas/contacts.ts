import { Type, type Static } from '@sinclair/typebox';
import { ContactFilters, ContactOrder } from './filters.ts';
import { VerificationStatus } from './verification.ts';
import {
  Country,
  CreatedAt,
  CustomFields,
  CustomFieldsPatch,
  Email,
  ExternalId,
  Ids,
  Instant,
  Name,
  Nullable,
  Paginate,
  PaginateOrContinue,
  Score,
  Strict,
  Text,
  UpdatedAt,
  Url,
  Uuid,
} from './base/wire.ts';

const PhoneNumber = Strict(
  {
    country_code: Text(255, { description: 'International prefix with `+`; `""` if unknown.', examples: ['+44'] }),
    number: Text(255, { description: 'The number without the prefix, as free text.', examples: ['20 7946 0000'] }),
  },
  { title: 'PhoneNumber' },
);

const writable = {
  external_id: ExternalId(),
  first_name: Name({ description: 'First name: 1–255 characters.', examples: ['Ada'] }),
  middle_name: Nullable(Text(255, { description: 'Middle name.', examples: ['King'] })),
  last_name: Name({ description: 'Last name: 1–255 characters.', examples: ['Lovelace'] }),
  gender: Nullable(Text(255, { description: 'Gender, as free text.', examples: ['female'] })),
  birth_year: Nullable(Type.Integer({ minimum: 1, maximum: 9999, description: 'Year of birth.', examples: [1815] })),
  profnet_url: Nullable(Url('Profile in the professional network.')),
  social1_url: Nullable(Url('Profile in a social network.')),
  social2_url: Nullable(Url('Profile in another social network.')),
  work_email: Nullable(
    Email(
      'E-mail address at work. Several contacts may have the same. Verifications are about this address. Null: none; ' +
        'then the contact needs an `external_id`, a `profnet_url` or a phone number.',
    ),
  ),
  personal_email: Nullable(Email('Private e-mail address.')),
  other_emails: Nullable(Type.Array(Email(), { maxItems: 20, description: 'Further e-mail addresses, at most 20.' })),
  industry: Text(255, { description: 'Industry that the person works in, as free text.', examples: ['Computing'] }),
  job_title: Text(255, { description: 'Job title.', examples: ['Analyst'] }),
  location_locality: Text(255, { description: 'Town or city.', examples: ['London'] }),
  location_country: Country(),
  location_region: Text(255, { description: 'State, county or province.', examples: ['England'] }),
  location_postal_code: Nullable(Text(255, { description: 'Postal code.', examples: ['SW1A 1AA'] })),
  phone_numbers: Type.Array(PhoneNumber, {
    maxItems: 20,
    description: 'Phone numbers, at most 20. `[]`: none.',
    examples: [[{ country_code: '+44', number: '20 7946 0000' }]],
  }),
  mobile_phone: Nullable(Text(255, 'Mobile phone number, as free text.')),
  custom_fields: CustomFields(),
};

/** Names and `work_email` are `""` here if a contact has none. */
const answered = {
  ...writable,
  first_name: Text(255, { description: 'First name. `""` if none.', examples: ['Ada'] }),
  last_name: Text(255, { description: 'Last name. `""` if none.', examples: ['Lovelace'] }),
  work_email: Text(254, {
    description: 'E-mail address at work. `""` if none.',
    examples: ['ada.lovelace@example.com'],
  }),
};

/** Without a company, `id` is null and the other fields are `""`. */
const ContactCompany = Type.Object(
  {
    id: Nullable(Uuid('Id of the company. Null: the contact has no company.')),
    company_name: Type.String({ description: 'Name of the company; `""` without a company.' }),
    industry: Type.String({ description: 'Industry of the company; `""` without a company.' }),
  },
  { title: 'ContactCompany', description: 'The company that the contact works for. It is always an object.' },
);

const contactProperties = {
  id: Uuid('Id of the contact.'),
  ...answered,
  company: ContactCompany,
  score: Score(),
  verification_status: VerificationStatus(),
  last_verified: Instant('When `work_email` was last verified; if never, when the contact was created.'),
  crm_synced_at: Nullable(Instant('When a job with `sync_crm` last wrote to this contact. Null: none did.')),
  removal_requested_at: Nullable(
    Instant(
      'When the person, whom you had unlocked in the prospect catalog, was erased there on request. Null: never.',
    ),
  ),
  assigned_to: Nullable(Uuid('The responsible user. Null: nobody.')),
  created_at: CreatedAt(),
  updated_at: UpdatedAt(),
};

export const Contact = Type.Object(contactProperties, { title: 'Contact' });
export type Contact = Static<typeof Contact>;

export const ContactDetail = Type.Object(
  {
    ...contactProperties,
    list_ids: Type.Array(Uuid(), {
      description:
        'The lists to which the contact was added by hand. Lists that it is in by their rules are not shown here.',
    }),
  },
  { title: 'ContactDetail' },
);
export type ContactDetail = Static<typeof ContactDetail>;

/** An id or a name. If no company has this name, one is created. An empty object means no company. */
const CompanyReference = Strict(
  {
    id: Type.Optional(Uuid('An existing company. Not together with `name`.')),
    name: Type.Optional(
      Name({
        description:
          'Name of the company. The oldest company with this name is used, whatever its case and accents; if there is none, it is created.',
        examples: ['Analytical Engines Ltd'],
      }),
    ),
    industry: Type.Optional(
      Text(255, {
        description: 'Industry of a company that is created. Only together with `name`.',
        examples: ['Computing'],
      }),
    ),
  },
  {
    title: 'CompanyReference',
    description: 'The company that the contact works for: by `id`, or by `name`. `{}`: none.',
    examples: [{ name: 'Analytical Engines Ltd' }],
    dependentRequired: { industry: ['name'] },
    not: {
      type: 'object',
      properties: { id: {}, name: {} },
      required: ['id', 'name'],
      description: 'id and name exclude each other',
    },
  },
);
export type CompanyReference = Static<typeof CompanyReference>;

const references = {
  assigned_to: Uuid('The responsible user: an id from `GET /api/ext/customer/users`.'),
  company: CompanyReference,
  list_ids: Ids(
    'Existing lists to which the contact is added by hand. In a PATCH they replace the lists that it was added to; `[]`: no list.',
  ),
};

const { assigned_to } = references;

/** Those with a database column of the same name. */
export const contactFields = Object.keys({ ...writable, assigned_to }) as (keyof typeof writable | 'assigned_to')[];

const { first_name, last_name, work_email, phone_numbers, ...optional } = { ...writable, ...references };

export const ContactCreate = Type.Composite(
  [Type.Object({ first_name, last_name, work_email, phone_numbers }), Type.Partial(Type.Object(optional))],
  {
    additionalProperties: false,
    title: 'ContactCreate',
    examples: [
      {
        first_name: 'Ada',
        last_name: 'Lovelace',
        work_email: 'ada.lovelace@example.com',
        phone_numbers: [{ country_code: '+44', number: '20 7946 0000' }],
        job_title: 'Analyst',
        company: { name: 'Analytical Engines Ltd', industry: 'Computing' },
      },
    ],
  },
);
export type ContactCreate = Static<typeof ContactCreate>;

/** Omitted fields do not change. Null clears a nullable field. */
export const ContactPatch = Type.Partial(
  Type.Object({
    ...writable,
    ...references,
    custom_fields: CustomFieldsPatch(),
    assigned_to: Nullable(references.assigned_to),
    company: Nullable(CompanyReference),
  }),
  {
    additionalProperties: false,
    title: 'ContactPatch',
    examples: [{ job_title: 'Chief Analyst', mobile_phone: null, custom_fields: { plan: 'gold' } }],
  },
);
export type ContactPatch = Static<typeof ContactPatch>;

const listed = { filters: ContactFilters, order_by: ContactOrder };

export const ContactQuery = Type.Partial(Type.Object({ ...listed, paginate: PaginateOrContinue }), {
  additionalProperties: false,
  title: 'ContactQuery',
  examples: [{ filters: { location_country: 'GB' }, order_by: { last_name: 'ASC' }, paginate: { page: 1, limit: 25 } }],
});
export type ContactQuery = Static<typeof ContactQuery>;

/** Like `ContactQuery`, but with a page by number only. */
export const ContactCount = Type.Partial(Type.Object({ ...listed, paginate: Paginate }), {
  additionalProperties: false,
  title: 'ContactCount',
  examples: [{ filters: { location_country: 'GB' } }],
});
