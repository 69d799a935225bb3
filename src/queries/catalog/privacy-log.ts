import type { Sql, Transaction } from '../../database/db.ts';
import type { IdentifierKind } from './identifiers.ts';

/** What an operator did. */
export interface PrivacyAction {
  action: 'find' | 'export' | 'erase' | 'suppress' | 'lift' | 'list' | 'apply';
  /** Who ran the command: a login name. */
  operator: string;
  /** Of the identifier that the request was about. */
  key?: { kind: IdentifierKind; digest: Buffer } | undefined;
  case_ref?: string | undefined;
  reason?: string | undefined;
  /** Numbers only: it must not contain what identifies a person. */
  details?: Record<string, number>;
}

export type LoggedAction = Pick<PrivacyAction, 'action' | 'operator'> & {
  case_ref: string | null;
  reason: string | null;
  details: Record<string, number>;
  created_at: string;
};

export async function insertPrivacyAction(
  sql: Transaction,
  { action, operator, key, case_ref, reason, details = {} }: PrivacyAction,
): Promise<void> {
  await sql`
    insert into privacy_log (action, operator, kind, digest, case_ref, reason, details)
    values (
      ${action}, ${operator}, ${key?.kind ?? null}, ${key?.digest ?? null}, ${case_ref ?? null}, ${reason ?? null},
      ${sql.json(details)}
    )`;
}

/** What was done about an identifier, the oldest first. */
export const listPrivacyActions = (
  sql: Sql | Transaction,
  { kind, digest }: NonNullable<PrivacyAction['key']>,
): Promise<LoggedAction[]> => sql<LoggedAction[]>`
  select action, operator, case_ref, reason, details, created_at
  from privacy_log
  where digest = ${digest}
    and kind = ${kind}
  order by id`;
