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

/** Any event except a failed login: those are saved by another function, which counts several as one event. */
export interface NewAuditEvent {
  event: Exclude<AuditEventName, 'user.login_failed'>;
  customerId: string;
  /** The user that the event is about, not always the one who caused it. */
  userId?: string | undefined;
  apiKeyId?: string;
  by: Actor;
  /** Must never contain a secret, not even a wrong password or key. */
  details?: Record<string, string>;
}

export interface Actor {
  /** The user's e-mail address, `key` with its id, or `command line`, or `anonymous`, or `service` for what it does by itself. */
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
