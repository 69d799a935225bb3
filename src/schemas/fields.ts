import { Type, type Static, type TObject, type TSchema } from '@sinclair/typebox';
import { Company, CompanyCreate, CompanyPatch } from './companies.ts';
import { ContactCreate, ContactDetail, ContactPatch, type Contact } from './contacts.ts';
import { companyFilterFields, contactFilterFields, orderable, type FilterFields } from './filters.ts';
import { Opportunity, OpportunityCreate, OpportunityFilters, OpportunityPatch } from './opportunities.ts';
import { Product, ProductCreate, ProductPatch } from './products.ts';
import { Prospect, ProspectFilters, prospectOrderFields } from './prospects.ts';
import type { Scope } from './base/scopes.ts';
import { Enum } from './base/wire.ts';

const fieldTypes = [
  'text',
  'long_text',
  'email',
  'phone',
  'url',
  'number',
  'integer',
  'boolean',
  'date',
  'datetime',
  'country',
  'currency',
  'choice',
  'reference',
  'list',
] as const;
type FieldType = (typeof fieldTypes)[number];

const referenced = ['contacts', 'company', 'products', 'opportunities', 'users', 'lists', 'stages'] as const;
type Referenced = (typeof referenced)[number];

export const Field = Type.Object(
  {
    name: Type.String({ description: 'The member of the record.', examples: ['job_title'] }),
    label: Type.String({ description: 'Its name for people.', examples: ['Job title'] }),
    type: Enum(fieldTypes, 'What its values are.'),
    required: Type.Boolean({ description: 'Whether a record cannot be created without it.' }),
    writable: Type.Boolean({ description: 'Whether requests can set it.' }),
    nullable: Type.Boolean({ description: 'Whether a PATCH takes null.' }),
    filterable: Type.Boolean({ description: 'Whether `filters` take it.' }),
    sortable: Type.Boolean({ description: 'Whether `order_by` takes it.' }),
    max_length: Type.Optional(Type.Integer({ description: 'Maximum number of characters.' })),
    choices: Type.Optional(Type.Array(Type.String(), { description: 'Its values.' })),
    references: Type.Optional(Enum(referenced, 'The records whose ids it holds.')),
    custom: Type.Boolean({ description: 'Whether it is a custom field of yours, not one of every customer.' }),
  },
  { title: 'Field' },
);
export type Field = Static<typeof Field>;

/** Names of fields for people, in the order in which people read them. Null: a field for programs, such as an id. */
type Labels<Field extends string> = Record<Field, string | null>;

/** A contact's lists, in files for people: the names of those to which it was added by hand. */
export const listNames = 'list_names';

export const contactLabels: Labels<
  Exclude<keyof Contact, 'company' | 'custom_fields'> | 'company.name' | 'company.industry' | typeof listNames
> = {
  first_name: 'First name',
  middle_name: 'Middle name',
  last_name: 'Last name',
  work_email: 'Work e-mail',
  personal_email: 'Personal e-mail',
  other_emails: 'Other e-mails',
  phone_numbers: 'Phone numbers',
  mobile_phone: 'Mobile phone',
  job_title: 'Job title',
  'company.name': 'Company',
  'company.industry': 'Industry of the company',
  industry: 'Industry',
  location_locality: 'City',
  location_region: 'Region',
  location_postal_code: 'Postal code',
  location_country: 'Country',
  profnet_url: 'Profile',
  social1_url: 'Social profile',
  social2_url: 'Second social profile',
  gender: 'Gender',
  birth_year: 'Year of birth',
  verification_status: 'E-mail status',
  score: 'Score',
  [listNames]: 'Lists',
  last_verified: 'Last verified',
  crm_synced_at: 'Last CRM sync',
  removal_requested_at: 'Removal requested',
  created_at: 'Created',
  updated_at: 'Last changed',
  id: null,
  external_id: null,
  assigned_to: null,
};

export const companyLabels: Labels<Exclude<keyof Company, 'custom_fields'>> = {
  company_name: 'Name',
  type: 'Type',
  industry: 'Industry',
  size: 'Size',
  location_street_address: 'Street',
  location_address_line_2: 'Second address line',
  location_postal_code: 'Postal code',
  location_locality: 'City',
  location_metro: 'Metropolitan area',
  location_region: 'Region',
  location_country: 'Country',
  profnet_url: 'Profile',
  social1_url: 'Social profile',
  social2_url: 'Second social profile',
  verification_status: 'Status',
  score: 'Score',
  last_verified: 'Last verified',
  created_at: 'Created',
  updated_at: 'Last changed',
  id: null,
  external_id: null,
};

