import { Type, type TUnsafe } from '@sinclair/typebox';
import { lengthOf } from '../code-points.ts';
import { defaultLimit, Strict } from './wire.ts';

/**
 * What a field holds, and so which operators and values a condition on it takes. `custom` is any of string, number and
 * boolean, as the customer stored it; `search` is a field only to be searched in.
 */
export type FieldType = 'text' | 'integer' | 'instant' | 'uuid' | 'custom' | 'search';

/** The fields that may be filtered by, of one kind of record. */
export interface FilterFields {
  /** As the path calls the records; part of what a cursor is bound to. */
  readonly noun: string;
  readonly types: Readonly<Record<string, FieldType>>;
  /** Fields that the records cannot be ordered by. */
  readonly unordered: readonly string[];
  /** Whether `custom_fields.<key>` are fields too. */
  readonly customFields: boolean;
}

const equality = ['eq', 'ne', 'in', 'not_in', 'is_null'] as const;
const comparison = ['gt', 'gte', 'lt', 'lte', 'between'] as const;
const matching = ['contains', 'not_contains', 'starts_with', 'ends_with'] as const;

export type Operator = (typeof equality | typeof comparison | typeof matching)[number];

/** The operators that fit a type of field. */
export const operatorsOf: Readonly<Record<FieldType, readonly Operator[]>> = {
  text: [...equality, ...matching, ...comparison],
  custom: [...equality, ...matching, ...comparison],
  integer: [...equality, ...comparison],
  instant: [...equality, ...comparison],
  uuid: equality,
  search: [],
};

/** How much a request may ask at once. */
export const filterLimits = { conditions: 25, values: 100, characters: 256, customKey: 64, orderKeys: 3 } as const;

export const contactFilterFields: FilterFields = {
  noun: 'contacts',
  types: {
    id: 'uuid',
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

/** The type of a field by the name it has in a request; undefined when there is no such field. */
export function fieldType(fields: FilterFields, name: string): FieldType | undefined {
  if (Object.hasOwn(fields.types, name)) return fields.types[name];
  return fields.customFields && customKey(name) !== undefined ? 'custom' : undefined;
}

const customPrefix = 'custom_fields.';

/** The key of a custom field in `custom_fields.<key>`; undefined for any other name. */
export function customKey(name: string): string | undefined {
  const length = lengthOf(name) - customPrefix.length;
  const fits = name.startsWith(customPrefix) && length >= 1 && length <= filterLimits.customKey;
  return fits ? name.slice(customPrefix.length) : undefined;
}

/** The fields that records can be ordered by. */
export const orderable = (fields: FilterFields): string[] =>
  Object.keys(fields.types).filter((name) => !fields.unordered.includes(name));

/** `filters` as a request gives them: read by `src/filters/parse.ts`. */
export type GivenFilters = Record<string, unknown>;

/** `order_by` as a request gives it: read by `src/filters/order.ts`. */
export type GivenOrder = Record<string, string> | { field: string; direction: string }[];

/**
 * The member `filters`. JSON Schema could say which key takes which value, but its messages could not, so the keyword
 * `x-filters` (src/filters/keywords.ts) has the say.
 */
const Filters = (fields: FilterFields): TUnsafe<GivenFilters> =>
  Type.Unsafe<GivenFilters>({
    type: 'object',
    additionalProperties: true, // says nothing to the validator, and to a generated client that any key may come
    'x-filters': fields.noun,
    description: describeFilters(fields),
    examples: [
      { score: { gte: 50 }, _or: [{ location_country: ['DE', 'AT'] }, { industry: { contains: 'software' } }] },
    ],
  });

/** The member `order_by`; the keyword `x-order-by` has the say. */
export const OrderBy = (fields: FilterFields): TUnsafe<GivenOrder> =>
  Type.Unsafe<GivenOrder>({
    type: ['object', 'array'],
    additionalProperties: true,
    'x-order-by': fields.noun,
    description:
      `\`{field: "ASC"|"DESC"}\` or \`[{field, direction}]\`, 1–${filterLimits.orderKeys} keys, most significant first; newest first when left out. ` +
      `Nulls come last, text sorts without regard to case and accents, the id decides in the end. Fields: ${orderable(fields).join(', ')}.`,
    examples: [
      { score: 'DESC' },
      [
        { field: 'last_name', direction: 'ASC' },
        { field: 'score', direction: 'DESC' },
      ],
    ],
  });

export const ContactFilters = Filters(contactFilterFields);
export const ContactOrder = OrderBy(contactFilterFields);
export const CompanyFilters = Filters(companyFilterFields);
export const CompanyOrder = OrderBy(companyFilterFields);

/** Which page: by number like `Paginate`, or by the cursor of the page before. No defaults here: both together are a fault. */
export const PaginateOrContinue = Strict({
  page: Type.Optional(
    Type.Integer({ minimum: 1, maximum: 2_147_483_647, description: 'from 1, which is also the default' }),
  ),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 100, default: defaultLimit })),
  cursor: Type.Optional(
    Type.String({
      maxLength: 4096,
      description:
        'the header `x-next-cursor` of the page before, instead of `page`, with the same `filters` and `order_by`',
    }),
  ),
});

function describeFilters(fields: FilterFields): string {
  const names = (type: FieldType): string =>
    Object.keys(fields.types)
      .filter((name) => fields.types[name] === type)
      .join(', ');
  const row = (title: string, type: FieldType, which = names(type)): string =>
    `| ${title} | ${which} | ${operatorsOf[type].join(', ')} |`;
  return [
    'Conditions by field name, joined by AND. A value is a scalar (equals), an array (any of; `[]` matches nothing), `null`',
    '(null, absent or `""`) or an object of operators. `_or: [{…}, {…}]`, one level deep, stands beside them with AND.',
    `At most ${filterLimits.conditions} conditions, ${filterLimits.values} values, ${filterLimits.characters} characters each.`,
    'Text is compared without regard to case, accents and white space around it; `ne`, `not_in` and `not_contains` match missing values too.',
    "`search` is a string: each of its words occurs in the names, e-mail addresses or the company's name.",
    '',
    '| type | fields | operators |',
    '|---|---|---|',
    row('string', 'text'),
    row('integer', 'integer'),
    row('date-time', 'instant'),
    row('uuid', 'uuid'),
    row('string, number or boolean', 'custom', 'custom_fields.<key>'),
  ].join('\n');
}
