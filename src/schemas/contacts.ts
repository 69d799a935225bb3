import { Type, type Static } from '@sinclair/typebox';
import * as wire from './wire.ts';
import { exampleOfPeople, Filters, filterFieldsOf, listBodies, textOfPeople } from './filters.ts';
import { VerificationStatus } from './verification.ts';

const PhoneNumber = wire.Strict(
  {
    country_code: wire.Text(255, { description: 'International prefix with `+`; `""` if unknown.', examples: ['+44'] }),
    number: wire.Text(255, { description: 'The number without the prefix, as free text.', examples: ['20 7946 0000'] }),
  },
  { title: 'PhoneNumber' },
);

const writable = {
  external_id: wire.ExternalId(),
  first_name: wire.Name({ description: 'First name: 1–255 characters.', examples: ['Ada'] }),
  middle_name: wire.Nullable(wire.Text(255, { description: 'Middle name.', examples: ['King'] })),
  last_name: wire.Name({ description: 'Last name: 1–255 characters.', examples: ['Lovelace'] }),
  gender: wire.Nullable(wire.Text(255, { description: 'Gender, as free text.', examples: ['female'] })),
  birth_year: wire.Nullable(
    Type.Integer({ minimum: 1, maximum: 9999, description: 'Year of birth.', examples: [1815] }),
  ),
  profnet_url: wire.Nullable(wire.Url('Profile in the professional network.')),
  social1_url: wire.Nullable(wire.Url('Profile in a social network.')),
  social2_url: wire.Nullable(wire.Url('Profile in another social network.')),
  work_email: wire.Nullable(
    wire.Email(
      'E-mail address at work. Several contacts may have the same. Verifications are about this address. Null: none; ' +
        'then the contact needs an `external_id`, a `profnet_url` or a phone number.',
    ),
  ),
  personal_email: wire.Nullable(wire.Email('Private e-mail address.')),
  other_emails: wire.Nullable(
    Type.Array(wire.Email(), { maxItems: 20, description: 'Further e-mail addresses, at most 20.' }),
  ),
  industry: wire.Text(255, {
    description: 'Industry that the person works in, as free text.',
    examples: ['Computing'],
  }),
  job_title: wire.Text(255, { description: 'Job title.', examples: ['Analyst'] }),
  location_locality: wire.Text(255, { description: 'Town or city.', examples: ['London'] }),
  location_country: wire.Country(),
  location_region: wire.Text(255, { description: 'State, county or province.', examples: ['England'] }),
  location_postal_code: wire.Nullable(wire.Text(255, { description: 'Postal code.', examples: ['SW1A 1AA'] })),
  phone_numbers: Type.Array(PhoneNumber, {
    maxItems: 20,
    description: 'Phone numbers, at most 20. `[]`: none.',
    examples: [[{ country_code: '+44', number: '20 7946 0000' }]],
  }),
  mobile_phone: wire.Nullable(wire.Text(255, 'Mobile phone number, as free text.')),
  custom_fields: wire.CustomFields(),
};

const answered = {
  ...writable,
  first_name: wire.Text(255, { description: 'First name. `""` if none.', examples: ['Ada'] }),
  last_name: wire.Text(255, { description: 'Last name. `""` if none.', examples: ['Lovelace'] }),
  work_email: wire.Text(254, {
    description: 'E-mail address at work. `""` if none.',
    examples: ['ada.lovelace@example.com'],
  }),
};

const ContactCompany = Type.Object(
  {
    id: wire.Nullable(wire.Uuid('Id of the company. Null: the contact has no company.')),
    external_id: wire.Nullable(
      Type.String({ description: 'Your own id of the company. Null: it has none, or there is no company.' }),
    ),
    company_name: Type.String({ description: 'Name of the company; `""` without a company.' }),
    industry: Type.String({ description: 'Industry of the company; `""` without a company.' }),
  },
  { title: 'ContactCompany', description: 'The company that the contact works for. It is always an object.' },
);

const contactProperties = {
  id: wire.Uuid('Id of the contact.'),
  ...answered,
  company: ContactCompany,
  score: wire.Score(),
  verification_status: VerificationStatus(),
  last_verified: wire.Instant('When `work_email` was last verified; if never, when the contact was created.'),
  crm_synced_at: wire.Nullable(wire.Instant('When a job with `sync_crm` last wrote to this contact. Null: none did.')),
  removal_requested_at: wire.Nullable(
    wire.Instant(
      'When the person, whom you had unlocked in the prospect catalog, was erased there on request. Null: never.',
    ),
  ),
  assigned_to: wire.Nullable(wire.Uuid('The responsible user. Null: nobody.')),
  created_at: wire.CreatedAt(),
  updated_at: wire.UpdatedAt(),
};

