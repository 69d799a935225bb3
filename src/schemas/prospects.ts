import { Type, type Static } from '@sinclair/typebox';
import { OrderBy, type FilterFields, type GivenOrder } from './filters.ts';
import { verificationStatuses } from './verification.ts';
import { defaultLimit, Enum, Instant, Metadata, Nullable, Strict, Text, Url, Uuid } from './wire.ts';

/** Filter fields of prospects that must equal the filter's value as a whole. Case and accents are ignored. */
export const exactFields = [
  'first_name',
  'last_name',
  'location_locality',
  'location_region',
  'location_country',
  'location_postal_code',
] as const;

/** Filter fields of prospects that are compared word by word. */
export const wordFields = ['job_title', 'job_company_name', 'job_company_industry'] as const;

/**
 * Text fields of prospects that can be filtered and for which values can be suggested, in the order of the API
 * contract.
 */
export const textFields = [
  'first_name',
  'last_name',
  'job_title',
  'job_company_name',
  'job_company_industry',
  'location_locality',
  'location_region',
  'location_country',
  'location_postal_code',
] as const;

export type ExactField = (typeof exactFields)[number];
export type WordField = (typeof wordFields)[number];
export type TextField = (typeof textFields)[number];

/**
 * A prospect (a person of the catalog), as responses show it. E-mail addresses and phone number are masked until the
 * customer has unlocked the prospect.
 */
export const Prospect = Type.Object(
  {
    _id: Uuid(),
    first_name: Type.String(),
    last_name: Type.String(),
    job_title: Type.String(),
    job_company_name: Type.String(),
    job_company_industry: Type.String(),
    work_email: Type.String({ examples: ['a•••@example.com'] }),
    emails: Type.Array(Type.String()),
    mobile_phone: Nullable(Type.String({ examples: ['•••••••••••00'] })),
    location_locality: Type.String(),
    location_region: Type.String(),
    location_country: Type.String(),
    location_postal_code: Nullable(Type.String()),
    social1_url: Nullable(Url()),
    profnet_url: Nullable(Url()),
    social2_url: Nullable(Url()),
    verification_status: Enum(verificationStatuses),
    score: Type.Integer({ minimum: 0, maximum: 100 }),
    date_verified: Instant(),
  },
  { title: 'ProspectContact' },
);
export type Prospect = Static<typeof Prospect>;

/** Fields by which prospects can be sorted. `has_email` and `has_phone` sort as 1 (true) and 0 (false). */
export const prospectOrderFields = {
  noun: 'prospect',
  types: {
    first_name: 'text',
    last_name: 'text',
    job_title: 'text',
    job_company_name: 'text',
    job_company_industry: 'text',
    location_locality: 'text',
    location_region: 'text',
    location_country: 'text',
    location_postal_code: 'text',
    verification_status: 'text',
    score: 'integer',
    date_verified: 'instant',
    has_email: 'integer',
    has_phone: 'integer',
  },
  unordered: [],
  customFields: false,
} as const satisfies FilterFields;

const Values = () =>
  Type.Array(Text(256), { maxItems: 100, description: 'matches any of these values; [] is ignored' });

const described = {
  first_name: Values(),
  last_name: Values(),
  job_title: Values(),
  job_company_name: Values(),
  job_company_industry: Values(),
  location_locality: Values(),
  location_region: Values(),
  location_country: Values(),
  location_postal_code: Values(),
  date_verified: Strict({ gte: Type.Optional(Nullable(Instant())), lte: Type.Optional(Nullable(Instant())) }),
};

const Percentage = () => Type.Integer({ minimum: 0, maximum: 100 });

const additive = {
  verification_status: Type.Array(Enum(verificationStatuses), { maxItems: 100 }),
  score: Strict({ gte: Type.Optional(Nullable(Percentage())), lte: Type.Optional(Nullable(Percentage())) }),
  has_email: Type.Boolean(),
  has_phone: Type.Boolean(),
};

/**
 * Filters on prospects, by field. A prospect must match all fields, each with at least one of the values given for it.
 */
