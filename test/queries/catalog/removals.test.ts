import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { insertRemovals, listRemovals } from '../../../src/queries/jobs/privacy.ts';
import { startApp } from '../../setup/app.ts';
import { somebodyWaitsFor } from '../../setup/locks.ts';

const app = await startApp();

test('who asks for removals since the latest one that is known misses none that is committed later', async () => {
  const { id: customerId } = await app.customer();
  const db = app.db.for({ customerId }, 'command');
  const ids = [randomUUID(), randomUUID()];
  const erase = (id: string) => db.transaction((sql) => insertRemovals(sql, customerId, [id], new Map()));
  const list = async (since?: string) =>
    (await listRemovals(db, customerId, since === undefined ? {} : { since })).rows;
  const { known, second } = await db.transaction(async (sql) => {
    await insertRemovals(sql, customerId, [ids[0]!], new Map());
    const erasing = erase(ids[1]!);
    await Promise.race([erasing, somebodyWaitsFor(sql, app.owner)]);
    return { known: await list(), second: erasing };
  });
  await second;
  const later = await list(known[0]?.removed_at);
  expect(new Set([...known, ...later].map(({ id }) => id))).toEqual(new Set(ids));
});
