import { Type, type Static } from '@sinclair/typebox';
import * as wire from './wire.ts';
import { exampleOfPeople, Filters, filterFieldsOf, OrderBy, textOfPeople } from './filters.ts';
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

/** Fields of companies. To add a field, add it here, to `writable` and to a migration. */
export const companyTable = {
  company_name: {
    label: 'Name',
    filter: 'text',
    isSearched: true,
    isIndexed: true,
    form: { group: 'Company' },
    headers:
      'Company name|Company|Account name|Account|Organization name|Organisation name|Organization|Organisation|Business name|Name|' +
      'Firmenname|Firma|Unternehmen|Unternehmensname|Firmenbezeichnung|Nom de l’entreprise|Nom de la société|Raison sociale|Société|' +
      'Entreprise|Nom|Nombre de la empresa|Razón social|Empresa|Compañía|Nombre',
  },
  note: wire.noteEntry,
  domain: {
    label: 'Domain',
    filter: 'domain',
    form: { group: 'Company', control: 'text', hint: 'Such as example.com. Of a web address, its host is taken.' },
    headers:
      'Domain|Company domain name|Company domain|Domain name|Website domain|Company website domain|Website|Company website|Website URL|' +
      'Web site|Web address|Web page|Homepage|Domäne|Firmendomain|Webseite|Internetseite|Internetadresse|Internet|Nom de domaine|Domaine|' +
      'Site web|Site internet|Dominio|Nombre de dominio|Sitio web|Página web',
  },
  type: {
    label: 'Type',
    filter: 'text',
    form: { group: 'Company', control: 'text', hint: 'What it is to you, such as customer or partner.' },
    headers: 'Company type|Account type|Type|Unternehmenstyp|Firmentyp|Typ|Type d’entreprise|Tipo de empresa|Tipo',
  },
  industry: {
    label: 'Industry',
    filter: 'text',
    form: { group: 'Company' },
    headers:
      'Industry|Industry sector|Branche|Wirtschaftszweig|Secteur|Secteur d’activité|Industrie|Sector|Sector de actividad|Industria',
  },
  size: {
    label: 'Size',
    filter: 'text',
    form: { group: 'Company', control: 'text', hint: 'Number of employees, such as 11-50.' },
    headers:
      'Size|Company size|Number of employees|Employees|# Employees|No. of employees|Employee count|Headcount|Mitarbeiter|' +
      'Mitarbeiterzahl|Anzahl Mitarbeiter|Anzahl der Mitarbeiter|Unternehmensgröße|Firmengröße|Effectif|Effectifs|Nombre d’employés|' +
      'Nombre de salariés|Taille|Taille de l’entreprise|Número de empleados|Empleados|Tamaño|Tamaño de la empresa',
  },
  location_street_address: {
    label: 'Street',
    filter: 'text',
    form: { group: 'Place' },
    headers:
      'Street address|Street|Billing street|Company street|Address line 1|Address 1|Address|Company address|Straße|Straße und Hausnummer|' +
      'Str.|Anschrift|Adresse|Rue|Adresse 1|Adresse postale|Dirección|Calle|Domicilio',
  },
  location_address_line_2: {
    label: 'Second address line',
    filter: 'text',
    form: { group: 'Place' },
    headers:
      'Street address 2|Address line 2|Address 2|Second address line|Adresszusatz|Adresszeile 2|Adresse 2|Complément d’adresse|' +
      'Dirección 2|Complemento de dirección',
  },
  location_postal_code: {
    label: 'Postal code',
    filter: 'text',
    form: { group: 'Place' },
    headers:
      'Postal code|Billing zip/postal code|Billing postal code|Company postal code|Postcode|Zip code|Zip|Zip/Postal code|PLZ|Postleitzahl|' +
      'Code postal|CP|Código postal|C.P.',
  },
  location_locality: {
    label: 'City',
    filter: 'text',
    form: { group: 'Place' },
    headers:
      'City|Billing city|Company city|Town|City/Town|Locality|Ort|Stadt|Sitz|Ville|Localité|Commune|Ciudad|Localidad|Población|Municipio',
  },
  location_metro: {
    label: 'Metropolitan area',
    filter: 'text',
    form: { group: 'Place' },
    headers: 'Metropolitan area|Metro area|Metro|Metropolregion|Ballungsraum|Agglomération|Área metropolitana',
  },
  location_region: {
    label: 'Region',
    filter: 'text',
    form: { group: 'Place' },
    headers:
      'State/Region|State/Province|Billing state/province|Billing state|Company state|State or province|State|Region|Province|County|' +
      'Bundesland|Kanton|Région|Provincia|Comunidad autónoma|Región',
  },
  location_country: {
    label: 'Country',
    filter: 'text',
    form: { group: 'Place', control: 'country' },
    headers:
      'Country/Region|Country|Billing country|Company country|Country code|Country name|Land|Land/Region|Ländercode|Länderkürzel|Pays|' +
      'Pays/Région|Code pays|País|País/Región',
  },
  profnet_url: {
    label: 'Profile',
    filter: 'text',
    form: { group: 'Profiles and more', control: 'url' },
    headers:
      'LinkedIn company page|Company LinkedIn URL|LinkedIn URL|LinkedIn|LinkedIn page|LinkedIn profile|Profile|LinkedIn-Seite|' +
      'LinkedIn-Profil|Page LinkedIn|Página de LinkedIn',
  },
  social1_url: {
    label: 'Social profile',
    filter: 'text',
    form: { group: 'Profiles and more', control: 'url' },
    headers:
      'Facebook company page|Facebook URL|Facebook|Facebook page|Social profile|Facebook-Seite|Page Facebook|Página de Facebook',
  },
  social2_url: {
    label: 'Second social profile',
    filter: 'text',
    form: { group: 'Profiles and more', control: 'url' },
    headers:
      'Twitter URL|Twitter|Twitter profile|Second social profile|Twitter-Profil|Profil Twitter|Perfil de Twitter',
  },
  external_id: {
    label: 'Your own id',
    filter: 'exact',
    isInternal: true,
    form: { group: 'Profiles and more', control: 'text', hint: 'The id of the company in another system of yours.' },
    headers:
      'External id|Record ID|Record ID - Company|Company ID|Account ID|Apollo account id|Firmen-ID|Unternehmens-ID|Datensatz-ID|' +
      'ID de l’entreprise|Identifiant|ID de la empresa|ID',
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
const listed = { filters: CompanyFilters, order_by: OrderBy(companyFilterFields) };

export const CompanyQuery = Type.Partial(Type.Object({ ...listed, paginate: wire.PaginateOrContinue }), {
  additionalProperties: false,
  title: 'CompanyQuery',
  examples: [
    { filters: { industry: 'Computing' }, order_by: { company_name: 'ASC' }, paginate: { page: 1, limit: 25 } },
  ],
});

export const CompanyCount = wire.PartialBody('CompanyCount', [{ filters: { industry: 'Computing' } }], {
  ...listed,
  paginate: wire.Paginate,
});
