import { Type, type Static } from '@sinclair/typebox';
import { CompanyFilters, CompanyOrder } from './filters.ts';
import { VerificationStatus } from './verification.ts';
import {
  Country,
  CreatedAt,
  CustomFields,
  CustomFieldsPatch,
  ExternalId,
  Instant,
  Name,
  Nullable,
  Paginate,
  PaginateOrContinue,
  Score,
  Text,
  UpdatedAt,
  Url,
  Uuid,
} from './base/wire.ts';

const writable = {
  external_id: ExternalId(),
  type: Text(64, {
    minLength: 1,
    description: 'What the company is to you, in your own words, such as `customer` or `partner`.',
    examples: ['customer'],
  }),
  company_name: Name({
    description: 'Name of the company: 1–255 characters. Several companies may have the same name.',
    examples: ['Analytical Engines Ltd'],
  }),
  size: Text(64, { description: 'Number of employees, as free text.', examples: ['11-50'] }),
  industry: Text(255, { description: 'Industry, as free text.', examples: ['Computing'] }),
  social2_url: Nullable(Url('Page of the company in another social network.')),
  profnet_url: Nullable(Url('Page of the company in the professional network.')),
  social1_url: Nullable(Url('Page of the company in a social network.')),
  location_locality: Nullable(Text(255, { description: 'Town or city.', examples: ['London'] })),
  location_metro: Nullable(Text(255, { description: 'Metropolitan area.', examples: ['Greater London'] })),
  location_region: Nullable(Text(255, { description: 'State, county or province.', examples: ['England'] })),
  location_street_address: Nullable(Text(255, 'Street and number.')),
  location_address_line_2: Nullable(Text(255, 'Second line of the address, such as a floor.')),
  location_postal_code: Nullable(Text(255, { description: 'Postal code.', examples: ['SW1A 1AA'] })),
  location_country: Country(),
  custom_fields: CustomFields(),
};

/** The database columns have the same names. */
export const companyFields = Object.keys(writable) as (keyof typeof writable)[];

export const Company = Type.Object(
  {
    id: Uuid('Id of the company.'),
    ...writable,
    type: Type.String({
      description: 'What the company is to you. `""` for a company that was created from the name in a contact.',
    }),
    last_verified: Instant('When the company was last verified; if never, when it was created.'),
    verification_status: VerificationStatus(),
    score: Score(),
    created_at: CreatedAt(),
    updated_at: UpdatedAt(),
  },
  { title: 'Company' },
);
export type Company = Static<typeof Company>;

const { type, company_name, ...optional } = writable;

export const CompanyCreate = Type.Composite(
  [Type.Object({ type, company_name }), Type.Partial(Type.Object(optional))],
  {
    additionalProperties: false,
    title: 'CompanyCreate',
    examples: [{ type: 'customer', company_name: 'Analytical Engines Ltd', industry: 'Computing' }],
  },
);
export type CompanyCreate = Static<typeof CompanyCreate>;

/** Omitted fields do not change. Null clears a nullable field. */
export const CompanyPatch = Type.Partial(Type.Object({ ...writable, custom_fields: CustomFieldsPatch() }), {
  additionalProperties: false,
  title: 'CompanyPatch',
  examples: [{ industry: 'Computing', location_country: 'GB', location_metro: null }],
});
export type CompanyPatch = Static<typeof CompanyPatch>;

const listed = { filters: CompanyFilters, order_by: CompanyOrder };

export const CompanyQuery = Type.Partial(Type.Object({ ...listed, paginate: PaginateOrContinue }), {
  additionalProperties: false,
  title: 'CompanyQuery',
  examples: [
    { filters: { industry: 'Computing' }, order_by: { company_name: 'ASC' }, paginate: { page: 1, limit: 25 } },
  ],
});

/** Like `CompanyQuery`, but with a page by number only. */
export const CompanyCount = Type.Partial(Type.Object({ ...listed, paginate: Paginate }), {
  additionalProperties: false,
  title: 'CompanyCount',
  examples: [{ filters: { industry: 'Computing' } }],
});
