import { afterEach, expect, test } from 'vitest';
import { watchFeeds } from '../../../src/jobs/webhooks/watch-feeds.ts';
import { findLongestWaiting } from '../../../src/queries/webhooks/due.ts';
import { startApp } from '../../setup/app.ts';
import { contextOf } from '../working.ts';
import { loopback, makeEndpoint, record } from './receivers.ts';

const app = await startApp({ ...loopback });
afterEach(() => app.owner`delete from webhook_endpoints`);

/** Creates a customer with endpoints that have an event to get. Returns its id. */
async function customerWith(endpoints: number): Promise<string> {
  const { id } = await app.customer();
  for (let i = 0; i < endpoints; i += 1) await makeEndpoint(app, id, 'https://receiver.example.com/');
  await record(app, id, [['contact.created']]);
  return id;
}

test('turns of endpoints that work come before those of other endpoints, except for the two that have waited longest', async () => {
  const fresh: string[] = [];
  for (const minutes of [1, 2, 3, 4]) {
    const id = await customerWith(1);
    fresh.push(id);
    const servedAt = new Date(Date.now() - minutes * 60_000);
    await app.owner`update webhook_endpoints set served_at = ${servedAt} where customer_id = ${id}`;
  }
  const working = await customerWith(1);
  await app.owner`update webhook_endpoints set last_success_at = now() where customer_id = ${working}`;
  const watch = watchFeeds(contextOf(app));
  const turns = () => app.owner<{ priority: number; id: string }[]>`
    select priority, data ->> 'customerId' as id
    from pgboss.job
    where name = 'webhooks'`;
  await expect.poll(async () => (await turns()).length).toBe(5);
  await watch.stop();
  const urgent = (await turns()).filter(({ priority }) => priority > 0).map(({ id }) => id);
  expect(urgent.toSorted()).toEqual([working, ...fresh.slice(2)].toSorted());
});

test('a customer of whom no endpoint was served yet comes before one with more endpoints', async () => {
  const many = await customerWith(3);
  await app.owner`
    update webhook_endpoints
    set served_at = now(), leased_until = now() + interval '1 minute', lease = ${many}
    where customer_id = ${many}
      and id = (select id from webhook_endpoints where customer_id = ${many} limit 1)`;
  const one = await customerWith(1);
  expect(await findLongestWaiting(app.db, 'new', 10)).toEqual([one, many]);
  expect(await findLongestWaiting(app.db, 'new', 1)).toEqual([one]);
});
