import { Type, type Static } from '@sinclair/typebox';
import * as wire from './wire.ts';
import { exampleOfPeople, Filters, filterFieldsOf, listBodies, textOfPeople } from './filters.ts';
import { VerificationStatus } from './verification.ts';

const writable = {
  external_id: wire.ExternalId(),
  type: wire.Text(64, {
    minLength: 1,
    description: 'What the company is to you, in your own words, such as `customer` or `partner`.',
    examples: ['customer'],
  }),
  company_name: wire.Name({
    description: 'Name of the company: 1–255 characters. Several companies may have the same name.',
    examples: ['Analytical Engines Ltd'],
  }),
  domain: wire.Nullable(wire.Domain('Domain of the company. Several companies may have the same. Null: none.')),
  size: wire.Text(64, { description: 'Number of employees, as free text.', examples: ['11-50'] }),
  industry: wire.Text(255, { description: 'Industry, as free text.', examples: ['Computing'] }),
  social2_url: wire.Nullable(wire.Url('Page of the company in another social network.')),
  profnet_url: wire.Nullable(wire.Url('Page of the company in the professional network.')),
  social1_url: wire.Nullable(wire.Url('Page of the company in a social network.')),
  location_locality: wire.Nullable(wire.Text(255, { description: 'Town or city.', examples: ['London'] })),
  location_metro: wire.Nullable(wire.Text(255, { description: 'Metropolitan area.', examples: ['Greater London'] })),
  location_region: wire.Nullable(wire.Text(255, { description: 'State, county or province.', examples: ['England'] })),
  location_street_address: wire.Nullable(wire.Text(255, 'Street and number.')),
  location_address_line_2: wire.Nullable(wire.Text(255, 'Second line of the address, such as a floor.')),
  location_postal_code: wire.Nullable(wire.Text(255, { description: 'Postal code.', examples: ['SW1A 1AA'] })),
  location_country: wire.Country(),
  custom_fields: wire.CustomFields(),
};

export const companyFields = Object.keys(writable) as (keyof typeof writable)[];

export const Company = wire.Named('Company', {
  id: wire.Uuid('Id of the company.'),
  ...writable,
  type: Type.String({
    description: 'What the company is to you. `""` for a company that was created from the name in a contact.',
  }),
  last_verified: wire.Instant('When the company was last verified; if never, when it was created.'),
  verification_status: VerificationStatus(),
  score: wire.Score(),
  created_at: wire.CreatedAt(),
  updated_at: wire.UpdatedAt(),
  // Lists leave it out.
  last_activity_at: Type.Optional(wire.LastActivityAt()),
});
export type Company = Static<typeof Company>;

const { type, company_name, ...optional } = writable;

export const CompanyCreate = Type.Composite(
  [
    Type.Object({ type, company_name }),
    Type.Partial(Type.Object({ ...optional, custom_fields: wire.CustomFieldsPatch() })),
  ],
  {
    additionalProperties: false,
    title: 'CompanyCreate',
    examples: [{ type: 'customer', company_name: 'Analytical Engines Ltd', industry: 'Computing' }],
  },
);
export type CompanyCreate = Static<typeof CompanyCreate>;

export const CompanyPatch = wire.PartialBody(
  'CompanyPatch',
  [{ industry: 'Computing', location_country: 'GB', location_metro: null }],
  { ...writable, custom_fields: wire.CustomFieldsPatch() },
);
export type CompanyPatch = Static<typeof CompanyPatch>;

export const companyTable = {
  company_name: { label: 'Name', filter: 'text', isSearched: true, isIndexed: true, form: { group: 'Company' } },
  note: wire.noteEntry,
  domain: {
    label: 'Domain',
    filter: 'domain',
    form: { group: 'Company', control: 'text', hint: 'Such as example.com. Of a web address, its host is taken.' },
  },
  type: {
    label: 'Type',
    filter: 'text',
    form: { group: 'Company', control: 'text', hint: 'What it is to you, such as customer or partner.' },
  },
  industry: { label: 'Industry', filter: 'text', form: { group: 'Company' } },
  size: {
    label: 'Size',
    filter: 'text',
    form: { group: 'Company', control: 'text', hint: 'Number of employees, such as 11-50.' },
  },
  location_street_address: { label: 'Street', filter: 'text', form: { group: 'Place' } },
  location_address_line_2: { label: 'Second address line', filter: 'text', form: { group: 'Place', isRare: true } },
  location_postal_code: { label: 'Postal code', filter: 'text', form: { group: 'Place' } },
  location_locality: { label: 'City', filter: 'text', form: { group: 'Place' } },
  location_metro: { label: 'Metropolitan area', filter: 'text', form: { group: 'Place', isRare: true } },
  location_region: { label: 'Region', filter: 'text', form: { group: 'Place' } },
  location_country: { label: 'Country', filter: 'text', form: { group: 'Place', control: 'country' } },
  profnet_url: { label: 'Profile', filter: 'text', form: wire.profileForm },
  social1_url: { label: 'Social profile', filter: 'text', form: wire.profileForm },
  social2_url: { label: 'Second social profile', filter: 'text', form: wire.profileForm },
  external_id: {
    label: 'Your own id',
    filter: 'exact',
    isInternal: true,
    form: { ...wire.moreForm, control: 'text', hint: 'The id of the company in another system of yours.' },
  },
  verification_status: { label: 'Status', filter: 'text' },
  score: { label: 'Score', filter: 'integer', isIndexed: true },
  last_verified: { label: 'Last verified', filter: 'instant' },
  created_at: { label: 'Created', filter: 'instant', isIndexed: true },
  updated_at: { label: 'Last changed', filter: 'instant', isIndexed: true },
  last_activity_at: { label: 'Last activity', isInternal: true },
  id: { label: 'Id', filter: 'uuid', isInternal: true },
  custom_fields: { label: 'Your own fields', isInternal: true },
  search: { label: 'Search', filter: 'search', isUnsorted: true, isInternal: true },
} satisfies wire.FieldTable<keyof Company>;

export const companyFilterFields = filterFieldsOf('company', 'Company', companyTable);
export const CompanyFilters = Filters(companyFilterFields, textOfPeople, exampleOfPeople);
export const { query: CompanyQuery, count: CompanyCount } = listBodies(companyFilterFields, CompanyFilters, {
  filters: { industry: 'Computing' },
  order: { company_name: 'ASC' },
});
