/** The functions that run after the commit of each open transaction. The key is the transaction object (`sql`). */
const actions = new WeakMap<object, (() => void)[]>();

/**
 * Registers a function that runs after a transaction has been committed. If the transaction is rolled back, or the
 * response to its commit is lost, the function does not run.
 * @param sql The transaction.
 * @param action The function, which must not throw errors.
 */
export function afterCommit(sql: object, action: () => void): void {
  const own = actions.get(sql);
  if (own) own.push(action);
  else actions.set(sql, [action]);
}

/** Runs the functions that were registered with `afterCommit` for a transaction. Must be called after the commit. */
export function runAfterCommit(sql: object): void {
  for (const action of actions.get(sql) ?? []) action();
}
