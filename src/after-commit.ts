/**
 * For each open transaction, the functions to call after its commit. The key is the connection object of the
 * transaction (`sql`).
 */
const actions = new WeakMap<object, (() => void)[]>();

/**
 * Registers a function that is called after a transaction has committed. If the transaction rolls back, it is not
 * called.
 * @param sql the transaction
 * @param action the function; it must not throw
 */
export function afterCommit(sql: object, action: () => void): void {
  const own = actions.get(sql);
  if (own) own.push(action);
  else actions.set(sql, [action]);
}

/** Calls the functions that `afterCommit` registered for a transaction. Call it after the transaction has committed. */
export function runAfterCommit(sql: object): void {
  for (const action of actions.get(sql) ?? []) action();
}