interface Definition {
  scope: Scope;
  shown: TObject;
  create?: TObject;
  patch?: TObject;
  filters: readonly string[];
  sorts: readonly string[];
  labels?: Readonly<Record<string, string | null>>;
  references?: Readonly<Record<string, Referenced>>;
  /** Of fields whose schema does not tell it. */
  types?: Readonly<Record<string, FieldType>>;
}

const filtersOf = (fields: FilterFields): string[] => Object.keys(fields.types);

/** By the object's name in the path. */
export const objects = {
  contacts: {
    scope: 'contacts:read',
    shown: ContactDetail,
    create: ContactCreate,
    patch: ContactPatch,
    filters: filtersOf(contactFilterFields),
    sorts: orderable(contactFilterFields),
    labels: contactLabels,
    references: { assigned_to: 'users', company: 'company', list_ids: 'lists' },
    types: { mobile_phone: 'phone' },
  },
  company: {
    scope: 'companies:read',
    shown: Company,
    create: CompanyCreate,
    patch: CompanyPatch,
    filters: filtersOf(companyFilterFields),
    sorts: orderable(companyFilterFields),
    labels: companyLabels,
  },
  products: {
    scope: 'products:read',
    shown: Product,
    create: ProductCreate,
    patch: ProductPatch,
    filters: [],
    sorts: [],
  },
  opportunities: {
    scope: 'opportunities:read',
    shown: Opportunity,
    create: OpportunityCreate,
    patch: OpportunityPatch,
    filters: Object.keys(OpportunityFilters.properties),
    sorts: [],
    references: { contacts_ids: 'contacts', company_id: 'company', stage_id: 'stages', user_id_assigned: 'users' },
  },
  prospect: {
    scope: 'prospect:read',
    shown: Prospect,
    filters: Object.keys(ProspectFilters.properties),
    sorts: orderable(prospectOrderFields),
    types: { work_email: 'email', mobile_phone: 'phone' },
  },
} as const satisfies Record<string, Definition>;
export type ObjectName = keyof typeof objects;

/** Returns the fields that every record of an object has, in their order in responses. */
export function builtInFields(object: ObjectName): Field[] {
  const { shown, create, patch, filters, sorts, labels, references, types }: Definition = objects[object];
  const names = Object.keys(shown.properties).filter((name) => name !== 'custom_fields');
  return names.map((name) => {
    const given = patch?.properties[name] ?? create?.properties[name];
    const schema = given ?? shown.properties[name]!;
    const reference = references?.[name];
    const choices = (schema['enum'] as (string | null)[] | undefined)?.filter((one) => one !== null);
    const type =
      plainTypeOf(schema) === 'array' ? 'list' : reference ? 'reference' : (types?.[name] ?? typeOf(name, schema));
    return {
      name,
      label: labels?.[name] ?? labelOf(name),
      type,
      required: create?.required?.includes(name) ?? false,
      writable: given !== undefined,
      nullable: isNullable(patch?.properties[name]),
      filterable: filters.includes(name),
      sortable: sorts.includes(name),
      ...(typeof schema['maxLength'] === 'number' && { max_length: lengthOf(schema) }),
      ...(choices && { choices }),
      ...(reference && { references: reference }),
      custom: false,
    };
  });
}

/** Returns a field of `custom_fields`. */
export const customField = (key: string, type: 'text' | 'number' | 'boolean'): Field => ({
  name: `custom_fields.${key}`,
  label: key,
  type,
  required: false,
  writable: true,
  nullable: true,
  filterable: true,
  sortable: true,
  custom: true,
});

/** The JSON type, without null. */
const plainTypeOf = (schema: TSchema): string => [schema['type']].flat().find((type) => type !== 'null') as string;

const isNullable = (schema: TSchema | undefined): boolean => [schema?.['type']].flat().includes('null');

const formats: Record<string, FieldType> = {
  email: 'email',
  'idn-email': 'email',
  'date-time': 'datetime',
  country: 'country',
  currency: 'currency',
};

function typeOf(name: string, schema: TSchema): FieldType {
  const type = plainTypeOf(schema);
  if (type !== 'string') return type as 'integer' | 'number' | 'boolean';
  if (schema['enum']) return 'choice';
  if (name.endsWith('_url')) return 'url';
  return formats[schema['format'] as string] ?? ((schema['maxLength'] ?? 0) > 1_024 ? 'long_text' : 'text');
}

/** A name may have white space around it, which does not count. */
const lengthOf = (schema: TSchema): number => (schema['format'] === 'name' ? 255 : (schema['maxLength'] as number));

const labelOf = (name: string): string =>
  `${name[0]!.toUpperCase()}${name.slice(1)}`
    .replace(/_/g, ' ')
    .trim()
    .replace(/^./, (first) => first.toUpperCase());
