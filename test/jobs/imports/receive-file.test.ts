import { describe, expect, test } from 'vitest';
import type { Database } from '../../../src/database/db.ts';
import { unavailable } from '../../../src/errors.ts';
import { receiveFile } from '../../../src/jobs/start-import.ts';
import { CallerHungUp } from '../../../src/access/credentials.ts';
import { allImports } from '../../../src/queries/jobs/imports.ts';
import { startApp } from '../../setup/app.ts';
import { beginImport, contactLines, contactsCsv, newContacts, sendFile, workAtAll } from '../importing.ts';

const app = await startApp();

describe('a file whose upload ends in an error', () => {
  test('is kept, without an error, if the upload was committed and only the answer to the commit was lost', async () => {
    const customer = await app.customer();
    const id = await beginImport(customer, newContacts);
    const losing = {
      ...app.db,
      transaction: async (work: Parameters<Database['transaction']>[0]) => {
        const result = await app.db.transaction(work);
        if ((await customer.get(`/imports/${id}`)).body.status !== 'UPLOADING') throw unavailable('The answer is lost');
        return result;
      },
    } as unknown as Database;
    await receive(losing, customer.id, id);
    await workAtAll(app, customer);
    expect((await customer.get(`/imports/${id}`)).body).toMatchObject({ status: 'COMPLETED', created: 3 });
  });

  test.each([
    ['a piece', 2],
    ['the end', 3],
  ])('is not started by the transaction of %s that commits after the clean-up', async (_name, number) => {
    const customer = await app.customer();
    const id = await beginImport(customer, newContacts);
    const cleaned = Promise.withResolvers<void>();
    let [begun, late] = [0, Promise.resolve() as Promise<unknown>];
    // The caller hangs up while this transaction runs: its call rejects, and the transaction continues.
    const hangingUp = {
      ...app.db,
      transaction: async (work: Parameters<Database['transaction']>[0]) => {
        begun += 1;
        if (begun !== number) return app.db.transaction(work);
        late = cleaned.promise.then(() => app.db.transaction(work)).catch((error: unknown) => error);
        throw new CallerHungUp();
      },
    } as unknown as Database;
    await expect(receive(hangingUp, customer.id, id)).rejects.toThrow('hung up');
    cleaned.resolve();
    await late;
    expect((await app.owner`select from import_chunks where customer_id = ${customer.id}`).count).toBe(0);
    expect((await customer.get(`/imports/${id}`)).body.status).toBe('UPLOADING');
    expect((await sendFile(customer, id, contactsCsv(...contactLines(2)))).status).toBe(200);
    await workAtAll(app, customer);
    expect((await customer.get(`/imports/${id}`)).body).toMatchObject({ status: 'COMPLETED', created: 2 });
  });

  async function receive(db: Database, customerId: string, id: string): Promise<void> {
    async function* pieces(): AsyncGenerator<Buffer> {
      yield Buffer.from(contactsCsv(...contactLines(3)));
    }
    await receiveFile({ db, cleaner: app.db }, customerId, { id, visible: allImports }, pieces());
  }
});
