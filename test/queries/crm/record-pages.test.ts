import { expect, test } from 'vitest';
import { countContactsUpTo } from '../../../src/queries/crm/contacts.ts';
import { startApp } from '../../setup/app.ts';
import { contactBody } from '../../setup/factories.ts';

const app = await startApp();

test('a search of the newest records that is repeated is prepared, and returns the same with other values', async () => {
  const customer = await app.customer();
  for (const [i, country] of ['DE', 'FR', 'DE'].entries())
    await customer.post(
      '/contacts',
      contactBody({ first_name: `Ann ${i}`, location_country: country, industry: 'Software' }),
    );
  const namesIn = async (location_country: string): Promise<string[]> => {
    const { body } = await customer.post('/contacts/list', { filters: { location_country, industry: 'software' } });
    return body.map(({ first_name }: { first_name: string }) => first_name);
  };
  const all = [['Ann 2', 'Ann 0'], ['Ann 1']];
  expect([await namesIn('de'), await namesIn('fr')]).toEqual(all);
  for (let i = 0; i < 10; i += 1) await namesIn('de');
  const db = app.db.for({ customerId: customer.id }, null);
  const prepared = await db.search((sql) => sql`select statement from pg_prepared_statements`);
  expect(prepared.map(({ statement }) => statement)).toContainEqual(expect.stringContaining('location_country'));
  expect([await namesIn('de'), await namesIn('fr')]).toEqual(all);
});

test('a count up to a number is exact below it and ends above it, of few and of many records', async () => {
  const customer = await app.customer();
  const items = Array.from({ length: 90 }, (_, i) =>
    contactBody({ first_name: `Ann ${i}`, industry: i % 3 === 0 ? 'Retail' : 'Software' }),
  );
  expect((await customer.post('/contacts/batch/create', { items })).status).toBe(200);
  const countOf = (industry: string) =>
    Promise.all([10, 59, 60, 100].map((most) => countContactsUpTo(app.db, customer.id, { industry }, most)));
  expect([await countOf('software'), await countOf('retail')]).toEqual([
    [11, 60, 60, 60],
    [11, 30, 30, 30],
  ]);
  expect(await countContactsUpTo(app.db, customer.id, { search: 'ann 8' }, 100)).toBe(18);
});
