import type { SharedDatabase, Sql } from '../../database/db.ts';
import { isUnavailable } from '../../errors.ts';

/**
 * Reads rows of these customers. In a distributed database, each node is asked by itself: the rows of one that does not
 * respond are missing.
 */
export async function readByNode<T>(
  db: Pick<SharedDatabase, 'for' | 'groupByNode'>,
  lane: 'lookup' | 'search',
  customerIds: readonly string[],
  read: (sql: Sql, customerIds: string[]) => Promise<readonly T[]>,
): Promise<T[]> {
  const ask = (ids: string[]): Promise<readonly T[]> =>
    db.for({ customerId: ids[0]! }, null)[lane]((sql) => read(sql, ids));
  const groups = await db.groupByNode(customerIds);
  const found = await Promise.all(
    groups.map((ids) =>
      ask(ids).catch((error: unknown) => {
        if (!isUnavailable(error)) throw error;
        return [];
      }),
    ),
  );
  return found.flat();
}
