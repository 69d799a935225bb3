import type { Sql, Transaction } from '../../src/database/db.ts';

/** Returns the same connection. Before it sends its statement of this number, from 1, it waits for `work`. */
export function beforeStatement<T extends Sql | Transaction>(sql: T, number: number, work: () => Promise<unknown>): T {
  let count = 0;
  return new Proxy(sql, {
    apply(target, self, given) {
      const query = Reflect.apply(target as never, self, given) as Promise<unknown>;
      const send = query.then.bind(query);
      const sendLater = async (...then: Parameters<typeof send>) => {
        if ((count += 1) === number) await work();
        return send(...then);
      };
      // A fragment is never awaited.
      if (Array.isArray(given[0]?.raw)) query.then = sendLater as typeof send; // eslint-disable-line unicorn/no-thenable -- a query is sent when it is awaited
      return query;
    },
  });
}
