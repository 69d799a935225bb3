/** What is kept of keys, users and customers: who did it, when, from which address. */
export const auditEvents = [
  'api_key.generated',
  'api_key.rotated',
  'api_key.revoked',
  'user.created',
  'user.deactivated',
  'user.logged_in',
  'user.login_failed',
  'user.logged_out',
  'user.password_changed',
  'user.password_change_failed',
  'user.password_reset',
  'customer.created',
  'customer.suspended',
  'customer.resumed',
] as const;
export type AuditEventName = (typeof auditEvents)[number];

/** An event about to be recorded. Failed logins are counted instead. */
export interface NewAuditEvent {
  event: Exclude<AuditEventName, 'user.login_failed'>;
  customerId: string;
  /** The user concerned, who need not be the one who did it. */
  userId?: string | undefined;
  apiKeyId?: string;
  by: Actor;
  /** Never a secret, not even a wrong one. */
  details?: Record<string, string>;
}

/** Who did it, and from where. */
export interface Actor {
  /** A user's e-mail address, `command line`, or `anonymous`. */
  actor: string;
  /** The caller's network address; null on the command line. */
  address: string | null;
}

export const commandLine: Actor = { actor: 'command line', address: null };

/** An event as `audit list` shows it. `details` of failed logins tell how many attempts it stands for. */
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
