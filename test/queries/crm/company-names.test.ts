import { crc32 } from 'node:zlib';
import { expect, test } from 'vitest';
import { lockForBatches } from '../../../src/queries/imports/import-locks.ts';
import { patient, startApp } from '../../setup/app.ts';
import { contactBody, make, type TestCustomer } from '../../setup/factories.ts';

const app = await startApp(patient);

const nameLock = (customer: TestCustomer, name: string): string =>
  `values:${customer.id}:${crc32(`company_name:${name}`) % 64}`;

/** Locks the name of a company that does not exist yet, until `release` is called. */
async function lockName(customer: TestCustomer, name: string): Promise<{ release: () => Promise<void> }> {
  const session = await app.owner.reserve();
  await session`select pg_advisory_lock(hashtextextended(${nameLock(customer, name)}, 0))`;
  const release = async () => {
    await session`select pg_advisory_unlock_all()`;
    session.release();
  };
  return { release };
}

const waiting = async (): Promise<number> => {
  const locks = await app.db.search(
    (sql) => sql`
      select from pg_locks
      where locktype = 'advisory'
        and not granted
        and database = (select oid from pg_database where datname = current_database())`,
  );
  return locks.count;
};

test('two writes that find a company while it is renamed do not create it again', async () => {
  const customer = await app.customer();
  const acme = await make(customer, '/company', { company_name: 'Acme', type: 'x' });
  const locks = [await lockName(customer, 'bolt'), await lockName(customer, 'coil')];
  const create = (name: string) =>
    customer.post('/contacts/batch/create', {
      items: ['Acme', name].map((company) => contactBody({ company: { name: company } })),
    });
  // Both find Acme, then wait for the name of their other company.
  const [first, second] = [create('Bolt'), create('Coil')];
  await expect.poll(waiting, { timeout: 20_000 }).toBe(2);
  expect((await customer.patch(`/company/${acme}`, { company_name: 'Zenith' })).status).toBe(200);
  for (const lock of locks) await lock.release();
  for (const { body } of await Promise.all([first, second])) expect(body.data.counts.created).toBe(2);
  const { body: companies } = await customer.post('/company/list', {});
  expect(companies.map(({ company_name }: { company_name: string }) => company_name).toSorted()).toEqual([
    'Bolt',
    'Coil',
    'Zenith',
  ]);
  const { body: contacts } = await customer.post('/contacts/list', { filters: { company_id: acme } });
  expect(contacts).toHaveLength(2);
});

test('several batches of one transaction lock all names at once, also of companies that are renamed meanwhile', async () => {
  const customer = await app.customer();
  const acme = await make(customer, '/company', { company_name: 'Acme', type: 'x' });
  const bolt = await lockName(customer, 'bolt');
  const items = ['Acme', 'Bolt'].map((company) => contactBody({ company: { name: company } }));
  const transaction = app.db.transaction(async (sql) => {
    await lockForBatches(sql, customer.id, { object: 'contacts', match: null }, items);
    // A later batch does not find Acme, and must not have to wait for this name.
    const [other] = await app.owner<{ is_free: boolean }[]>`
      select pg_try_advisory_xact_lock(hashtextextended(${nameLock(customer, 'acme')}, 0)) as is_free`;
    return other!.is_free;
  });
  await expect.poll(waiting, { timeout: 20_000 }).toBe(1);
  expect((await customer.patch(`/company/${acme}`, { company_name: 'Zenith' })).status).toBe(200);
  await bolt.release();
  expect(await transaction).toBe(false);
});
