import { Type, type Static, type TObject, type TSchema } from '@sinclair/typebox';
import { referenced, DoneWith, Enum, Named } from './wire.ts';
import type { DeclaredField, DeclaredObject, FieldEntry, FieldTable } from './wire.ts';
import type { Scope } from './scopes.ts';
import { Company } from './companies.ts';
import { ContactDetail } from './contacts.ts';
import { activityFileFields, companyFileFields, contactFileFields } from './files.ts';
import { opportunityFileFields, productFileFields } from './files.ts';
import { Opportunity } from './opportunities.ts';
import { maxDomainLength } from '../text/domains.ts';
import { Prospect, ProspectFilters, prospectTable } from './prospects.ts';

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

export const Field = Named('Field', {
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
});
export type Field = Static<typeof Field>;

interface Definition {
  scope: Scope;
  shown: TObject;
  create?: TObject;
  patch?: TObject;
  table?: FieldTable;
  filters?: object;
}

export const objects = {
  contacts: { ...contactFileFields, scope: 'contacts:read', shown: ContactDetail },
  company: { ...companyFileFields, scope: 'companies:read', shown: Company },
  products: { ...productFileFields, scope: 'products:read' },
  opportunities: { ...opportunityFileFields, scope: 'opportunities:read', shown: Opportunity },
  activities: { ...activityFileFields, scope: 'activities:read' },
  prospect: { scope: 'prospect:read', shown: Prospect, table: prospectTable, filters: ProspectFilters.properties },
} as const satisfies Record<string, Definition>;
export type ObjectName = keyof typeof objects;

const objectFields: ReadonlySet<string> = new Set(['custom_fields', 'created_by']);

export function builtInFields(object: ObjectName): Field[] {
  const { shown, create, patch, table, filters }: Definition = objects[object];
  const names = Object.keys(shown.properties).filter((name) => !objectFields.has(name));
  return names.map((name) => {
    const given = patch?.properties[name] ?? create?.properties[name];
    const schema = given ?? shown.properties[name]!;
    const {
      label = labelOf(name),
      filter,
      isUnsorted,
      references,
      type: known,
    }: Partial<FieldEntry> = table?.[name] ?? {};
    const choices = (schema['enum'] as (string | null)[] | undefined)?.filter((one) => one !== null);
    const type = plainTypeOf(schema) === 'array' ? 'list' : references ? 'reference' : (known ?? typeOf(name, schema));
    return {
      name,
      label,
      type,
      required: create?.required?.includes(name) ?? false,
      writable: given !== undefined,
      nullable: isNullable(patch?.properties[name]),
      filterable: filters ? name in filters : filter !== undefined,
      sortable: filter !== undefined && !isUnsorted,
      ...(typeof schema['maxLength'] === 'number' && { max_length: lengthOf(schema) }),
      ...(choices && { choices }),
      ...(references && { references }),
      custom: false,
    };
  });
}

export const declarable = { contacts: 'contacts', company: 'companies' } as const satisfies Partial<
  Record<ObjectName, DeclaredObject>
>;

export const FieldDone = DoneWith('FieldDone', Field.properties, 'The field.');

export const customField = ({ key, label = key, type, choices = [] }: DeclaredOrFound): Field => ({
  name: `custom_fields.${key}`,
  label,
  type,
  required: false,
  writable: true,
  nullable: true,
  filterable: true,
  sortable: true,
  ...(choices.length > 0 && { choices }),
  custom: true,
});

type DeclaredOrFound = Pick<DeclaredField, 'key' | 'type'> & Partial<DeclaredField>;

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

/**
 * Maximum length of names and domains, by format of the schema. White space around a name does not count. Of a web
 * address, only the domain counts.
 */
const lengths: Record<string, number> = { name: 255, domain: maxDomainLength };

const lengthOf = (schema: TSchema): number => lengths[schema['format'] as string] ?? (schema['maxLength'] as number);

const labelOf = (name: string): string =>
  `${name[0]!.toUpperCase()}${name.slice(1)}`
    .replace(/_/g, ' ')
    .trim()
    .replace(/^./, (first) => first.toUpperCase());
