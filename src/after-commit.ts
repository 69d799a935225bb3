/** By the transaction's connection, an object of its own for each transaction. */
const actions = new WeakMap<object, (() => void)[]>();

/** Runs an action when the transaction has committed; never, when it is rolled back. The action must not throw. */
export function afterCommit(sql: object, action: () => void): void {
  const own = actions.get(sql);
  if (own) own.push(action);
  else actions.set(sql, [action]);
}

/** Runs the actions that `afterCommit` was given for a transaction. To be called once it has committed. */
export function runAfterCommit(sql: object): void {
  for (const action of actions.get(sql) ?? []) action();
}
