import { Type, type Static } from '@sinclair/typebox';
import * as wire from './wire.ts';
import { filterFieldsOf, OrderBy, type GivenOrder } from './filters.ts';
import { verificationStatuses, VerificationStatus } from './verification.ts';

const names = ['first_name', 'last_name'] as const;
const places = ['location_locality', 'location_region', 'location_country', 'location_postal_code'] as const;

/** Fields of prospects that filters compare as a whole, without regard to case and accents. */
export const exactFields = [...names, ...places] as const;

export const wordFields = ['job_title', 'job_company_name', 'job_company_industry'] as const;

export const textFields = [...names, ...wordFields, ...places] as const;

export type ExactField = (typeof exactFields)[number];
export type WordField = (typeof wordFields)[number];
export type TextField = (typeof textFields)[number];

export const Prospect = wire.Named('ProspectContact', {
  _id: wire.Uuid('Id of the prospect, to unlock it.'),
  first_name: Type.String({ description: 'First name.', examples: ['Ada'] }),
  last_name: Type.String({ description: 'Last name.', examples: ['Lovelace'] }),
  job_title: Type.String({ description: 'Job title.', examples: ['Sales Manager'] }),
  job_company_name: Type.String({ description: 'Name of the company that the person works for.' }),
  job_company_industry: Type.String({ description: 'Industry of that company.' }),
  work_email: Type.String({
    description: 'E-mail address at work. Masked until the prospect is unlocked. `""`: none.',
    examples: ['a•••@example.com'],
  }),
  emails: Type.Array(Type.String(), { description: 'All e-mail addresses. Masked until the prospect is unlocked.' }),
  mobile_phone: wire.Nullable(
    Type.String({
      description: 'Mobile phone number. Masked, except for the last two digits, until the prospect is unlocked.',
      examples: ['•••••••••••00'],
    }),
  ),
  location_locality: Type.String({ description: 'Town or city.' }),
  location_region: Type.String({ description: 'State, county or province.' }),
  location_country: Type.String({ description: 'Name of the country, not its code.', examples: ['Germany'] }),
  location_postal_code: wire.Nullable(Type.String({ description: 'Postal code.' })),
  social1_url: wire.Nullable(wire.Url('Profile in a social network.')),
  profnet_url: wire.Nullable(wire.Url('Profile in the professional network.')),
  social2_url: wire.Nullable(wire.Url('Profile in another social network.')),
  verification_status: VerificationStatus(),
  score: wire.Score(),
  date_verified: wire.Instant('When the data was last verified.'),
  source: Type.Optional(
    Type.String({
      description: 'Where the data comes from. Only of an unlocked prospect, if it is known.',
      examples: ['Chamber of commerce'],
    }),
  ),
  collected_at: Type.Optional(
    wire.Instant('When the data was collected there. Only of an unlocked prospect, if it is known.'),
  ),
});
export type Prospect = Static<typeof Prospect>;

export const maxSourceLength = 120;

/** Fields of prospects. In orders, `has_email` and `has_phone` sort as 1 (true) or 0 (false). */
export const prospectTable = {
  _id: { label: 'Id' },
  first_name: { label: 'First name', filter: 'text' },
  last_name: { label: 'Last name', filter: 'text' },
  job_title: { label: 'Job title', filter: 'text' },
  job_company_name: { label: 'Company', filter: 'text' },
  job_company_industry: { label: 'Industry', filter: 'text' },
  work_email: { label: 'Work e-mail', type: 'email' },
  emails: { label: 'All e-mails' },
  mobile_phone: { label: 'Mobile phone', type: 'phone' },
  location_locality: { label: 'City', filter: 'text' },
  location_region: { label: 'Region', filter: 'text' },
  location_country: { label: 'Country', filter: 'text' },
  location_postal_code: { label: 'Postal code', filter: 'text' },
  profnet_url: { label: 'Profile' },
  social1_url: { label: 'Social profile' },
  social2_url: { label: 'Second social profile' },
  verification_status: { label: 'E-mail status', filter: 'text' },
  score: { label: 'Score', filter: 'integer' },
  date_verified: { label: 'Last verified', filter: 'instant' },
  has_email: { label: 'Has an e-mail', filter: 'integer' },
  has_phone: { label: 'Has a phone', filter: 'integer' },
  source: { label: 'Source of the data' },
  collected_at: { label: 'Data collected' },
} as const satisfies wire.FieldTable<keyof Prospect>;

export const prospectOrderFields = filterFieldsOf('prospect', 'Prospect', prospectTable, false);

const Values = (match: string) =>
  Type.Array(wire.Text(256), {
    maxItems: 100,
    description: `Matches any of these values. ${match} \`[]\` is ignored.`,
  });
const Exact = () => Values('Compared as a whole, without regard to case and accents.');
const Words = () =>
  Values(
    'Each of its words must occur, in any order, without regard to case and accents. A value without letters and digits matches nobody.',
  );

const described = {
  first_name: Exact(),
  last_name: Exact(),
  job_title: Words(),
  job_company_name: Words(),
  job_company_industry: Words(),
  location_locality: Exact(),
  location_region: Exact(),
  location_country: Exact(),
  location_postal_code: Exact(),
  date_verified: wire.Strict(
    {
      gte: Type.Optional(wire.Nullable(wire.Instant('Not before. Null: no bound.'))),
      lte: Type.Optional(wire.Nullable(wire.Instant('Not after. Null: no bound.'))),
    },
    { description: 'When the data was last verified.' },
  ),
};

