/** Actions to run after commit, keyed by the transaction's connection object. Each transaction has its own object. */
const actions = new WeakMap<object, (() => void)[]>();

/** Registers an action to run once the transaction has committed. A rollback discards it. The action must not throw. */
export function afterCommit(sql: object, action: () => void): void {
  const own = actions.get(sql);
  if (own) own.push(action);
  else actions.set(sql, [action]);
}

/** Runs the actions that `afterCommit` registered for a transaction. Call it after the commit. */
export function runAfterCommit(sql: object): void {
  for (const action of actions.get(sql) ?? []) action();
}
