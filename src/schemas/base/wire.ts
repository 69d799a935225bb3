import { Type, type Static, type TObject, type TProperties, type TSchema, type TUnsafe } from '@sinclair/typebox';

/** Returns the schema of an object with the given properties. Any other property makes the object invalid. */
export const Strict = <P extends TProperties>(properties: P, options: object = {}): TObject<P> =>
  Type.Object(properties, { additionalProperties: false, ...options });

/**
 * Returns a schema that also allows null. The schema uses an array of types, such as `["string", "null"]`, because the
 * response serialiser is much slower with a union of two schemas.
 */
export const Nullable = <T extends TSchema>(schema: T): TUnsafe<Static<T> | null> =>
  Type.Unsafe({
    ...schema,
    type: [schema['type'], 'null'],
    ...(schema['enum'] ? { enum: [...schema['enum'], null] } : {}),
  });

/** Returns the schema of a string that must be one of the given values. */
export const Enum = <T extends string>(values: readonly T[], options: object = {}): TUnsafe<T> =>
  Type.Unsafe({ type: 'string', enum: [...values], ...options });

/** Schema of a record's id: a UUID. Validation converts an id in a request to lower case. */
export const Uuid = (options: object = {}) =>
  Type.String({
    format: 'uuid',
    'x-canonical-id': true,
    examples: ['0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b'],
    ...options,
  });

/**
 * Schema of a date and time. Responses use ISO 8601 in UTC with milliseconds. Requests may use RFC 3339 with any
 * offset.
 */
export const Instant = (options: object = {}) =>
  Type.String({ format: 'date-time', maxLength: 64, examples: ['2026-03-14T09:26:53.589Z'], ...options });

/** Schema of the time at which a record was created. */
export const CreatedAt = () => Instant({ description: 'When the record was created.' });

/** Schema of the time at which a record was changed last. */
export const UpdatedAt = () => Instant({ description: 'When the record was last changed.' });

/** Schema of a score from 0 to 100. */
export const Score = () =>
  Type.Integer({
    minimum: 0,
    maximum: 100,
    description: 'Rating of the data in the prospect catalog, from 0 to 100. 0 if there is none.',
  });

/** Schema of a name: 1–255 characters after trimming. The trimmed name is stored. */
export const Name = (options: object = {}) =>
  Type.String({
    format: 'name',
    minLength: 1,
    maxLength: 1024,
    description: '1–255 characters, not counting white space around them, which is removed.',
    ...options,
  });

/** Schema of free text of at most `max` characters. */
export const Text = (max = 255, options: object = {}) => Type.String({ maxLength: max, ...options });

/**
 * Schema of the field `external_id`: an id that the API client chooses for a record. The id must be unique among the
 * customer's records of the same kind.
 */
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

/** Schema of an e-mail address. */
export const Email = (options: object = {}) =>
  Type.String({
    format: 'email',
    maxLength: 254,
    description: 'An e-mail address.',
    examples: ['ada.lovelace@example.com'],
    ...options,
  });

/** Schema of a web address. Only the length is checked, and the address is stored unchanged. */
export const Url = (options: object = {}) =>
  Type.String({ maxLength: 2048, description: 'A web address. It is stored as given.', ...options });

/**
 * Schema of a country code (ISO 3166-1 alpha-2). `""` means unknown. Requests may use upper or lower case; responses
 * use upper case.
 */
export const Country = (options: object = {}) =>
  Type.String({
    format: 'country',
    maxLength: 2,
    description: 'ISO 3166-1 alpha-2 country code, or `""` if unknown. Requests may use any case.',
    examples: ['GB'],
    ...options,
  });

/** Schema of a currency code (ISO 4217). Requests may use upper or lower case; responses use upper case. */
export const Currency = (options: object = {}) =>
  Type.String({
    format: 'currency',
    maxLength: 3,
    description: 'ISO 4217 currency code. Requests may use any case.',
    examples: ['EUR'],
    ...options,
  });

// A JSON number holds each amount up to the maximum exactly.
/** Schema of an amount of money with at most 4 decimals. */
export const Price = (options: object = {}) =>
  Type.Number({
    minimum: 0,
    maximum: 999_999_999.9999,
    'x-max-decimals': 4,
    description: 'An amount of money with at most 4 decimals.',
    examples: [1249.9],
    ...options,
  });

/** Schema of an array of ids. Repeated ids are ignored. */
export const Ids = (options: object = {}) => Type.Array(Uuid(), { maxItems: 1000, ...options });

/** Schema of the field `custom_fields`: key-value pairs that a customer defines and stores with a record. */
export const CustomFields = (options: object = {}) =>
  Type.Unsafe<Record<string, string | number | boolean>>({
    ...customFields(['string', 'number', 'boolean']),
    description: `${customFieldsText} A PATCH changes only the keys that it names.`,
    ...options,
  });

/**
 * Schema of the field `custom_fields` in a PATCH request. Sets the keys in the request and removes the keys whose value
 * is null. Other keys do not change.
 */
export const CustomFieldsPatch = (options: object = {}) =>
  Type.Unsafe<Record<string, string | number | boolean | null>>({
    ...customFields(['string', 'number', 'boolean', 'null']),
    description: `${customFieldsText} Keys that are not sent do not change; \`null\` removes a key.`,
    ...options,
  });

