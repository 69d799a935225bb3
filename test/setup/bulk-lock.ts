import type { TestApp } from './app.ts';
import type { TestCustomer } from './factories.ts';

/** Takes a lock of a customer as a transaction does, until `release` is called. */
export async function holdLock(
  app: TestApp,
  customer: TestCustomer,
  lock: 'bulk' | 'names',
): Promise<{ release: () => Promise<void> }> {
  const session = await app.owner.reserve();
  await session`select pg_advisory_lock(hashtextextended(${`${lock}:${customer.id}`}, 0))`;
  const release = async () => {
    await session`select pg_advisory_unlock_all()`;
    session.release();
  };
  return { release };
}

/** Returns the number of transactions that wait for such a lock. */
export async function waiting(app: TestApp): Promise<number> {
  const locks = await app.db.search(
    (sql) => sql`
      select from pg_locks
      where locktype = 'advisory'
        and not granted
        and database = (select oid from pg_database where datname = current_database())`,
  );
  return locks.count;
}
