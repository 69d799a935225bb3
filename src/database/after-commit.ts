import type { PendingQuery, Row } from 'postgres';

const actions = new WeakMap<object, (() => void)[]>();

/**
 * Runs `action`, which must not throw, after the commit. It does not run after a rollback, or if the response to the
 * commit is lost.
 */
export function afterCommit(sql: object, action: () => void): void {
  const own = actions.get(sql);
  if (own) own.push(action);
  else actions.set(sql, [action]);
}

/** Must be called after the commit. */
export function runAfterCommit(sql: object): void {
  for (const action of actions.get(sql) ?? []) action();
}

/** What builds a transaction's last statements, by transaction object (`sql`). */
const builders = new WeakMap<object, () => PendingQuery<Row[]>[]>();
const lastStatements = new WeakMap<object, Promise<unknown>>();

/**
 * Sets what builds a transaction's last statements, when everything else is done. The commit follows without waiting for
 * their answers, which saves a round trip. If one of them fails, PostgreSQL rolls back instead of committing, and the
 * transaction rejects with its error.
 */
export function sendWithCommit(sql: object, build: () => PendingQuery<Row[]>[]): void {
  builders.set(sql, build);
}

/** Must be called as the last step before the commit. */
export function sendLastStatements(sql: object): void {
  const statements = builders.get(sql)?.() ?? [];
  // Sent now, so that one that cannot be built fails before the commit is sent.
  const answers = Promise.all(statements.map((statement) => statement.execute()));
  // Thrown by `settleLastStatements`, unless the transaction has failed before.
  answers.catch(() => undefined);
  lastStatements.set(sql, answers);
}

/** Must be called after the commit. Rejects if a last statement failed, because nothing was committed then. */
export const settleLastStatements = (sql: object): Promise<unknown> => Promise.resolve(lastStatements.get(sql));