/** Limits for the custom fields of one record: the number of keys, and the size as JSON (bytes). */
export const customFieldsLimits = { keys: 100, bytes: 16 * 1024 };

const customFieldsText =
  'Values of your own, by name: strings, numbers and booleans. ' +
  `At most ${customFieldsLimits.keys} keys of 1–64 characters, together at most ${customFieldsLimits.bytes / 1024} KiB of JSON.`;

const customFields = (types: string[]) => ({
  type: 'object',
  propertyNames: { type: 'string', minLength: 1, maxLength: 64 },
  additionalProperties: { type: types },
  maxProperties: customFieldsLimits.keys,
  'x-max-json-bytes': customFieldsLimits.bytes,
  examples: [{ plan: 'gold', seats: 12, trial: false }],
});

/** Path parameters of a route for one record: the record's id. */
export const IdParams = Strict({ id: Uuid({ description: 'Id of the record.' }) });

/** Number of records on a page if the request does not specify a limit. */
export const defaultLimit = 25;

/**
 * Schema of a page number. The first page is 1. The schema does not specify this default, because some generated
 * clients would then always send a page number, which is not allowed together with a cursor.
 */
export const PageNumber = (options: object = {}) =>
  Type.Integer({
    minimum: 1,
    maximum: 2_147_483_647,
    description: 'Number of the page; the first, and the default, is 1. A page past the end is empty.',
    ...options,
  });

/** Schema of the maximum number of records on a page. */
export const PageLimit = () =>
  Type.Integer({ minimum: 1, maximum: 100, default: defaultLimit, description: 'Number of records on a page.' });

/** Schema of a cursor, which requests the next page of a list. The cursor is in the response with the previous page. */
export const Cursor = (options: object = {}) =>
  Type.String({
    description:
      'Continues a list: the value of the header `x-next-cursor` of the previous page. Replaces `page`. Filters and order ' +
      'must be those of the previous page.',
    ...options,
  });

/**
 * Schema of the request field `paginate`: the page number `page`, which starts at 1, and the number of records per page
 * `limit`.
 */
export const Paginate = Strict(
  { page: Type.Optional(PageNumber()), limit: Type.Optional(PageLimit()) },
  { description: 'Which page of the result, and how long it is.' },
);
export type Paginate = Static<typeof Paginate>;

/** Request body for a list without filters: paging parameters only. */
export const PageQuery = Strict(
  { paginate: Type.Optional(Paginate) },
  { title: 'PageQuery', examples: [{ paginate: { page: 1, limit: 25 } }] },
);

/** Response of a count: the total number of records, and the number of pages. */
export const Metadata = Type.Object(
  {
    pagination: Type.Object(
      {
        current_page: Type.Integer({ description: 'The page number of the request.' }),
        total_records: Type.Integer({ description: 'How many records match.' }),
        total_pages: Type.Integer({ description: 'How many pages they fill. 0 if nothing matches.' }),
      },
      { description: 'How many records match, and how many pages they fill.' },
    ),
  },
  { title: 'Metadata' },
);

export type Metadata = Static<typeof Metadata>;

/** The fields `success` and `message`, which are part of each response of an action. */
export const success = {
  success: Type.Literal(true, { description: 'Always true. Failures are error responses.' }),
  message: Type.String({ description: 'What was done, for people. Do not parse it.' }),
};

/** Response of an action that returns no data: the fields `success` and `message`. */
export const Done = Type.Object(success, { title: 'DefaultResponse' });

/** Response of an action on one record: the fields `success` and `message`, and the record's id. */
export const DoneWithId = Type.Object(
  {
    ...success,
    data: Type.Object({ id: Uuid({ description: 'Id of the record.' }) }, { description: 'The record, by its id.' }),
  },
  { title: 'DefaultResponseWithId' },
);

/** Returns the response body of an action on one record: the fields `success` and `message`, and the record's id. */
export const done = (message: string, id: string): Static<typeof DoneWithId> => ({
  success: true,
  message,
  data: { id },
});

/** Request body of an endpoint that takes no input: an empty body or `{}`. */
export const NoBody = Strict({});

/** Response body of errors with status 401 or 403. According to the API specification, it has no other fields. */
export const Refusal = Type.Object(
  {
    statusCode: Type.Integer({ description: 'The HTTP status: 401 or 403.' }),
    message: Type.String({
      description: 'A fixed text. It is the same for every cause, so that nobody learns whether a key exists.',
    }),
  },
  { title: 'Refusal' },
);

/**
 * Schema of a list of invalid values: where each is and what is wrong with it.
 * @param whole the name of the value that contains the invalid values, such as `the request body`; used in the
 *   description of the field `path`
 */
export const FaultList = (whole: string, options: object = {}) =>
  Type.Array(
    Type.Object({
      path: Type.String({ description: `JSON pointer (RFC 6901) to the value in ${whole}.` }),
      message: Type.String({ description: 'What is wrong with the value.' }),
    }),
    options,
  );

/**
 * Response body of all errors except 401 and 403. `code` is for programs, `message` for people. `errors` lists each
 * invalid value.
 */
export const ErrorBody = Type.Object(
  {
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
  },
  { title: 'Error' },
);

/** Response body of errors with status 402, when the customer has too few credits. */
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
