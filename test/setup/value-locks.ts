import { crc32 } from 'node:zlib';
import type { LockedValue } from '../../src/queries/records/value-locks.ts';
import type { TestApp } from './app.ts';
import type { TestCustomer } from './factories.ts';

const keyOf = (customer: TestCustomer, { kind, value }: LockedValue): string =>
  `values:${customer.id}:${crc32(`${kind}:${value}`) % 64}`;

/** Locks a value as a transaction does, until `release` is called. */
export async function holdValue(
  app: TestApp,
  customer: TestCustomer,
  value: LockedValue,
): Promise<{ release: () => Promise<void> }> {
  const session = await app.owner.reserve();
  await session`select pg_advisory_lock(hashtextextended(${keyOf(customer, value)}, 0))`;
  const release = async () => {
    await session`select pg_advisory_unlock_all()`;
    session.release();
  };
  return { release };
}

/** Returns true if a transaction holds the lock of a value. */
export async function isHeld(app: TestApp, customer: TestCustomer, value: LockedValue): Promise<boolean> {
  const [row] = await app.owner<{ is_free: boolean }[]>`
    select pg_try_advisory_xact_lock(hashtextextended(${keyOf(customer, value)}, 0)) as is_free`;
  return !row!.is_free;
}

/** Returns the number of transactions that wait for a value. */
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
