import { expect, test } from 'vitest';
import { countContactsUpTo } from '../../../src/queries/crm/contacts.ts';
import { startApp } from '../../setup/app.ts';
import { contactBody } from '../../setup/factories.ts';

const app = await startApp();

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
