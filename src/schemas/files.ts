import { Type, type TObject, type TSchema, type TUnsafe } from '@sinclair/typebox';
import {
  Activity,
  ActivityCreate,
  activityFilterFields,
  ActivityFilters,
  ActivityPatch,
  activityTable,
} from './activities.ts';
import type { Scope } from './scopes.ts';
import { namesWhere, type FieldTable, Enum, Body } from './wire.ts';
import {
  Company,
  CompanyCreate,
  companyFilterFields,
  CompanyFilters,
  CompanyPatch,
  companyTable,
} from './companies.ts';
import { Contact, ContactCreate, contactFilterFields, ContactFilters, ContactPatch, contactTable } from './contacts.ts';
import {
  Opportunity,
  OpportunityCreate,
  opportunityFilterFields,
  OpportunityFilters,
  OpportunityPatch,
  opportunityTable,
} from './opportunities.ts';
import { Product, ProductCreate, productFilterFields, ProductFilters, ProductPatch, productTable } from './products.ts';
import { customKey, indexed, nameOf, orderOf, type FilterFields, type GivenOrder } from './filters.ts';

export const fileFormats = ['csv', 'ndjson'] as const;
export type FileFormat = (typeof fileFormats)[number];

export const exportFormats = ['csv', 'ndjson', 'xlsx'] as const;
export type ExportFormat = (typeof exportFormats)[number];

export const maxXlsxRecords = 200_000;

export interface FileFields {
  readonly noun: 'contacts' | 'company' | 'products' | 'opportunities' | 'activities';
  readonly shown: TObject;
  readonly create: TObject;
  readonly patch: TObject;
  readonly table: FieldTable;
  /** Columns that only imports have. They refer to other records by values such as a name, not by id. */
  readonly references?: Readonly<Record<string, ReferenceColumn>>;
}

interface ReferenceColumn {
  type: 'text' | 'exact' | 'own ids';
  item: readonly [field: string, part?: string];
}

export const contactFileFields: FileFields = {
  noun: 'contacts',
  shown: Contact,
  create: ContactCreate,
  patch: ContactPatch,
  table: contactTable,
};

export const companyFileFields: FileFields = {
  noun: 'company',
  shown: Type.Omit(Company, ['last_activity_at']),
  create: CompanyCreate,
  patch: CompanyPatch,
  table: companyTable,
};

export const activityFileFields: FileFields = {
  noun: 'activities',
  shown: Activity,
  create: ActivityCreate,
  patch: ActivityPatch,
  table: activityTable,
};

export const productFileFields: FileFields = {
  noun: 'products',
  shown: Product,
  create: ProductCreate,
  patch: ProductPatch,
  table: productTable,
};

export const opportunityFileFields: FileFields = {
  noun: 'opportunities',
  // Files have the lines as requests do.
  shown: Type.Object({ ...Opportunity.properties, products: OpportunityCreate.properties.products }),
  create: OpportunityCreate,
  patch: OpportunityPatch,
  table: opportunityTable,
  references: {
    pipeline: { type: 'text', item: ['stage_id', 'pipeline'] },
    stage: { type: 'text', item: ['stage_id', 'stage'] },
    'user.email': { type: 'text', item: ['user_id_assigned', 'email'] },
    'company.external_id': { type: 'exact', item: ['company_id', 'external_id'] },
    'contacts.external_id': { type: 'own ids', item: ['contacts_ids'] },
  },
};

export const importedFields = {
  contacts: contactFileFields,
  companies: companyFileFields,
  products: productFileFields,
  opportunities: opportunityFileFields,
} as const satisfies Record<string, FileFields>;

/** Columns in files for the company of a contact. The values are the names of the same fields in responses. */
export const companyParts = {
  'company.id': 'id',
  'company.name': 'company_name',
  'company.industry': 'industry',
} as const;

/** Columns by which an import finds the company of a contact. Exports do not have them. */
export const companyKeys = { 'company.external_id': 'external_id', 'company.domain': 'domain' } as const;

export function namesOf({ shown }: FileFields): string[] {
  const names = Object.keys(shown.properties);
  return 'company' in shown.properties ? [...names, ...Object.keys(companyParts)] : names;
}

export const hasCustomFields = ({ shown }: FileFields): boolean => 'custom_fields' in shown.properties;

export const isFileField = (fields: FileFields, name: string): boolean =>
  namesOf(fields).includes(name) || (hasCustomFields(fields) && customKey(name) !== undefined);

