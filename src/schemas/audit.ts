/** Names of the events in the audit log. The events concern API keys, users and customers. */
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

/**
 * A new event for the audit log, except a failed login. Failed logins are saved by another function, which counts
 * several of them as one event.
 */
export interface NewAuditEvent {
  event: Exclude<AuditEventName, 'user.login_failed'>;
  customerId: string;
  /** Id of the user that the event is about, which is not always the user who caused it. */
  userId?: string | undefined;
  apiKeyId?: string;
  by: Actor;
  /** Details of the event. Must never contain a secret, not even a wrong password or key. */
  details?: Record<string, string>;
}

/** The person or program that caused an event in the audit log, with its IP address. */
export interface Actor {
  /** The user's e-mail address, or `command line`, or `anonymous`. */
  actor: string;
  /** The caller's IP address, or null for the command line. */
  address: string | null;
}

export const commandLine: Actor = { actor: 'command line', address: null };

/**
 * An event of the audit log, as the command `audit list` prints it. Several failed logins are stored as one event, with
 * their number in `details`.
 */
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