export const Contact = Type.Object(contactProperties, { title: 'Contact' });
export type Contact = Static<typeof Contact>;

export const ContactDetail = wire.Named('ContactDetail', {
  ...contactProperties,
  list_ids: Type.Array(wire.Uuid(), {
    description:
      'The lists to which the contact was added by hand. Lists that it is in by their rules are not shown here.',
  }),
  last_activity_at: wire.LastActivityAt(),
});
export type ContactDetail = Static<typeof ContactDetail>;

const having = (name: string) => ({ properties: { [name]: {} }, required: [name] });

/**
 * Names the company of a contact by its id, name or domain. If no company has the name or domain, one is created. An
 * empty object means no company.
 */
const CompanyReference = wire.Strict(
  {
    id: Type.Optional(wire.Uuid('An existing company. Alone.')),
    external_id: Type.Optional(
      Type.String({ minLength: 1, maxLength: 255, description: 'An existing company, by your own id of it. Alone.' }),
    ),
    domain: Type.Optional(
      wire.Domain(
        'The oldest company with this domain is used; if there is none, it is created, called `name` or the domain.',
      ),
    ),
    name: Type.Optional(
      wire.Name({
        description:
          'Name of the company. Without `domain`, the oldest company with this name is used, whatever its case and accents; if there is none, it is created.',
        examples: ['Analytical Engines Ltd'],
      }),
    ),
    industry: Type.Optional(
      wire.Text(255, {
        description: 'Industry of a company that is created. Only together with `name` or `domain`.',
        examples: ['Computing'],
      }),
    ),
  },
  {
    title: 'CompanyReference',
    description: 'The company that the contact works for: by `id`, `external_id`, `domain` or `name`. `{}`: none.',
    examples: [{ name: 'Analytical Engines Ltd' }],
    not: {
      type: 'object',
      anyOf: [
        { ...having('id'), minProperties: 2 },
        { ...having('external_id'), minProperties: 2 },
        { ...having('industry'), not: { anyOf: [having('name'), having('domain')] } },
      ],
      description: 'must be an id, an external_id, or a name or domain or both; industry only beside a name or domain',
    },
  },
);
export type CompanyReference = Static<typeof CompanyReference>;

const references = {
  assigned_to: wire.Uuid('The responsible user: an id from `GET /api/ext/customer/users`.'),
  company: CompanyReference,
  list_ids: wire.Ids(
    'Existing lists to which the contact is added by hand. In a PATCH they replace the lists that it was added to; `[]`: no list.',
  ),
};

const { assigned_to } = references;

export const contactFields = Object.keys({ ...writable, assigned_to }) as (keyof typeof writable | 'assigned_to')[];

const { first_name, last_name, work_email, phone_numbers, ...optional } = { ...writable, ...references };

