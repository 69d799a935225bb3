import { beforeEach, expect, test } from 'vitest';
import { takeTurn } from '../../src/jobs/turns.ts';
import { customerOfEachTest, startApp } from '../setup/app.ts';
import { beginImport, contactLines, contactsCsv, sendFile } from './importing.ts';
import { contextOf } from './working.ts';

const app = await startApp();
const context = contextOf(app);
let id: string;

const customer = customerOfEachTest(app);
beforeEach(async () => {
  id = await beginImport(customer);
  await sendFile(customer, id, contactsCsv(...contactLines(3)));
});

test('an import that fails five times in a row becomes FAILED, shows no internal cause and loses its file', async () => {
  const broken = takeTurn('import', { import: () => Promise.reject(new Error('secret cause')) }, 0);
  for (let failures = 0; failures < 5; failures += 1) {
    const [before] = await app.owner`select failures from imports where id = ${id}`;
    expect(before).toEqual({ failures });
    await broken(context, { customerId: customer.id });
    await broken(context, { customerId: customer.id }); // does nothing: the import waits after its error
    await app.owner`update imports set due_at = now() where id = ${id}`;
  }
  const { body } = await customer.get(`/imports/${id}`);
  expect(body).toMatchObject({
    status: 'FAILED',
    error: expect.stringMatching(/^The import .* error of the service$/),
  });
  expect(await app.owner`select from import_chunks where import_id = ${id}`).toHaveLength(0);
});
