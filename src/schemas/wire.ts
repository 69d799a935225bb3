import { Type, type Static, type TObject, type TProperties, type TSchema, type TUnsafe } from '@sinclair/typebox';
import { maxAddressLength } from '../text/domains.ts';
import { isInstant } from './formats.ts';
import type { Scope } from './scopes.ts';

export const Strict = <P extends TProperties>(properties: P, options: object = {}): TObject<P> =>
  Type.Object(properties, { additionalProperties: false, ...options });

export const Named = <P extends TProperties>(title: string, properties: P): TObject<P> =>
  Type.Object(properties, { title });

export const Described = <P extends TProperties>(description: string, properties: P): TObject<P> =>
  Type.Object(properties, { description });

export const Body = <P extends TProperties>(title: string, examples: object[], properties: P): TObject<P> =>
  Strict(properties, { title, examples });

export const PartialBody = <P extends TProperties>(title: string, examples: object[], properties: P) =>
  Type.Partial(Type.Object(properties), { additionalProperties: false, title, examples });

/**
 * Returns a schema that also allows null, by an array of types such as `["string", "null"]`. The serialiser is much
 * slower with a union of two schemas.
 */
export const Nullable = <T extends TSchema>(schema: T): TUnsafe<Static<T> | null> =>
  Type.Unsafe({
    ...schema,
    type: [schema['type'], 'null'],
    ...(schema['enum'] ? { enum: [...schema['enum'], null] } : {}),
  });

type About = string | object;

const described = (about: About): object => (typeof about === 'string' ? { description: about } : about);

export const Enum = <T extends string>(values: readonly T[], options: About = {}): TUnsafe<T> =>
  Type.Unsafe({ type: 'string', enum: [...values], ...described(options) });

export const Flag = (description: string, value = false) =>
  Type.Optional(Type.Boolean({ default: value, description }));

/** Schema of an id. Validation converts an id in a request to lower case. */
export const Uuid = (options: About = {}) =>
  Type.String({
    format: 'uuid',
    'x-canonical-id': true,
    examples: ['0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b'],
    ...described(options),
  });

/** Schema of a time. Responses use ISO 8601 in UTC with milliseconds. Requests may use RFC 3339 with any offset. */
export const Instant = (options: About = {}) =>
  Type.String({ format: 'date-time', maxLength: 64, examples: ['2026-03-14T09:26:53.589Z'], ...described(options) });

export const Actor = () =>
  Described('Who made the change, or started the job or import. Missing in changes from before 1.1.0.', {
    type: Enum(
      ['key', 'user', 'operator', 'service'] as const,
      'An API key, a user, the command line, or the service by itself.',
    ),
    id: Type.Optional(Uuid('Id of the key or user.')),
    name: Type.Optional(Type.String({ description: "A user's e-mail address." })),
  });

export const CreatedAt = () => Instant('When the record was created.');

export const UpdatedAt = () => Instant('When the record was last changed.');

export const LastActivityAt = () =>
  Nullable(Instant('When its last activity was, without those in the future. Null: it has none.'));

export const Score = () =>
  Type.Integer({
    minimum: 0,
    maximum: 100,
    description: 'Rating of the data in the prospect catalog, from 0 to 100. 0 if there is none.',
  });

export const Name = (options: About = {}) =>
  Type.String({
    format: 'name',
    minLength: 1,
    maxLength: 1024,
    description: '1–255 characters, not counting white space around them, which is removed.',
    ...described(options),
  });

export const Text = (max = 255, options: About = {}) => Type.String({ maxLength: max, ...described(options) });

export const ExternalId = () =>
  Nullable(
    Type.String({
      minLength: 1,
      maxLength: 255,
      description:
        "The caller's own id of the record, for example from another system. Compared exactly. No other record of this " +
        'kind may have it. Null: none.',
      examples: ['crm-4711'],
    }),
  );

export const Email = (options: About = {}) =>
  Type.String({
    format: 'email',
    maxLength: 254,
    description: 'An e-mail address.',
    examples: ['ada.lovelace@example.com'],
    ...described(options),
  });

export const Domain = (description: string) =>
  Type.String({
    format: 'domain',
    'x-domain': true,
    maxLength: maxAddressLength,
    description: `${description} A host name such as \`example.com\`; of a web address only its host is taken, in lower case, without \`www.\`.`,
    examples: ['example.com'],
  });