const Percentage = (description: string) => Type.Integer({ minimum: 0, maximum: 100, description });

const additive = {
  verification_status: Type.Array(wire.Enum(verificationStatuses), {
    maxItems: 100,
    description: 'Matches any of these statuses. `[]` is ignored.',
  }),
  score: wire.Strict(
    {
      gte: Type.Optional(wire.Nullable(Percentage('At least. Null: no bound.'))),
      lte: Type.Optional(wire.Nullable(Percentage('At most. Null: no bound.'))),
    },
    { description: 'The score, from 0 to 100.' },
  ),
  has_email: Type.Boolean({
    description: 'true: only prospects with an e-mail address, valid or not; false: only those without.',
  }),
  has_phone: Type.Boolean({
    description: 'true: only prospects with a mobile phone number; false: only those without.',
  }),
};

export const ProspectFilters = Type.Partial(Type.Object({ ...described, ...additive }), {
  additionalProperties: false,
  title: 'ProspectFilters',
  description:
    'Which prospects: those that match every field that is given. Job titles, companies and industries have at most 800 words in total.',
});
export type ProspectFilters = Static<typeof ProspectFilters>;

/**
 * Filters that a response repeats. The contract's filters are always present, additional filters only if the request
 * contains them.
 */
export const FiltersApplied = Type.Composite(
  [
    Type.Object({
      ...described,
      date_verified: wire.Described('When the data was last verified.', {
        gte: wire.Nullable(wire.Instant('Not before. Null: no bound.')),
        lte: wire.Nullable(wire.Instant('Not after. Null: no bound.')),
      }),
    }),
    Type.Partial(Type.Object(additive)),
  ],
  {
    title: 'FiltersApplied',
    description: 'The filters as the service understood them. They can be sent back as `filters`.',
  },
);
export type FiltersApplied = Static<typeof FiltersApplied>;

// The contract allows only these four values, unlike all other endpoints.
const Limit = Type.Unsafe<10 | 25 | 50 | 100>({
  type: 'integer',
  enum: [10, 25, 50, 100],
  default: wire.defaultLimit,
  description: 'Number of prospects on a page: 10, 25, 50 or 100.',
});
const Page = wire.PageNumber(
  'Number of the page; the first is 1. page × limit must not exceed 10,000: use the cursor to go deeper.',
);

const page = { page: Type.Optional(Page), limit: Type.Optional(Limit) };
const paging = { description: 'Which page of the result, and how long it is.' };
const PageByNumber = wire.Strict(page, paging);
const PageOrCursor = wire.Strict(
  { ...page, cursor: Type.Optional(wire.Cursor({ minLength: 1, maxLength: 4096 })) },
  paging,
);

const what = {
  filters: Type.Optional(ProspectFilters),
  all_contacts: wire.Flag('true: the whole catalog; false: without the prospects that you have unlocked.'),
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

export const ProspectQuery = wire.Body(
  'ProspectQuery',
  [{ filters: { job_title: ['sales manager'], location_country: ['Germany'] }, paginate: { page: 1, limit: 25 } }],
  { ...what, paginate: Type.Optional(PageOrCursor) },
);
export type ProspectQuery = Static<typeof ProspectQuery>;

export const ProspectCount = wire.Body(
  'ProspectCount',
  [{ filters: { job_company_industry: ['retail'] }, all_contacts: true }],
  { ...what, paginate: Type.Optional(PageByNumber) },
);
export type ProspectCount = Static<typeof ProspectCount>;

export const ProspectMetadata = Type.Composite([wire.Metadata, Type.Object({ filters_applied: FiltersApplied })], {
  title: 'ProspectMetadata',
});
export type ProspectMetadata = Static<typeof ProspectMetadata>;

export const SuggestionQuery = wire.Body('ProspectSuggestionQuery', [{ source: 'job_title', search: 'eng' }], {
  source: wire.Enum([...textFields, 'all'] as const, {
    description: 'The field whose values are suggested; `all`: any of them.',
  }),
  search: Type.Optional(
    wire.Text(100, {
      default: '',
      description: 'Beginning of a word of the value. If it is empty, the most frequent values are returned.',
    }),
  ),
});
export type SuggestionQuery = Static<typeof SuggestionQuery>;

export const Suggestion = wire.Named('ProspectSuggestion', {
  type: wire.Enum(textFields, 'The field that has the value.'),
  value: Type.String({ description: 'The value, in its most frequent spelling.', examples: ['Sales Manager'] }),
});
export type Suggestion = Static<typeof Suggestion>;

export const RemovalQuery = wire.Body(
  'ProspectRemovalQuery',
  [{ since: '2026-03-14T00:00:00Z', paginate: { limit: 100 } }],
  {
    since: Type.Optional(
      wire.Instant(
        'Only people who were removed at this time or later. Give the `removed_at` of the latest that you know, not the ' +
          'time of your last call: then you miss nobody.',
      ),
    ),
    paginate: Type.Optional(wire.PaginateOrContinue),
  },
);
export type RemovalQuery = Static<typeof RemovalQuery>;

export const Removal = wire.Named('ProspectRemoval', {
  id: wire.Uuid('Id of the prospect.'),
  removed_at: wire.Instant('When the person was removed from the catalog.'),
});
export type Removal = Static<typeof Removal>;
