import { Type, type Static } from '@sinclair/typebox';
import { ApproveOver, ApproveOverChange } from './base/approvals.ts';
import { scopes } from './base/scopes.ts';
import type { Pool } from './credits.ts';
import { Enum, Instant, Nullable, Strict, success, Uuid } from './base/wire.ts';

/** Days. */
export const durations = [7, 30, 90, 365] as const;
export type Duration = (typeof durations)[number];

/** Of one customer: keys neither revoked nor expired, and other keys that lists show. */
export const keyLimits = { live: 1_000, endedShown: 1_000 } as const;

const KeyName = () =>
  Type.String({
    format: 'key-name',
    minLength: 1,
    maxLength: 1024,
    description:
      'What the key is for, to tell keys apart: 1–120 characters, not counting white space around them, which is removed.',
    examples: ['Nightly import'],
  });
const Expiration = () =>
  Type.Unsafe<Duration>({ type: 'integer', enum: [...durations], description: 'Days until the key expires.' });
const Permissions = (options: object = {}) => Type.Array(Enum(scopes), { minItems: 1, maxItems: 1000, ...options });

/** `day` and `month` are those of UTC; `total` never ends. */
export const capPeriods = ['day', 'month', 'total'] as const;

export const maxCap = 1_000_000_000;

const SpendCap = (description: string) =>
  Nullable(
    Strict(
      {
        amount: Type.Integer({
          minimum: 0,
          maximum: maxCap,
          description: 'Credits that the jobs of the key may cost. With 0 the key cannot spend.',
        }),
        per: Enum(capPeriods, 'In which time: a day or a calendar month (UTC), or `total`, since the key was made.'),
      },
      { description },
    ),
  );

const caps = (more: string) =>
  ({
    subscription: SpendCap(`Cap on credits for unlocking prospects. ${more}`),
    verification: SpendCap(`Cap on credits for verifying e-mail addresses. ${more}`),
  }) satisfies Record<Pool, unknown>;

const SpendCapChanges = (description: string) =>
  Type.Partial(Strict(caps('Null: no cap.')), {
    additionalProperties: false,
    description,
    examples: [{ subscription: { amount: 0, per: 'total' }, verification: { amount: 500, per: 'day' } }],
  });
export type SpendCapChanges = Static<ReturnType<typeof SpendCapChanges>>;

const SpendCaps = Type.Object(caps('Null: none.'), {
  title: 'SpendCaps',
  description: 'What the jobs of the key may cost, by pool of credits.',
});
export type SpendCaps = Static<typeof SpendCaps>;
export type SpendCap = NonNullable<SpendCaps[Pool]>;

export const noCaps: SpendCaps = { subscription: null, verification: null };

const spentIn = (pool: Pool) =>
  Type.Integer({
    description: `Credits of the pool \`${pool}\` that the key's jobs cost or have reserved, in the time of the cap; without a cap, since the key was made.`,
  });

const Spent = Type.Object(
  { subscription: spentIn('subscription'), verification: spentIn('verification') } satisfies Record<Pool, unknown>,
  { description: 'What the key has spent, by pool of credits.' },
);
export type Spent = Static<typeof Spent>;

export const KeyRequest = Strict(
  {
    name: KeyName(),
    expiration: Expiration(),
    permissions: Type.Optional(
      Permissions({
        description: 'The scopes of the key. By default it has all but `webhooks:manage` and `fields:manage`.',
      }),
    ),
    spend_caps: Type.Optional(
      SpendCapChanges(
        'What the jobs of the key may cost. A new key has no cap in a pool that is not named; a rotated one keeps its own.',
      ),
    ),
    approve_over: Type.Optional(ApproveOverChange),
  },
  {
    examples: [
      {
        name: 'Nightly import',
        expiration: 90,
        permissions: ['contacts:read', 'contacts:create'],
        spend_caps: { verification: { amount: 500, per: 'day' } },
      },
    ],
  },
);
export type KeyRequest = Static<typeof KeyRequest>;

/** Missing properties do not change, but the key always gets a new secret. */
export const KeyChange = Type.Partial(KeyRequest, { additionalProperties: false, examples: [{ expiration: 30 }] });
export type KeyChange = Static<typeof KeyChange>;

export const SpendCapsChange = Strict(
  {
    spend_caps: Type.Optional(SpendCapChanges('The new caps. A pool that is not named keeps its own.')),
    approve_over: Type.Optional(ApproveOverChange),
  },
  {
    title: 'SpendCapsChange',
    examples: [{ spend_caps: { verification: { amount: 500, per: 'day' } } }],
  },
);

const keyStatuses = ['active', 'expired', 'revoked'] as const;

export const ApiKey = Type.Object(
  {
    id: Uuid('Id of the key. It is not the key itself.'),
    name: Type.String({ description: 'What the key is for.', examples: ['Nightly import'] }),
    start: Type.String({
      description: 'The beginning of the key, to recognise it: the prefix and the first four characters.',
      examples: ['sda_7fQ2'],
    }),
    permissions: Type.Array(Enum(scopes), { description: 'The scopes of the key.' }),
    spend_caps: SpendCaps,
    approve_over: ApproveOver,
    spent: Spent,
    status: Enum(keyStatuses, '`active`: accepted; `expired` and `revoked`: refused with 401, for ever.'),
    expires_at: Instant('When the key expires, or expired.'),
    created_at: Instant('When the key was created.'),
    updated_at: Instant('When the key was created, rotated, revoked, or got other caps last.'),
    last_used_at: Nullable(Instant('When a request last used the key, accurate to about a minute. Null: never.')),
    revoked_at: Nullable(Instant('When the key was revoked. Null: it was not.')),
    created_by: Uuid('The user who created the key.'),
  },
  { title: 'ApiKey', description: 'An API key, without its value.' },
);
export type ApiKey = Static<typeof ApiKey>;

/** The only response with the secret `key`. */
export const IssuedKey = Type.Object(
  {
    ...success,
    data: Type.Composite(
      [
        Type.Pick(ApiKey, [
          'id',
          'name',
          'start',
          'permissions',
          'spend_caps',
          'approve_over',
          'status',
          'expires_at',
          'created_at',
        ]),
        Type.Object({
          key: Type.String({ description: 'The key itself. Only this response shows it: store it now.' }),
        }),
      ],
      { description: 'The key.' },
    ),
  },
  { title: 'IssuedKey' },
);
export type IssuedKey = Static<typeof IssuedKey>;

export const ChangedKey = Type.Object({ ...success, data: ApiKey }, { title: 'ChangedKey' });
