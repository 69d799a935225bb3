import type { Sql, Transaction } from '../../src/database/db.ts';

/** A statement of the driver, which calls `handle` at least once to send it; it does not do so for a fragment. */
interface Statement {
  handle(): Promise<void>;
}

/** Returns the same connection. Before it sends its statement of this number, from 1, it waits for `work`. */
export function beforeStatement<T extends Sql | Transaction>(sql: T, number: number, work: () => Promise<unknown>): T {
  let count = 0;
  return new Proxy(sql, {
    apply(target, self, given) {
      const statement = Reflect.apply(target as never, self, given) as Statement;
      if (!Array.isArray(given[0]?.raw)) return statement;
      const send = statement.handle.bind(statement);
      let sent: Promise<void> | undefined;
      statement.handle = () => (sent ??= (count += 1) === number ? work().then(send) : send());
      return statement;
    },
  });
}
