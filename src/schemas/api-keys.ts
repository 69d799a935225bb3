import { Type, type Static } from '@sinclair/typebox';
import { scopes } from './scopes.ts';
import { Enum, Instant, Nullable, Strict, Uuid } from './wire.ts';

/** Lifetimes that an API key can have (days). */
export const durations = [7, 30, 90, 365] as const;
export type Duration = (typeof durations)[number];

const KeyName = () =>
  Type.String({ format: 'key-name', minLength: 1, maxLength: 1024, description: '1–120 characters after trimming' });
const Expiration = () =>
  Type.Unsafe<Duration>({ type: 'integer', enum: [...durations], description: 'days until the key expires' });
const Permissions = (options: object = {}) => Type.Array(Enum(scopes), { minItems: 1, maxItems: 1000, ...options });

/** Request body for generating an API key. A key without `permissions` gets all scopes. */
export const KeyRequest = Strict(
  {
    name: KeyName(),
    expiration: Expiration(),
    permissions: Type.Optional(Permissions({ description: 'default: all scopes' })),
  },
  { examples: [{ name: 'Nightly import', expiration: 90, permissions: ['contacts:read', 'contacts:create'] }] },
);
export type KeyRequest = Static<typeof KeyRequest>;

/**
 * Request body for updating an API key. Properties that are not sent do not change, but the key always gets a new
 * secret.
 */
export const KeyChange = Type.Partial(KeyRequest, { additionalProperties: false, examples: [{ expiration: 30 }] });
export type KeyChange = Static<typeof KeyChange>;

export const keyStatuses = ['active', 'expired', 'revoked'] as const;

/** An API key without its secret, as the list of keys shows it. */
export const ApiKey = Type.Object(
  {
    id: Uuid(),
    name: Type.String(),
    start: Type.String({ description: 'the prefix and the first four characters', examples: ['sda_7fQ2'] }),
    permissions: Type.Array(Enum(scopes)),
    status: Enum(keyStatuses),
    expires_at: Instant(),
    created_at: Instant(),
    updated_at: Instant(),
    last_used_at: Nullable(Instant({ description: 'accurate to about a minute' })),
    revoked_at: Nullable(Instant()),
    created_by: Uuid({ description: 'the user who generated the key' }),
  },
  { title: 'ApiKey' },
);
export type ApiKey = Static<typeof ApiKey>;

/** Response after an API key was generated or updated. Only this response contains the secret `key`. */
export const IssuedKey = Type.Object(
  {
    success: Type.Literal(true),
    message: Type.String(),
    data: Type.Composite([
      Type.Pick(ApiKey, ['id', 'name', 'start', 'permissions', 'status', 'expires_at', 'created_at']),
      Type.Object({ key: Type.String({ description: 'shown only in this response' }) }),
    ]),
  },
  { title: 'IssuedKey' },
);
export type IssuedKey = Static<typeof IssuedKey>;
