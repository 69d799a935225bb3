import { expect, test } from 'vitest';
import { startApp } from '../setup/app.ts';
import { grant, unique } from '../setup/factories.ts';
import { customerWith, verify } from './calls.ts';
import { readJournal } from '../setup/journal.ts';

const app = await startApp();

test('credits.low is told once for each grant, when less than a tenth of it can be spent', async () => {
  const customer = await customerWith(app, { verification: 50 });
  const start = async (count: number): Promise<string> => {
    const emails = Array.from({ length: count }, () => ({ email: `${unique('a')}@example.com` }));
    return (await verify(customer, { emails })).body.id;
  };
  const told = async () => {
    const rows = await readJournal(app.owner, customer.id);
    const events = rows.map(({ source, type, data }) => ({ type, source, ...data }));
    return events.filter(({ type }) => type === 'credits.low');
  };
  await start(45);
  expect(await told()).toEqual([]);
  const job = await start(1);
  const first = { type: 'credits.low', source: 'api', pool: 'verification', available: 4 };
  expect(await told()).toEqual([first]);
  await customer.post(`/service-handler/${job}/cancel`);
  await start(2);
  expect(await told()).toEqual([first]);
  await grant(app.fastify, customer.id, 'verification', 100);
  await start(100);
  expect(await told()).toEqual([first, { ...first, available: 3 }]);
});