export const Url = (options: About = {}) =>
  Type.String({ maxLength: 2048, description: 'A web address. It is stored as given.', ...described(options) });

export const Country = () =>
  Type.String({
    format: 'country',
    maxLength: 2,
    description: 'ISO 3166-1 alpha-2 country code, or `""` if unknown. Requests may use any case.',
    examples: ['GB'],
  });

export const Currency = (options: About = {}) =>
  Type.String({
    format: 'currency',
    maxLength: 3,
    description: 'ISO 4217 currency code. Requests may use any case.',
    examples: ['EUR'],
    ...described(options),
  });

/** Schema of a price. Prices have at most 4 decimals, so a JSON number holds each one exactly. */
export const Price = (options: About = {}) =>
  Type.Number({
    minimum: 0,
    maximum: 999_999_999.9999,
    'x-max-decimals': 4,
    description: 'An amount of money with at most 4 decimals.',
    examples: [1249.9],
    ...described(options),
  });

export const Ids = (options: About = {}) => Type.Array(Uuid(), { maxItems: 1000, ...described(options) });

export const CustomFields = () =>
  Type.Unsafe<Record<string, string | number | boolean>>({
    ...customFields(['string', 'number', 'boolean']),
    description: `${customFieldsText} A PATCH changes only the keys that it names.`,
  });

export const CustomFieldsPatch = () =>
  Type.Unsafe<Record<string, string | number | boolean | null>>({
    ...customFields(['string', 'number', 'boolean', 'null']),
    description: `${customFieldsText} Keys that are not sent do not change; \`null\` removes a key.`,
  });

export const customFieldsLimits = { keys: 100, bytes: 16 * 1024 };

const customFieldsText =
  'Values of your own, by name: strings, numbers and booleans. ' +
  `At most ${customFieldsLimits.keys} keys of 1–64 characters, together at most ${customFieldsLimits.bytes / 1024} KiB of JSON.`;

/**
 * Range of numbers in custom fields. JSON parsers may change a number beyond ±(2^53 − 1), so that two ids become one.
 */
const safeNumbers = { minimum: Number.MIN_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER };

const customFields = (types: string[]) => ({
  type: 'object',
  propertyNames: { type: 'string', minLength: 1, maxLength: 64 },
  additionalProperties: { type: types, ...safeNumbers },
  maxProperties: customFieldsLimits.keys,
  'x-max-json-bytes': customFieldsLimits.bytes,
  examples: [{ plan: 'gold', seats: 12, trial: false }],
});

export const IdParams = Strict({ id: Uuid('Id of the record.') });

export const PurgeQuery = Type.Object({
  purge: Type.Optional(
    Enum(['true', 'false'], {
      default: 'false',
      description:
        'With `true` the record is removed for good: nothing brings it back. It may be deleted already, as long as its ' +
        'deletion is kept in the history.',
    }),
  ),
});
export type PurgeQuery = Static<typeof PurgeQuery>;

export const defaultLimit = 25;

/**
 * Schema of a page number, without `default: 1`. Some generated clients would always send the default, which is not
 * allowed with a cursor.
 */
export const PageNumber = (options: About = {}) =>
  Type.Integer({
    minimum: 1,
    maximum: 2_147_483_647,
    description: 'Number of the page; the first, and the default, is 1. A page past the end is empty.',
    ...described(options),
  });

const PageLimit = () =>
  Type.Integer({ minimum: 1, maximum: 100, default: defaultLimit, description: 'Number of records on a page.' });

export const Cursor = (options: About = {}) =>
  Type.String({
    description:
      'Continues a list: the value of the header `x-next-cursor` of the previous page. Replaces `page`. Filters and order ' +
      'must be those of the previous page.',
    ...described(options),
  });

export const Paginate = Strict(
  { page: Type.Optional(PageNumber()), limit: Type.Optional(PageLimit()) },
  { description: 'Which page of the result, and how long it is.' },
);
export type Paginate = Static<typeof Paginate>;

export const PaginateOrContinue = Strict(
  { ...Paginate.properties, cursor: Type.Optional(Cursor({ maxLength: 4096 })) },
  { description: Paginate.description },
);

/** Body of a call that lists records without filters and order. */
export const PageQuery = (title: string, exampleLimit: number) =>
  Body(title, [{ paginate: { limit: exampleLimit } }], { paginate: Type.Optional(PaginateOrContinue) });

