import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { failurePages, sendBytes, workAtAll, type Failure } from '../jobs/importing.ts';
import { startApp } from '../setup/app.ts';
import type { TestCustomer } from '../setup/factories.ts';

const app = await startApp();

const failuresOf = async (customer: TestCustomer, id: string): Promise<Failure[]> =>
  (await failurePages(customer, id, 100)).flat();

/** What becomes of a small file that somebody has reported. */
interface Reported {
  file: string;
  settings?: object;
  /** Of the records, in their order. */
  stored: object[];
  /** Of the import; by default all is written without a warning. */
  counts?: object;
  /** Texts that each of the `failures` holds, in their order. */
  said?: (string | string[])[];
}

const read = (name: string) => readFileSync(new URL(name, import.meta.url));
const reported: Reported[] = JSON.parse(read('reported.json').toString());

describe('a file that somebody has reported is read as people expect', () => {
  test.each(reported)('$file', async ({ file, settings, stored, counts = {}, said = [] }) => {
    const customer = await app.customer();
    const wanted = { object: 'contacts', mode: 'create', guess: true, ...settings };
    const id = await sendBytes(customer, wanted, read(`inputs/${file}`));
    await workAtAll(app, customer);
    const done = (await customer.get(`/imports/${id}`)).body;
    const failures = await failuresOf(customer, id);
    expect(done, JSON.stringify(failures)).toMatchObject({
      status: 'COMPLETED',
      error: null,
      total: stored.length,
      created: stored.length,
      warnings: 0,
      ...counts,
    });
    const rows = await app.owner`
      select c.*, o.company_name from contacts c
      left join companies o on o.customer_id = c.customer_id and o.id = c.company_id
      where c.customer_id = ${customer.id}
      order by c.id`;
    const companies = await app.owner`select * from companies where customer_id = ${customer.id} order by id`;
    expect('object' in wanted && wanted.object === 'companies' ? companies : rows).toMatchObject(stored);
    expect(failures).toHaveLength(said.length);
    for (const [i, texts] of said.entries())
      for (const text of [texts].flat()) expect(failures[i]!.warning).toContain(text);
  });
});