export function importableNames({ create }: FileFields): string[] {
  const { external_id, company, list_ids: _, custom_fields, ...others } = create.properties;
  return [
    'id',
    ...(external_id ? ['external_id'] : []),
    ...Object.keys(others),
    ...(company ? ['company.id'] : []),
    ...(custom_fields ? ['custom_fields'] : []),
  ];
}

export const readableNames = ({ table }: FileFields): string[] => namesWhere(table, ({ isInternal }) => !isInternal);

export const fieldsForScopes = (fields: FileFields, scopes: readonly Scope[]): FileFields => ({
  ...fields,
  table: Object.fromEntries(Object.entries(fields.table).filter(([, { scope }]) => !scope || scopes.includes(scope))),
});

export const fieldSets = ['importable', 'readable', 'all'] as const;

export type GivenFields = string | string[];

export const defaultFields = (format: ExportFormat): (typeof fieldSets)[number] =>
  format === 'xlsx' ? 'readable' : 'importable';

/** Maximum number of custom fields in one file for people. The file has a column for each. */
export const maxReadableKeys = 1_000;

export const maxFileFields = 200;

const Fields = (title: string, fields: FileFields): TUnsafe<GivenFields> => {
  const names = namesOf(fields);
  const custom = hasCustomFields(fields);
  const allowed = [...names, ...(custom ? ['custom_fields.<key>'] : [])].join(', ');
  return Type.Unsafe(
    Type.Union(
      [Enum(fieldSets), Type.Array(nameOf(names, custom), { minItems: 1, maxItems: maxFileFields, uniqueItems: true })],
      {
        title: `${title}ExportFields`,
        description:
          `\`"importable"\` (default of \`csv\` and \`ndjson\`): ${importableNames(fields).join(', ')}. ` +
          `\`"readable"\` (default of \`xlsx\`; not with \`ndjson\`): ${readableNames(fields).join(', ')}` +
          (Object.values(fields.table).some(({ scope }) => scope)
            ? ' (names of other records if the key may read these)'
            : '') +
          `${custom ? ', and each key of `custom_fields` as a column' : ''}. \`"all"\`: every field of the record. ` +
          `Or an array of names: ${allowed}.`,
        examples: ['importable', ['id', names[1]]],
      },
    ),
  );
};

const IndexedOrder = (fields: FilterFields): TUnsafe<GivenOrder> =>
  orderOf(`${fields.title}ExportOrder`, indexed(fields), 1, {
    description:
      'As in the list call, but only one field, and one that has an index: ' +
      `${indexed(fields).join(', ')}. Newest first by default.`,
    examples: [{ updated_at: 'ASC' }],
  });

const Format = Enum(
  exportFormats,
  '`csv`: RFC 4180, UTF-8, with a header line. Null is an unquoted `\\N`; a text that would be read as null, or in ' +
    '`custom_fields.<key>` as a number or a boolean, is quoted. Texts are not changed for spreadsheets: a cell may begin ' +
    'with `=`. `ndjson`: one JSON object on each line. `xlsx`: for people, at most ' +
    `${maxXlsxRecords.toLocaleString('en')} records. Texts stay texts, whatever they begin with; numbers, booleans and ` +
    'times (in UTC) are such. With `fields: "readable"` the header has titles for people.',
);

const exportOf = <F extends TSchema>(fields: FileFields, filterFields: FilterFields, filters: F, example: object) =>
  Body(`${filterFields.title}Export`, [{ format: 'csv', filters: example }], {
    format: Format,
    filters: Type.Optional(filters),
    order_by: Type.Optional(IndexedOrder(filterFields)),
    fields: Type.Optional(Fields(filterFields.title, fields)),
  });

export const ContactExport = exportOf(contactFileFields, contactFilterFields, ContactFilters, {
  location_country: 'GB',
});
export const CompanyExport = exportOf(companyFileFields, companyFilterFields, CompanyFilters, {
  industry: 'Computing',
});
export const ProductExport = exportOf(productFileFields, productFilterFields, ProductFilters, { active: true });
export const OpportunityExport = exportOf(opportunityFileFields, opportunityFilterFields, OpportunityFilters, {
  price: { gte: 1000 },
});
export const ActivityExport = exportOf(activityFileFields, activityFilterFields, ActivityFilters, { type: 'call' });

export const contentTypes: Record<ExportFormat, string> = {
  csv: 'text/csv; charset=utf-8',
  ndjson: 'application/x-ndjson',
  xlsx: 'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet',
};

export const ExportedFile = {
  description: 'The file. An export that fails half-way ends with a broken connection.',
  content: {
    'text/csv': { schema: Type.String() },
    'application/x-ndjson': { schema: Type.String() },
    [contentTypes.xlsx]: { schema: Type.String({ format: 'binary' }) },
  },
};
