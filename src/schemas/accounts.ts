import { Type, type Static } from '@sinclair/typebox';
import { Email, Enum, Instant, Name, Strict, Uuid, Nullable, success, Named, Described, Body } from './wire.ts';
import { scopes } from './scopes.ts';
import type { Pool } from './jobs.ts';

export const roles = ['admin', 'member'] as const;
export type Role = (typeof roles)[number];

export const Role = () => Enum(roles, 'An `admin` can manage API keys; a `member` cannot.');

export const User = Named('User', {
  id: Uuid('Id of the user, for `assigned_to` and `user_id_assigned`.'),
  name: Name('Name of the user.'),
  email: Email('E-mail address of the user, with which the user logs in.'),
  role: Role(),
  active: Type.Boolean({ description: 'False after the user is deactivated.' }),
});
export type User = Static<typeof User>;

export const UserCreate = Strict({
  name: Name('Name of the user.'),
  email: Email('E-mail address of the user, unique among all users.'),
  role: Role(),
});
export type UserCreate = Static<typeof UserCreate>;

const NewPassword = () =>
  Type.String({
    minLength: 12,
    maxLength: 128,
    description: 'The new password: 12–128 characters.',
    examples: ['correct horse battery'],
  });

/**
 * Schema of a password that a user already has. It accepts any text, because an old password may break the current
 * rules.
 */
const ClaimedPassword = () => Type.String({ minLength: 1, maxLength: 1024, description: 'The current password.' });

export const Login = Strict(
  { email: Email('E-mail address of the user.'), password: ClaimedPassword() },
  { examples: [{ email: 'ada.lovelace@example.com', password: 'correct horse battery' }] },
);
export type Login = Static<typeof Login>;

export const Session = Named('Session', {
  token: Type.String({
    description: 'The session token, for `Authorization: Bearer <token>`. Only this response shows it.',
  }),
  expires_at: Instant('When the session ends: 12 hours after the login.'),
  user: Described('The user who logged in.', {
    id: Uuid('Id of the user.'),
    name: Name('Name of the user.'),
    email: Email('E-mail address of the user.'),
    customer_id: Uuid('The customer that the user belongs to.'),
    role: Role(),
  }),
});
export type Session = Static<typeof Session>;

export const PasswordChange = Strict(
  { current_password: ClaimedPassword(), new_password: NewPassword() },
  { examples: [{ current_password: 'correct horse battery', new_password: 'staple of another kind' }] },
);
export type PasswordChange = Static<typeof PasswordChange>;

export const PasswordByLink = Strict({ new_password: NewPassword() });

const Price = (description: string) =>
  Type.String({
    pattern: '^\\d+\\.\\d{2}$',
    description: `${description}, as text with two decimals.`,
    examples: ['0.00'],
  });

export const auditEvents = [
  'api_key.generated',
  'api_key.rotated',
  'api_key.revoked',
  'api_key.spend_caps_changed',
  'approval.approved',
  'approval.refused',
  'user.created',
  'user.deactivated',
  'user.role_changed',
  'user.link_issued',
  'user.logged_in',
  'user.login_failed',
  'user.logged_out',
  'user.password_changed',
  'user.password_change_failed',
  'user.password_reset',
  'user.password_set',
  'customer.created',
  'customer.suspended',
  'customer.resumed',
  'webhook.created',
  'webhook.changed',
  'webhook.rotated',
  'webhook.deleted',
  'webhook.disabled',
  'field.declared',
  'field.removed',
] as const;
export type AuditEventName = (typeof auditEvents)[number];

/**
 * An audit event to store, other than a failed login. Another function stores failed logins, and counts several as one
 * event.
 */
export interface NewAuditEvent {
  event: Exclude<AuditEventName, 'user.login_failed'>;
  customerId: string;
  /** Id of the user that the event is about. Another user may have caused the event. */
  userId?: string | undefined;
  apiKeyId?: string;
  by: Actor;
  /** Further facts about the event. They must never contain a secret, not even a wrong password or key. */
  details?: Record<string, string>;
}

export interface Actor {
  /** The user's e-mail address, `key` with its id, `command line`, `anonymous`, or `service` for the service itself. */
  actor: string;
  address: string | null;
}

export const commandLine: Actor = { actor: 'command line', address: null };

export interface AuditEvent {
  id: string;
  created_at: string;
  event: AuditEventName;
  actor: string;
  address: string | null;
  user_id: string | null;
  api_key_id: string | null;
  details: Record<string, string>;
}

export const approvalHours = 72;

export const approvalDays = 30;

export const maxPendingApprovals = 100;

const Most = (description: string) => Nullable(Type.Integer({ minimum: 0, maximum: 1_000_000_000, description }));

export const ApproveOver = Type.Object(
  {
    credits: Most('Credits that one call may cost at most. Null: any number.'),
    records: Most('Records that one call may write. Null: any number.'),
  },
  {
    title: 'ApproveOver',
    description:
      'What one call of the key may cost or write without the approval of an admin: starts of jobs and imports, merges, ' +
      'undos and batches. A call above it is answered with 202, and runs when an admin approves it.',
  },
);
export type ApproveOver = Static<typeof ApproveOver>;

export const anySize: ApproveOver = { credits: null, records: null };

