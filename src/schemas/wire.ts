import { Type, type Static, type TObject, type TProperties, type TSchema, type TUnsafe } from '@sinclair/typebox';

/** An object with these members and no other: an unknown property of a body is a fault, never dropped. */
export const Strict = <P extends TProperties>(properties: P, options: object = {}): TObject<P> =>
  Type.Object(properties, { additionalProperties: false, ...options });

/** The same value or null, as OpenAPI 3.1 writes it. A type array, not a union: the serialiser is several times faster with it. */
export const Nullable = <T extends TSchema>(schema: T): TUnsafe<Static<T> | null> =>
  Type.Unsafe({
    ...schema,
    type: [schema['type'], 'null'],
    ...(schema['enum'] ? { enum: [...schema['enum'], null] } : {}),
  });

/** One of a few strings. */
export const Enum = <T extends string>(values: readonly T[], options: object = {}): TUnsafe<T> =>
  Type.Unsafe({ type: 'string', enum: [...values], ...options });

/** A record's id. */
export const Uuid = (options: object = {}) =>
  Type.String({ format: 'uuid', examples: ['0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b'], ...options });

/** An instant: ISO 8601 in UTC with milliseconds in answers, RFC 3339 with any offset in requests. */
export const Instant = (options: object = {}) =>
  Type.String({ format: 'date-time', maxLength: 64, examples: ['2026-03-14T09:26:53.589Z'], ...options });

/** A name: 1–255 characters after trimming, stored trimmed. */
export const Name = (options: object = {}) =>
  Type.String({
    format: 'name',
    minLength: 1,
    maxLength: 1024,
    description: '1–255 characters after trimming',
    ...options,
  });

/** Free text of at most `most` characters. */
export const Text = (most = 255, options: object = {}) => Type.String({ maxLength: most, ...options });

/** An e-mail address. */
export const Email = (options: object = {}) =>
  Type.String({ format: 'email', maxLength: 254, examples: ['ada.lovelace@example.com'], ...options });

/** The address of a page, kept as given. */
export const Url = (options: object = {}) => Type.String({ maxLength: 2048, ...options });

/** ISO 3166-1 alpha-2, or empty when unknown; any case in requests, upper case in answers. */
export const Country = (options: object = {}) =>
  Type.String({ format: 'country', maxLength: 2, examples: ['GB'], ...options });

/** ISO 4217; any case in requests, upper case in answers. */
export const Currency = (options: object = {}) =>
  Type.String({ format: 'currency', maxLength: 3, examples: ['EUR'], ...options });

/** An amount of money: an exact decimal of at most 4 decimals, within what a JSON number holds exactly. */
export const Price = (options: object = {}) =>
  Type.Number({ minimum: 0, maximum: 999_999_999.9999, 'x-max-decimals': 4, examples: [1249.9], ...options });

/** Ids in a body; duplicates collapse, the first order is kept. */
export const Ids = (options: object = {}) => Type.Array(Uuid(), { maxItems: 1000, ...options });

/** The free-form values that a customer keeps with a record: flat, at most 100 of them and 16 KiB. */
export const CustomFields = (options: object = {}) =>
  Type.Unsafe<Record<string, string | number | boolean>>({
    ...customFields(['string', 'number', 'boolean']),
    ...options,
  });

/** Changes of them, key by key; null removes one. */
export const CustomFieldsPatch = (options: object = {}) =>
  Type.Unsafe<Record<string, string | number | boolean | null>>({
    ...customFields(['string', 'number', 'boolean', 'null']),
    ...options,
  });

/** How much custom fields of one record may hold. */
export const customFieldsLimits = { keys: 100, bytes: 16 * 1024 };

const customFields = (types: string[]) => ({
  type: 'object',
  propertyNames: { type: 'string', minLength: 1, maxLength: 64 },
  additionalProperties: { type: types },
  maxProperties: customFieldsLimits.keys,
  'x-max-json-bytes': customFieldsLimits.bytes,
  examples: [{ plan: 'gold', seats: 12, trial: false }],
});

/** The path of one record. */
export const IdParams = Strict({ id: Uuid() });

/** Rows of a page when the request names no limit. */
export const defaultLimit = 25;

/** Which page: from 1, with `limit` rows. */
export const Paginate = Strict({
  page: Type.Optional(Type.Integer({ minimum: 1, maximum: 2_147_483_647, default: 1 })),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 100, default: defaultLimit })),
});
export type Paginate = Static<typeof Paginate>;

/** The body of a list that takes nothing but the page. */
export const PageQuery = Strict(
  { paginate: Type.Optional(Paginate) },
  { title: 'PageQuery', examples: [{ paginate: { page: 1, limit: 25 } }] },
);

/** Answer of the metadata calls. */
export const Metadata = Type.Object(
  {
    pagination: Type.Object({
      current_page: Type.Integer(),
      total_records: Type.Integer(),
      total_pages: Type.Integer(),
    }),
  },
  { title: 'Metadata' },
);

export type Metadata = Static<typeof Metadata>;

/** Answer of a call whose effect matters more than its data. */
export const Done = Type.Object({ success: Type.Literal(true), message: Type.String() }, { title: 'DefaultResponse' });

/** The same, naming the record concerned. */
export const DoneWithId = Type.Object(
  { success: Type.Literal(true), message: Type.String(), data: Type.Object({ id: Uuid() }) },
  { title: 'DefaultResponseWithId' },
);

/** The body of an answer that names the record concerned. */
export const done = (message: string, id: string): Static<typeof DoneWithId> => ({
  success: true,
  message,
  data: { id: id.toLowerCase() },
});

/** Calls without a body also take `{}`, and nothing else. */
export const NoBody = Strict({});

/** 401 and 403: exactly these two members. */
export const Refusal = Type.Object({ statusCode: Type.Integer(), message: Type.String() }, { title: 'Refusal' });

/** Every other error. `code` is for programs, `message` for people, `errors` points at each value at fault. */
export const ErrorBody = Type.Object(
  {
    statusCode: Type.Integer(),
    error: Type.String({ examples: ['Bad Request'] }),
    code: Type.String({ examples: ['validation_failed'] }),
    message: Type.String(),
    errors: Type.Optional(Type.Array(Type.Object({ path: Type.String(), message: Type.String() }))),
  },
  { title: 'Error' },
);

/** 402: a pool has too few credits. */
export const ShortageBody = Type.Composite(
  [
    Type.Omit(ErrorBody, ['errors']),
    Type.Object({
      required: Type.Integer({ description: 'credits that the call needs' }),
      available: Type.Integer({ description: 'credits that can be spent' }),
      pool: Type.String({ examples: ['subscription'] }),
    }),
  ],
  { title: 'InsufficientCredits' },
);
