/** Names of the events in the audit log. They are about API keys, users and customers. */
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

/** An event to add to the audit log. Failed logins are not added in this way. */
export interface NewAuditEvent {
  event: Exclude<AuditEventName, 'user.login_failed'>;
  customerId: string;
  /** The user that the event is about. Another user may have caused it. */
  userId?: string | undefined;
  apiKeyId?: string;
  by: Actor;
  /** Details of the event. They must never contain a secret, not even a wrong password or key. */
  details?: Record<string, string>;
}

/** Who caused an event in the audit log, and from which IP address. */
export interface Actor {
  /** The user's e-mail address, or `command line`, or `anonymous`. */
  actor: string;
  /** The caller's IP address, or null for the command line. */
  address: string | null;
}

export const commandLine: Actor = { actor: 'command line', address: null };

/**
 * An event of the audit log, as the command `audit list` prints it. A failed-login event stands for several attempts;
 * their number is in `details`.
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
