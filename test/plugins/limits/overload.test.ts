import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, expect, test } from 'vitest';
import { buildApp } from '../../../src/app.ts';
import { startApp } from '../../setup/app.ts';
import { contactBody, inject, make, type TestCustomer } from '../../setup/factories.ts';

const testApp = await startApp();
const app = buildApp({ config: { ...testApp.config, OVERLOAD_MS: 50 }, db: testApp.db, catalog: testApp.catalog });
afterAll(() => app.close());

const call = ({ key }: TestCustomer, method: string, path: string, body: object) =>
  inject(app, method, `/api/ext${path}`, body, { authorization: `X-API-Key ${key}` });
const list = (customer: TestCustomer) => call(customer, 'POST', '/contacts/list', {});

/** Blocks the event loop. */
function stall(ms: number): void {
  for (const end = performance.now() + ms; performance.now() < end;);
}

test('during an event loop stall only customers with other requests in flight are rejected, and no health checks', async () => {
  const [busy, gentle] = [await testApp.customer(), await testApp.customer()];
  const id = await make(busy, '/contacts', contactBody());
  const session = await testApp.owner.reserve();
  await session`begin`;
  await session`select from contacts where customer_id = ${busy.id} and id = ${id} for update`;
  const inFlight = call(busy, 'PATCH', `/contacts/${id}`, { job_title: 'a' });
  await expect.poll(() => app.inFlight.heldBy(busy.id), { timeout: 10_000 }).toBe(1);

  const refused = async () => {
    stall(300);
    await sleep(1); // the event loop runs, and its delay is measured
    const [one, other] = await Promise.all([list(busy), list(gentle)]);
    expect(other.status).toBe(200);
    const probes = await Promise.all(['/readyz', '/readyz', '/healthz'].map((path) => inject(app, 'GET', path)));
    expect(probes.map(({ status }) => status)).toEqual([200, 200, 200]);
    return one.body.message as unknown;
  };
  await expect.poll(refused, { interval: 10 }).toBe('The service is overloaded');

  await session`rollback`;
  session.release();
  expect((await inFlight).status).toBe(200);
  await expect.poll(async () => (await list(busy)).status, { timeout: 10_000 }).toBe(200);
});