export const ApproveOverChange = Type.Partial(Strict(ApproveOver.properties), {
  additionalProperties: false,
  description: `${ApproveOver.description} What is not named stays; for a new key it is null.`,
  examples: [{ credits: 100, records: 500 }],
});
export type ApproveOverChange = Static<typeof ApproveOverChange>;

export interface Size {
  credits: number;
  records: number;
}

export interface Call extends Size {
  apiKeyId: string;
  url: string;
  body: Buffer;
}

export interface ApprovedCall extends Call {
  customerId: string;
  id: string;
  by: Actor;
}

export const ApprovalNeeded = Type.Object(
  {
    approval: Described('The call that waits.', {
      id: Uuid('Ask `GET /api/ext/approval/{id}` what became of it.'),
      url: Type.String({ description: 'The page on which an admin approves it.' }),
    }),
  },
  {
    title: 'ApprovalNeeded',
    description: 'Nothing was written or reserved: the call waits for the approval of an admin.',
  },
);

const approvalStatuses = ['pending', 'approved', 'refused', 'lapsed'] as const;

export const Approval = Type.Object(
  {
    id: Uuid('Id of the approval.'),
    api_key_id: Uuid('The key that sent the call.'),
    url: Type.String({
      description: 'Path and query of the call, a POST.',
      examples: ['/api/ext/contacts/batch/update'],
    }),
    credits: Type.Integer({ description: 'Credits that it would cost at most.' }),
    records: Type.Integer({ description: 'Records that it would write.' }),
    status: Enum(
      approvalStatuses,
      `\`pending\`: it waits; \`approved\`: it ran, once; \`refused\`; \`lapsed\`: nobody decided within ${approvalHours} hours.`,
    ),
    created_at: Instant('When the key sent it.'),
    decided_at: Nullable(Instant('When it was approved or refused. Null: it was not.')),
    decided_by: Nullable(Type.String({ description: 'E-mail address of the admin who decided. Null: nobody has.' })),
    answer: Type.Unknown({ description: 'The response to the call, when it ran; else null.' }),
  },
  { title: 'Approval', description: 'A call of an API key that needs the approval of an admin.' },
);
export type Approval = Static<typeof Approval>;

export const ListedApproval = Type.Omit(Approval, ['answer'], { title: 'ListedApproval' });
export type ListedApproval = Static<typeof ListedApproval>;

export const ApprovalDecision = Strict(
  { approve: Type.Boolean({ description: 'True: the call runs, once, as it was sent. False: it never does.' }) },
  { title: 'ApprovalDecision', examples: [{ approve: true }] },
);

export const DecidedApproval = Type.Object({ ...success, data: Approval }, { title: 'DecidedApproval' });

export const durations = [7, 30, 90, 365] as const;
export type Duration = (typeof durations)[number];

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

/** Periods of a spend cap. A day and a month begin at midnight UTC. `total` never ends. */
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

export const KeyChange = Type.Partial(KeyRequest, { additionalProperties: false, examples: [{ expiration: 30 }] });
export type KeyChange = Static<typeof KeyChange>;

export const SpendCapsChange = Body(
  'SpendCapsChange',
  [{ spend_caps: { verification: { amount: 500, per: 'day' } } }],
  {
    spend_caps: Type.Optional(SpendCapChanges('The new caps. A pool that is not named keeps its own.')),
    approve_over: Type.Optional(ApproveOverChange),
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

export const CustomerSummary = Named('CustomerSummary', {
  customer: Described('The customer that the API key belongs to.', {
    id: Uuid('Id of the customer.'),
    business_name: Type.String({ description: 'Name of the company.', examples: ['Analytical Engines Ltd'] }),
    status: Type.String({ description: 'State of the account.', examples: ['OK'] }),
    country: Nullable(Type.String({ description: 'Country of the company.' })),
    city: Nullable(Type.String({ description: 'City of the company.' })),
  }),
  users_count: Type.Integer({ description: 'Number of all users, deactivated ones too.' }),
  subscription: Described('The subscription of the customer.', {
    id: Uuid('Id of the subscription.'),
    status: Type.String({ description: 'State of the subscription.', examples: ['active'] }),
    balance: Type.Integer({
      description: 'Credits for unlocking prospects that can be spent. Reserved ones are not counted.',
    }),
    price: Price('Price of a period'),
    periodicity: Type.String({ description: 'How long a period is.', examples: ['monthly'] }),
    // Lower case, as the contract has it. All other currencies are upper case.
    currency: Type.String({ description: 'ISO 4217 currency code, here in lower case.', examples: ['usd'] }),
    tier: Described('What was subscribed to.', {
      id: Uuid('Id of the tier.'),
      title: Type.String({ description: 'Name of the tier.', examples: ['Free'] }),
      tier: Type.Integer({ description: 'Number of the tier. Higher tiers offer more.' }),
      is_free: Type.Boolean({ description: 'Whether the tier costs nothing.' }),
      price: Price('Price of the tier'),
    }),
    active_seats: Type.Integer({ description: 'Number of users that are not deactivated.' }),
  }),
  api_key: ApiKey,
});
export type CustomerSummary = Static<typeof CustomerSummary>;

/** Response to a request that issues a key. Only this response contains the secret `key`. */
export const IssuedKey = Named('IssuedKey', {
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
});
export type IssuedKey = Static<typeof IssuedKey>;

export const ChangedKey = Type.Object({ ...success, data: ApiKey }, { title: 'ChangedKey' });
