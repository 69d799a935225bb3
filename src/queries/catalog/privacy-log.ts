import type { Database, Queryable, Transaction } from '../../database/db.ts';
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
}

/** Numbers only: what is noted must not identify a person. */
type PrivacyDetails = Record<string, number>;

export type LoggedAction = Pick<PrivacyAction, 'action' | 'operator'> & {
  case_ref: string | null;
  reason: string | null;
  details: PrivacyDetails;
  created_at: string;
};

/**
 * Runs `work` in a transaction, and notes the action with what it returns. Can be retried after a commit whose answer was
 * lost: then nothing is done or noted twice.
 */
export async function notePrivacyAction(
  db: Database,
  { action, operator, key, case_ref, reason }: PrivacyAction,
  work: (sql: Transaction) => Promise<PrivacyDetails>,
): Promise<PrivacyDetails> {
  const [{ id }] = await db.lookup((sql) => sql<[{ id: string }]>`select uuidv7() as id`);
  return db.transaction(async (sql) => {
    // Waits for a commit whose answer was lost, and which is still under way.
    await sql`select pg_advisory_xact_lock(hashtextextended(${id}, 0))`;
    const [noted] = await sql<{ details: PrivacyDetails }[]>`select details from privacy_log where id = ${id}`;
    if (noted) return noted.details;
    const details = await work(sql);
    await sql`
      insert into privacy_log (id, action, operator, kind, digest, case_ref, reason, details)
      values (
        ${id}, ${action}, ${operator}, ${key?.kind ?? null}, ${key?.digest ?? null}, ${case_ref ?? null},
        ${reason ?? null}, ${sql.json(details)}
      )`;
    return details;
  });
}

/** What was done about an identifier, the oldest first. */
export const listPrivacyActions = (
  sql: Queryable,
  { kind, digest }: NonNullable<PrivacyAction['key']>,
): Promise<LoggedAction[]> => sql<LoggedAction[]>`
  select action, operator, case_ref, reason, details, created_at
  from privacy_log
  where digest = ${digest}
    and kind = ${kind}
  order by id`;
