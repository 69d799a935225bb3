import { Type, type TUnsafe } from '@sinclair/typebox';
import { lengthOf } from '../text/code-points.ts';

/**
 * Determines operators and values of a condition. `exact`: compared with case, accents and white space. `custom`: any
 * string, number or boolean. `search`: can only be searched for words.
 */
export type FieldType = 'text' | 'exact' | 'integer' | 'instant' | 'uuid' | 'custom' | 'search';

export interface FilterFields {
  /** As in the URL path. Part of each cursor. */
  readonly noun: string;
  readonly types: Readonly<Record<string, FieldType>>;
  readonly unordered: readonly string[];
  /** Filters can use `custom_fields.<key>`. */
  readonly customFields: boolean;
}

const equality = ['eq', 'ne', 'in', 'not_in', 'is_null'] as const;
const comparison = ['gt', 'gte', 'lt', 'lte', 'between'] as const;
const matching = ['contains', 'not_contains', 'starts_with', 'ends_with'] as const;

export type Operator = (typeof equality | typeof comparison | typeof matching)[number];

export const operatorsOf: Readonly<Record<FieldType, readonly Operator[]>> = {
  text: [...equality, ...matching, ...comparison],
  exact: [...equality, ...matching, ...comparison],
  custom: [...equality, ...matching, ...comparison],
  integer: [...equality, ...comparison],
  instant: [...equality, ...comparison],
  uuid: equality,
  search: [],
};

/** Of one request. `values` is per condition, `characters` per value. */
export const filterLimits = { conditions: 25, values: 100, characters: 256, customKey: 64, orderKeys: 3 } as const;

export const contactFilterFields: FilterFields = {
  noun: 'contacts',
  types: {
    id: 'uuid',
    external_id: 'exact',
    first_name: 'text',
    middle_name: 'text',
    last_name: 'text',
    gender: 'text',
    birth_year: 'integer',
    profnet_url: 'text',
    social1_url: 'text',
    social2_url: 'text',
    work_email: 'text',
    personal_email: 'text',
    industry: 'text',
    job_title: 'text',
    location_locality: 'text',
    location_country: 'text',
    location_region: 'text',
    location_postal_code: 'text',
    mobile_phone: 'text',
    score: 'integer',
    verification_status: 'text',
    last_verified: 'instant',
    crm_synced_at: 'instant',
    removal_requested_at: 'instant',
    created_at: 'instant',
    updated_at: 'instant',
    assigned_to: 'uuid',
    company_id: 'uuid',
    'company.company_name': 'text',
    'company.industry': 'text',
    list_id: 'uuid',
    search: 'search',
  },
  unordered: ['list_id', 'search'],
  customFields: true,
};

export const companyFilterFields: FilterFields = {
  noun: 'company',
  types: {
    id: 'uuid',
    external_id: 'exact',
    type: 'text',
    company_name: 'text',
    size: 'text',
    industry: 'text',
    profnet_url: 'text',
    social1_url: 'text',
    social2_url: 'text',
    location_locality: 'text',
    location_metro: 'text',
    location_region: 'text',
    location_street_address: 'text',
    location_address_line_2: 'text',
    location_postal_code: 'text',
    location_country: 'text',
    verification_status: 'text',
    last_verified: 'instant',
    score: 'integer',
    created_at: 'instant',
    updated_at: 'instant',
    search: 'search',
  },
  unordered: ['search'],
  customFields: true,
};

export function fieldType(fields: FilterFields, name: string): FieldType | undefined {
  if (Object.hasOwn(fields.types, name)) return fields.types[name];
  return fields.customFields && customKey(name) !== undefined ? 'custom' : undefined;
}

const customPrefix = 'custom_fields.';

/** Returns the key in `custom_fields.<key>`. Undefined for any other name, or if the key is too long. */
export function customKey(name: string): string | undefined {
  const length = lengthOf(name) - customPrefix.length;
  const fits = name.startsWith(customPrefix) && length >= 1 && length <= filterLimits.customKey;
  return fits ? name.slice(customPrefix.length) : undefined;
}

export const orderable = (fields: FilterFields): string[] =>
  Object.keys(fields.types).filter((name) => !fields.unordered.includes(name));

export type GivenFilters = Record<string, unknown>;

export type GivenOrder = Record<string, string> | { field: string; direction: string }[];

const filtersText = [
  'Conditions by field name, joined by AND. A value is a scalar (equals), an array (any of; `[]` matches nothing), `null`',
  '(null, absent or `""`) or an object of operators. `_or: [{…}, {…}]` is one more condition; it cannot be nested.',
  `At most ${filterLimits.conditions} conditions, ${filterLimits.values} values, ${filterLimits.characters} characters each.`,
  'Text is compared without regard to case, accents and surrounding white space. `ne`, `not_in` and `not_contains` match missing values too.',
  "`search` is a string. It matches if each of its words occurs in the names, the e-mail addresses or the company's name.",
  '`ae`, `oe` and `ue` also find `ä`, `ö` and `ü`. Without any letter or digit it matches nothing.',
].join('\n');

const Filters = (fields: FilterFields): TUnsafe<GivenFilters> =>
  Type.Unsafe<GivenFilters>({
    type: 'object',
    additionalProperties: true, // without effect on validation; tells generated clients that every key is allowed
    'x-filters': fields.noun,
    description: filtersText,
    examples: [
      { score: { gte: 50 }, _or: [{ location_country: ['DE', 'AT'] }, { industry: { contains: 'software' } }] },
    ],
  });

export const OrderBy = (fields: FilterFields): TUnsafe<GivenOrder> =>
  Type.Unsafe<GivenOrder>({
    type: ['object', 'array'],
    additionalProperties: true,
    'x-order-by': fields.noun,
    description:
      `\`{field: "ASC"|"DESC"}\` or \`[{field, direction}]\`, 1–${filterLimits.orderKeys} keys, most significant first; newest first by default. ` +
      `Nulls come last. Text is sorted without regard to case and accents. The id breaks ties.`,
    examples: [
      { score: 'DESC' },
      [
        { field: 'industry', direction: 'ASC' },
        { field: 'score', direction: 'DESC' },
      ],
    ],
  });

export const ContactFilters = Filters(contactFilterFields);
export const ContactOrder = OrderBy(contactFilterFields);
export const CompanyFilters = Filters(companyFilterFields);
export const CompanyOrder = OrderBy(companyFilterFields);
