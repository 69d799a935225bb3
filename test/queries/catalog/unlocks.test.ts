import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { insertUnlocks, markIndexed, findUnindexedUnlocks, type UnlockKey } from '../../../src/queries/jobs/unlocks.ts';
import { startApp } from '../../setup/app.ts';

const { db } = await startApp();

test('callers that mark the same unlocks concurrently, in any order, never deadlock', async () => {
  const customers = Array.from({ length: 3 }, () => randomUUID());
  for (let round = 0; round < 8; round += 1) {
    const prospects = Array.from({ length: 150 }, () => randomUUID());
    for (const customer of customers) await db.transaction((sql) => insertUnlocks(sql, customer, prospects));
    const unlocks = await db.lookup((sql) => findUnindexedUnlocks(sql, prospects));
    expect(unlocks).toHaveLength(450);
    const shuffled = (): UnlockKey[] => unlocks.toSorted(() => Math.random() - 0.5);
    await Promise.all(Array.from({ length: 6 }, () => db.transaction((sql) => markIndexed(sql, shuffled()))));
    expect(await db.lookup((sql) => findUnindexedUnlocks(sql, prospects))).toEqual([]);
  }
});
