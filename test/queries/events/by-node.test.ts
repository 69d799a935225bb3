import { expect, test } from 'vitest';
import type { SharedDatabase } from '../../../src/database/db.ts';
import { unavailable } from '../../../src/errors.ts';
import { findLongestWaiting } from '../../../src/queries/webhooks/due.ts';
import { makeEndpoint, record } from '../../jobs/webhooks/receivers.ts';
import { startApp } from '../../setup/app.ts';

const app = await startApp();

/** The database as if each customer had a node of its own, and those of these customers did not respond. */
const byNodes = (down: readonly string[]): SharedDatabase => ({
  ...app.db,
  nodes: [{ node: 'one', isUp: true }],
  groupByNode: async (ids) => ids.map((id) => [id]),
  for: (requester, source) => {
    if (!down.includes(requester.customerId)) return app.db.for(requester, source);
    const fail = () => Promise.reject(unavailable('The node is down'));
    return { lookup: fail, search: fail, transaction: fail };
  },
});

test('a node that is down hides the work of its own customers only', async () => {
  const [one, two] = [await app.customer(), await app.customer()];
  for (const { id } of [one, two]) {
    await makeEndpoint(app, id, 'https://receiver.example.com/');
    await record(app, id, [['contact.created']]);
  }
  const waiting = (db: SharedDatabase) => findLongestWaiting(db, 'new', 10);
  const both = [one.id, two.id].toSorted();
  expect((await waiting(app.db)).toSorted()).toEqual(both);
  expect((await waiting(byNodes([]))).toSorted()).toEqual(both);
  expect(await waiting(byNodes([one.id]))).toEqual([two.id]);
  expect(await waiting(byNodes(both))).toEqual([]);
});