export const ContactCreate = Type.Composite(
  [
    Type.Object({ first_name, last_name, work_email, phone_numbers }),
    Type.Partial(Type.Object({ ...optional, custom_fields: wire.CustomFieldsPatch() })),
  ],
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

export const ContactPatch = wire.PartialBody(
  'ContactPatch',
  [{ job_title: 'Chief Analyst', mobile_phone: null, custom_fields: { plan: 'gold' } }],
  {
    ...writable,
    ...references,
    custom_fields: wire.CustomFieldsPatch(),
    assigned_to: wire.Nullable(references.assigned_to),
    company: wire.Nullable(CompanyReference),
  },
);
export type ContactPatch = Static<typeof ContactPatch>;

/**
 * Name of the column with a contact's lists in files that people read. It shows only lists to which the contact was
 * added by hand.
 */
export const listNames = 'list_names';

const placeForm = { group: 'Place', isRare: true } as const;

export const contactTable = {
  first_name: { label: 'First name', filter: 'text', isSearched: true, form: { group: 'Person' } },
  middle_name: { label: 'Middle name', filter: 'text', isSearched: true, form: { group: 'Person', isRare: true } },
  last_name: { label: 'Last name', filter: 'text', isSearched: true, isIndexed: true, form: { group: 'Person' } },
  full_name: { label: 'Full name', isInternal: true },
  note: wire.noteEntry,
  work_email: {
    label: 'Work e-mail',
    filter: 'text',
    isSearched: true,
    isIndexed: true,
    form: { group: 'How to reach them', control: 'email' },
  },
  personal_email: {
    label: 'Personal e-mail',
    filter: 'text',
    isSearched: true,
    form: { group: 'How to reach them', control: 'email' },
  },
  other_emails: {
    label: 'Other e-mails',
    isSearched: true,
    form: { group: 'How to reach them', control: 'lines', hint: 'One on each line.', isRare: true },
  },
  phone_numbers: {
    label: 'Phone numbers',
    form: { group: 'How to reach them', control: 'phones', hint: 'One on each line, such as +44 20 7946 0000.' },
    isInTools: true,
  },
  mobile_phone: {
    label: 'Mobile phone',
    type: 'phone',
    filter: 'text',
    form: { group: 'How to reach them' },
    isInTools: true,
  },
  company: {
    label: 'Company',
    references: 'company',
    isInternal: true,
    form: { group: 'Work', control: 'company', hint: 'A company with this name is used, or created if there is none.' },
    isInTools: true,
  },
  job_title: { label: 'Job title', filter: 'text', form: { group: 'Work' }, isInTools: true },
  'company.name': { label: 'Company' },
  'company.industry': { label: 'Industry of the company', filter: 'text' },
  'company.domain': { label: 'Domain of the company', isInternal: true },
  'company.external_id': { label: 'Your own id of the company', isInternal: true },
  'company.company_name': { label: 'Company', filter: 'text', isInternal: true },
  'company.id': { label: 'Id of the company', isInternal: true },
  company_id: { label: 'Id of the company', filter: 'uuid', isInternal: true },
  industry: { label: 'Industry', filter: 'text', form: { group: 'Work', isRare: true }, isInTools: true },
  assigned_email: { label: 'Assigned to', scope: 'customer:read' },
  assigned_to: {
    label: 'Assigned to',
    references: 'users',
    filter: 'uuid',
    isInternal: true,
    form: { group: 'Work', control: 'user' },
  },
  location_locality: { label: 'City', filter: 'text', form: placeForm, isInTools: true },
  location_region: { label: 'Region', filter: 'text', form: placeForm },
  location_postal_code: { label: 'Postal code', filter: 'text', form: placeForm },
  location_country: { label: 'Country', filter: 'text', form: { ...placeForm, control: 'country' }, isInTools: true },
  profnet_url: { label: 'Profile', filter: 'text', form: wire.profileForm, isInTools: true },
  social1_url: { label: 'Social profile', filter: 'text', form: wire.profileForm },
  social2_url: { label: 'Second social profile', filter: 'text', form: wire.profileForm },
  gender: { label: 'Gender', filter: 'text', form: { group: 'Person', isRare: true } },
  birth_year: { label: 'Year of birth', filter: 'integer', form: { group: 'Person', control: 'number', isRare: true } },
  external_id: {
    label: 'Your own id',
    filter: 'exact',
    isInternal: true,
    form: { ...wire.moreForm, control: 'text', hint: 'The id of the contact in another system of yours.' },
    isInTools: true,
  },
  verification_status: { label: 'E-mail status', filter: 'text' },
  score: { label: 'Score', filter: 'integer', isIndexed: true },
  [listNames]: { label: 'Lists' },
  list_ids: { label: 'Lists', references: 'lists', isInternal: true, isInTools: true },
  last_verified: { label: 'Last verified', filter: 'instant' },
  crm_synced_at: { label: 'Last written by a job', filter: 'instant' },
  removal_requested_at: { label: 'Removal requested', filter: 'instant' },
  last_activity_at: { label: 'Last activity', isInternal: true },
  created_at: { label: 'Created', filter: 'instant', isIndexed: true },
  updated_at: { label: 'Last changed', filter: 'instant', isIndexed: true },
  id: { label: 'Id', filter: 'uuid', isInternal: true },
  list_id: { label: 'List', filter: 'uuid', isUnsorted: true, isInternal: true },
  custom_fields: { label: 'Your own fields', isInternal: true, isInTools: true },
  search: { label: 'Search', filter: 'search', isUnsorted: true, isInternal: true },
} satisfies wire.FieldTable<keyof ContactDetail>;

export const contactFilterFields = filterFieldsOf('contacts', 'Contact', contactTable);
export const ContactFilters = Filters(
  contactFilterFields,
  `${textOfPeople}\nA number of at least 5 digits also finds the phone numbers that contain it, however both are written.`,
  exampleOfPeople,
);
export const { query: ContactQuery, count: ContactCount } = listBodies(contactFilterFields, ContactFilters, {
  filters: { location_country: 'GB' },
  order: { last_name: 'ASC' },
});
export type ContactQuery = Static<typeof ContactQuery>;