export const ProspectFilters = Type.Partial(Type.Object({ ...described, ...additive }), {
  additionalProperties: false,
  title: 'ProspectFilters',
});
export type ProspectFilters = Static<typeof ProspectFilters>;

/**
 * The prospect filters as the server understood them, for the response. Filters of the original API contract are always
 * shown, others only if the request has them.
 */
export const FiltersApplied = Type.Composite(
  [
    Type.Object({ ...described, date_verified: Type.Object({ gte: Nullable(Instant()), lte: Nullable(Instant()) }) }),
    Type.Partial(Type.Object(additive)),
  ],
  { title: 'FiltersApplied' },
);
export type FiltersApplied = Static<typeof FiltersApplied>;

// The contract allows only these four values, unlike all other endpoints.
const Limit = Type.Unsafe<10 | 25 | 50 | 100>({ type: 'integer', enum: [10, 25, 50, 100], default: defaultLimit });
const Page = Type.Integer({ minimum: 1, maximum: 2_147_483_647, default: 1 });

const PageByNumber = Strict({ page: Type.Optional(Page), limit: Type.Optional(Limit) });
const PageOrCursor = Strict({
  page: Type.Optional(Page),
  limit: Type.Optional(Limit),
  cursor: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 4096,
      description: 'the header `x-next-cursor` of the page before, instead of `page`',
    }),
  ),
});

const what = {
  filters: Type.Optional(ProspectFilters),
  all_contacts: Type.Optional(
    Type.Boolean({
      default: false,
      description: 'true: the whole catalog; false: without the prospects that the customer has unlocked',
    }),
  ),
  order_by: Type.Optional(
    Type.Unsafe<GivenOrder>({
      ...OrderBy(prospectOrderFields),
      description:
        '`{field: "ASC"|"DESC"}` or `[{field, direction}]`, 1–3 keys, most significant first; highest score first by default. ' +
        'Nulls come last. Text is sorted without regard to case and accents. The id (ascending) breaks ties.',
      examples: [{ score: 'DESC' }],
    }),
  ),
};

/** Request body of the prospect list: filters, order and page. */
export const ProspectQuery = Strict(
  { ...what, paginate: Type.Optional(PageOrCursor) },
  {
    title: 'ProspectQuery',
    examples: [
      { filters: { job_title: ['sales manager'], location_country: ['Germany'] }, paginate: { page: 1, limit: 25 } },
    ],
  },
);
export type ProspectQuery = Static<typeof ProspectQuery>;

/** Request body of the prospect count: filters and page. */
export const ProspectCount = Strict(
  { ...what, paginate: Type.Optional(PageByNumber) },
  { title: 'ProspectCount', examples: [{ filters: { job_company_industry: ['retail'] }, all_contacts: true }] },
);
export type ProspectCount = Static<typeof ProspectCount>;

/** Response of the prospect count: the number of matching prospects, and the filters as the server understood them. */
export const ProspectMetadata = Type.Composite([Metadata, Type.Object({ filters_applied: FiltersApplied })], {
  title: 'ProspectMetadata',
});
export type ProspectMetadata = Static<typeof ProspectMetadata>;

/** Request body for suggesting filter values: the field, and the beginning of a word in its values. */
export const SuggestionQuery = Strict(
  {
    source: Enum([...textFields, 'all'] as const),
    search: Type.Optional(
      Text(100, {
        default: '',
        description: 'beginning of a word of the value; if empty, the most frequent values are returned',
      }),
    ),
  },
  { title: 'ProspectSuggestionQuery', examples: [{ source: 'job_title', search: 'eng' }] },
);
export type SuggestionQuery = Static<typeof SuggestionQuery>;

/** A filter value that the server suggests. Prospects with this value exist; the spelling is the most frequent one. */
export const Suggestion = Type.Object(
  { type: Enum(textFields), value: Type.String() },
  { title: 'ProspectSuggestion' },
);
export type Suggestion = Static<typeof Suggestion>;
