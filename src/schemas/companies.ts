import { Type, type Static } from '@sinclair/typebox';
import { CompanyFilters, CompanyOrder, PaginateOrContinue } from './filters.ts';
import { verificationStatuses } from './verification.ts';
import {
  Country,
  CustomFields,
  CustomFieldsPatch,
  Enum,
  ExternalId,
  Instant,
  Name,
  Nullable,
  Paginate,
  Text,
  Url,
  Uuid,
} from './wire.ts';

/** Fields of a company that callers can write. Responses contain these fields too. */
const writable = {
  external_id: ExternalId(),
  type: Text(64, { minLength: 1, examples: ['customer'] }),
  company_name: Name({ examples: ['Analytical Engines Ltd'] }),
  size: Text(64, { examples: ['11-50'] }),
  industry: Text(),
  social2_url: Nullable(Url()),
  profnet_url: Nullable(Url()),
  social1_url: Nullable(Url()),
  location_locality: Nullable(Text()),
  location_metro: Nullable(Text()),
  location_region: Nullable(Text()),
  location_street_address: Nullable(Text()),
  location_address_line_2: Nullable(Text()),
  location_postal_code: Nullable(Text()),
  location_country: Country(),
  custom_fields: CustomFields(),
};

/** Names of the company fields that callers can write. The database columns have the same names. */
export const companyFields = Object.keys(writable) as (keyof typeof writable)[];

/** A company, as responses show it. */
export const Company = Type.Object(
  {
    id: Uuid(),
    ...writable,
    type: Type.String({ description: 'empty for a company that was created from the name in a contact' }),
    last_verified: Instant(),
    verification_status: Enum(verificationStatuses),
    score: Type.Integer({ minimum: 0, maximum: 100 }),
    created_at: Instant(),
    updated_at: Instant(),
  },
  { title: 'Company' },
);
export type Company = Static<typeof Company>;

const { type, company_name, ...optional } = writable;

/** Request body for a new company. Several companies may have the same name. */
export const CompanyCreate = Type.Composite(
  [Type.Object({ type, company_name }), Type.Partial(Type.Object(optional))],
  {
    additionalProperties: false,
    title: 'CompanyCreate',
    examples: [{ type: 'customer', company_name: 'Analytical Engines Ltd', industry: 'Computing' }],
  },
);
export type CompanyCreate = Static<typeof CompanyCreate>;

/**
 * Request body for changing a company (PATCH). Fields that are not sent do not change. The value null clears a field
 * that can be null.
 */
export const CompanyPatch = Type.Partial(Type.Object({ ...writable, custom_fields: CustomFieldsPatch() }), {
  additionalProperties: false,
  title: 'CompanyPatch',
  examples: [{ industry: 'Computing', location_country: 'GB', location_metro: null }],
});
export type CompanyPatch = Static<typeof CompanyPatch>;

const listed = { filters: CompanyFilters, order_by: CompanyOrder };

/** Request body of the company list: filters, order and page. */
export const CompanyQuery = Type.Partial(Type.Object({ ...listed, paginate: PaginateOrContinue }), {
  additionalProperties: false,
  title: 'CompanyQuery',
  examples: [
    { filters: { industry: 'Computing' }, order_by: { company_name: 'ASC' }, paginate: { page: 1, limit: 25 } },
  ],
});
export type CompanyQuery = Static<typeof CompanyQuery>;

/** Request body of the company count: filters, order and page. It accepts a page number but no cursor. */
export const CompanyCount = Type.Partial(Type.Object({ ...listed, paginate: Paginate }), {
  additionalProperties: false,
  title: 'CompanyCount',
  examples: [{ filters: { industry: 'Computing' } }],
});
export type CompanyCount = Static<typeof CompanyCount>;