export const Metadata = Named('Metadata', {
  pagination: Described('How many records match, and how many pages they fill.', {
    current_page: Type.Integer({ description: 'The page number of the request.' }),
    total_records: Type.Integer({ description: 'How many records match.' }),
    total_pages: Type.Integer({ description: 'How many pages they fill. 0 if nothing matches.' }),
  }),
});

export type Metadata = Static<typeof Metadata>;

export const success = {
  success: Type.Literal(true, { description: 'Always true. Failures are error responses.' }),
  message: Type.String({ description: 'What was done, for people. Do not parse it.' }),
};

export const Done = Type.Object(success, { title: 'DefaultResponse' });

export const DoneWith = <P extends TProperties>(title: string, data: P, description: string) =>
  Type.Object({ ...success, data: Type.Object(data, { description }) }, { title });

export const DoneWithId = DoneWith(
  'DefaultResponseWithId',
  { id: Uuid('Id of the record.') },
  'The record, by its id.',
);

export const doneWith = <Data>(message: string, data: Data) => ({ success: true as const, message, data });

export const done = (message: string, id: string): Static<typeof DoneWithId> => doneWith(message, { id });

export const NoBody = Strict({});

export const Refusal = Named('Refusal', {
  statusCode: Type.Integer({ description: 'The HTTP status: 401 or 403.' }),
  message: Type.String({
    description: 'A fixed text. It is the same for every cause, so that nobody learns whether a key exists.',
  }),
});

/**
 * Schema of a list of invalid values.
 * @param whole what contains the values, such as `the request body`, for the description of `path`
 */
export const FaultList = (whole: string, options: object = {}) =>
  Type.Array(
    Type.Object({
      path: Type.String({ description: `JSON pointer (RFC 6901) to the value in ${whole}.` }),
      message: Type.String({ description: 'What is wrong with the value.' }),
    }),
    options,
  );

export const ErrorBody = Named('Error', {
  statusCode: Type.Integer({ description: 'The HTTP status.' }),
  error: Type.String({ description: 'The name of the HTTP status.' }),
  code: Type.String({ description: 'The kind of error, for programs.' }),
  message: Type.String({ description: 'What is wrong, for people. The text can change; do not parse it.' }),
  errors: Type.Optional(
    FaultList('the request body', {
      description:
        'Every invalid value of the request body, at most 100, of a batch at most 1,000. Absent if the error is about no value.',
    }),
  ),
});

export const ShortageBody = Type.Composite(
  [
    Type.Omit(ErrorBody, ['errors']),
    Type.Object({
      required: Type.Integer({ description: 'Credits that the call needs.' }),
      available: Type.Integer({ description: 'Credits that can be spent.' }),
      pool: Type.String({ description: 'The pool of credits that is too small.', examples: ['subscription'] }),
    }),
  ],
  { title: 'InsufficientCredits' },
);

/**
 * Type of a field, which determines the operators and values of its conditions.
 * - `exact`: compared with case, accents and white space.
 * - `domain`: like `exact`, after the values are reduced to domains.
 * - `custom`: any string, number or boolean.
 * - `search`: can only be searched for words.
 * - `of`: an id, or several ids of which one is enough.
 */
export type FieldType =
  'text' | 'exact' | 'domain' | 'integer' | 'number' | 'boolean' | 'instant' | 'uuid' | 'custom' | 'search' | 'of';

export const referenced = ['contacts', 'company', 'products', 'opportunities', 'users', 'lists', 'stages'] as const;

export interface FieldEntry {
  label: string;
  /** How filters compare the field. Undefined if filters cannot use it. */
  filter?: FieldType;
  /** True if `filters` can use the field but `order_by` cannot. */
  isUnsorted?: true;
  /** True if the database has an index on customer, value and id. The value is then never null. */
  isIndexed?: true;
  isSearched?: true;
  /** Whether files for people leave the field out. */
  isInternal?: true;
  isInTools?: true;
  /**
   * Scope that a key needs to see the names of other records in this field. Files for people have no such column for a
   * key without the scope.
   */
  scope?: Scope;
  type?: 'email' | 'phone';
  references?: (typeof referenced)[number];
  /** How forms show the field. If `isRare` is true, a form of all fields shows it folded. */
  form?: { group: string; control?: FormControl; hint?: string; isRare?: true };
}

export const noteEntry = { label: 'Note', isInternal: true } as const satisfies FieldEntry;

