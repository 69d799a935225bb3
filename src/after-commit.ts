/** The actions to run after each transaction's commit. The key is the transaction's own connection object. */
const actions = new WeakMap<object, (() => void)[]>();

/**
 * Registers an action to run once a transaction has committed. A rollback discards the action.
 * @param sql the transaction
 * @param action must not throw
 */
export function afterCommit(sql: object, action: () => void): void {
  const own = actions.get(sql);
  if (own) own.push(action);
  else actions.set(sql, [action]);
}

/** Runs the actions that `afterCommit` registered for a transaction. Call it after the commit. */
export function runAfterCommit(sql: object): void {
  for (const action of actions.get(sql) ?? []) action();
}
