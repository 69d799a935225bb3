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
