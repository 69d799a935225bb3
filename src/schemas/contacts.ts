import { Type, type Static } from '@sinclair/typebox';
import { ContactFilters, ContactOrder, PaginateOrContinue } from './filters.ts';
import { verificationStatuses } from './verification.ts';
import {
  Country,
  CustomFields,
  CustomFieldsPatch,
  Email,
  Enum,
  ExternalId,
  Ids,
  Instant,
  Name,
  Nullable,
  Paginate,
  Strict,
  Text,
  Url,
  Uuid,
} from './wire.ts';

const PhoneNumber = Strict(
  { country_code: Text(255, { examples: ['+44'] }), number: Text(255, { examples: ['20 7946 0000'] }) },
  { title: 'PhoneNumber' },
);

/** Fields of a contact that callers can write. Responses contain these fields too. */
const writable = {
  external_id: ExternalId(),
  first_name: Name({ examples: ['Ada'] }),
  middle_name: Nullable(Text()),
  last_name: Name({ examples: ['Lovelace'] }),
  gender: Nullable(Text()),
  birth_year: Nullable(Type.Integer({ minimum: 1, maximum: 9999 })),
  profnet_url: Nullable(Url()),
  social1_url: Nullable(Url()),
  social2_url: Nullable(Url()),
  work_email: Email(),
  personal_email: Nullable(Email()),
  other_emails: Nullable(Type.Array(Email(), { maxItems: 20 })),
  industry: Text(),
  job_title: Text(255, { examples: ['Analyst'] }),
  location_locality: Text(),
  location_country: Country(),
  location_region: Text(),
  location_postal_code: Nullable(Text()),
  phone_numbers: Type.Array(PhoneNumber, { maxItems: 20 }),
  mobile_phone: Nullable(Text()),
  custom_fields: CustomFields(),
};

/**
 * Fields of a contact as responses show them. Here, names and e-mail address can be `""`, because a contact created
 * from a prospect may lack them.
 */
const answered = { ...writable, first_name: Text(), last_name: Text(), work_email: Text(254) };

/** The company of a contact. If the contact has no company, `id` is null and the texts are empty. */
const ContactCompany = Type.Object(
  { id: Nullable(Uuid()), company_name: Type.String(), industry: Type.String() },
  { title: 'ContactCompany' },
);

const contactProperties = {
  id: Uuid(),
  ...answered,
  company: ContactCompany,
  score: Type.Integer({ minimum: 0, maximum: 100 }),
  verification_status: Enum(verificationStatuses),
  last_verified: Instant(),
  crm_synced_at: Nullable(Instant()),
  assigned_to: Nullable(Uuid()),
  created_at: Instant(),
  updated_at: Instant(),
};

/** A contact in the list of contacts. */
export const Contact = Type.Object(contactProperties, { title: 'Contact' });
export type Contact = Static<typeof Contact>;

/**
 * A single contact, as responses show it. `list_ids` are the ids of the lists to which users added the contact by hand.
 */
export const ContactDetail = Type.Object(
  { ...contactProperties, list_ids: Type.Array(Uuid()) },
  { title: 'ContactDetail' },
);
export type ContactDetail = Static<typeof ContactDetail>;

/**
 * Reference to a contact's company in a request: by `id`, or by `name`. If no company has this name, it is created.
 * `{}` means no company.
 */
const CompanyReference = Strict(
  {
    id: Type.Optional(Uuid()),
    name: Type.Optional(Name({ examples: ['Analytical Engines Ltd'] })),
    industry: Type.Optional(Text()),
  },
  {
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
  assigned_to: Uuid({ description: 'a user of the customer' }),
  company: CompanyReference,
  list_ids: Ids({ description: 'existing lists; on PATCH they replace the memberships added by hand' }),
};

const { assigned_to } = references;

/** Names of the contact fields that callers can write and that have a database column of the same name. */
export const contactFields = Object.keys({ ...writable, assigned_to }) as (keyof typeof writable | 'assigned_to')[];

const { first_name, last_name, work_email, phone_numbers, ...optional } = { ...writable, ...references };

/** Request body for a new contact. */
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

/**
 * Request body for changing a contact (PATCH). Fields that are not sent do not change. The value null clears a field
 * that can be null.
 */
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

/** Request body of the contact list: filters, order and page. */
export const ContactQuery = Type.Partial(Type.Object({ ...listed, paginate: PaginateOrContinue }), {
  additionalProperties: false,
  title: 'ContactQuery',
  examples: [{ filters: { location_country: 'GB' }, order_by: { last_name: 'ASC' }, paginate: { page: 1, limit: 25 } }],
});
export type ContactQuery = Static<typeof ContactQuery>;

/** Request body of the contact count: filters, order and page. It accepts a page number but no cursor. */
export const ContactCount = Type.Partial(Type.Object({ ...listed, paginate: Paginate }), {
  additionalProperties: false,
  title: 'ContactCount',
  examples: [{ filters: { location_country: 'GB' } }],
});
export type ContactCount = Static<typeof ContactCount>;