export const moreForm = { group: 'Profiles and more', isRare: true } as const;

export const profileForm = { ...moreForm, control: 'url' } as const;

type SelectControl = 'yes_no' | 'country' | 'currency' | 'user';

export type FormControl =
  SelectControl | 'text' | 'email' | 'url' | 'number' | 'amount' | 'lines' | 'phones' | 'company';

/**
 * Fields of a kind of records, in the order in which people read them. Some fields exist only in filters or only in
 * imports.
 */
export type FieldTable<Name extends string = string> = Readonly<Record<string, FieldEntry> & Record<Name, FieldEntry>>;

export const namesWhere = (table: FieldTable, holds: (entry: FieldEntry) => unknown): string[] =>
  Object.keys(table).filter((name) => holds(table[name]!));

const empty: Readonly<Record<string, unknown>> = { string: '', array: [], object: {} };

/** Returns the values that these fields have in a new record if no values are given. */
export const blankOf = <Schema extends TObject, Name extends keyof Static<Schema> & string>(
  { properties }: Schema,
  names: readonly Name[],
): Pick<Static<Schema>, Name> =>
  Object.fromEntries(
    names.map((name) => {
      const types: unknown[] = [properties[name]?.['type']].flat();
      return [name, types.includes('null') ? null : empty[types[0] as string]];
    }),
  ) as Pick<Static<Schema>, Name>;

export const declaredTypes = ['text', 'long_text', 'number', 'boolean', 'date', 'url', 'choice'] as const;
export type DeclaredType = (typeof declaredTypes)[number];

export type DeclaredObject = 'contacts' | 'companies';

export const maxDeclared = 200;

export interface DeclaredField {
  key: string;
  label: string;
  type: DeclaredType;
  choices: string[];
}

/**
 * Path parameter with the name of a custom field. PostgreSQL cannot store NUL. A record cannot have a field named
 * `__proto__`. Browsers and clients take `.` and `..` out of a path.
 */
export const KeyParams = Strict({
  key: Type.String({
    minLength: 1,
    maxLength: 64,
    pattern: String.raw`^(?!(__proto__|\.\.?)$)[^\0]+$`,
    description: 'The member of `custom_fields`.',
    examples: ['plan'],
  }),
});

export const choicePattern = String.raw`^\S([\s\S]*\S)?$`;

export const Declaration = Body('FieldDeclaration', [{ label: 'Plan', type: 'choice', choices: ['silver', 'gold'] }], {
  label: Type.Optional(
    Type.String({ format: 'key-name', maxLength: 1_000, description: 'Its name for people. By default the key.' }),
  ),
  type: Enum(
    declaredTypes,
    'What its values are. A `date` is `YYYY-MM-DD`, a `url` begins with `https://` or `http://`.',
  ),
  choices: Type.Optional(
    Type.Array(Type.String({ minLength: 1, maxLength: 255, pattern: choicePattern }), {
      minItems: 1,
      maxItems: 200,
      uniqueItems: true,
      description: 'The values of a `choice`, and only of it.',
    }),
  ),
});
export type Declaration = Static<typeof Declaration>;

const maxNamed = 10;

export function faultOfValue(
  { type, choices }: Pick<DeclaredField, 'type' | 'choices'>,
  value: unknown,
): string | undefined {
  switch (type) {
    case 'number':
      return typeof value === 'number' ? undefined : 'is not a number (such as 12.5)';
    case 'boolean':
      return typeof value === 'boolean' ? undefined : 'is neither true nor false';
    case 'date':
      return isDay(value) ? undefined : 'is not a date (such as 2026-12-31)';
    case 'url':
      return isWebAddress(value) ? undefined : 'is not a web address (such as https://example.com)';
    case 'choice':
      return choices.includes(value as string) ? undefined : `is not one of its choices: ${named(choices)}`;
    default:
      return typeof value === 'string' ? undefined : 'is not a text (such as "12")';
  }
}

const isDay = (value: unknown): boolean =>
  typeof value === 'string' && value.length === 10 && isInstant(`${value}T00:00:00Z`);

const isWebAddress = (value: unknown): boolean =>
  typeof value === 'string' && /^https?:\/\/\S+$/i.test(value) && URL.canParse(value);

const named = (choices: readonly string[]): string =>
  [...choices.slice(0, maxNamed), ...(choices.length > maxNamed ? [`and ${choices.length - maxNamed} more`] : [])].join(
    ', ',
  );
