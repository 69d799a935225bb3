import { describe, expect, test } from 'vitest';
import { loadDemo } from '../../src/commands/load-demo.ts';
import { startApp } from '../setup/app.ts';
import { inject } from '../setup/factories.ts';

const app = await startApp();
const demo = await loadDemo(app);

const call = async (method: string, path: string, body?: unknown) =>
  (await inject(app.fastify, method, `/api/ext${path}`, body, { authorization: `X-API-Key ${demo.key}` })).body;

describe('the demo customer', () => {
  test('has contacts in every list, by rules and by hand', async () => {
    const lists = await call('POST', '/list-contact/list', {});
    expect(lists.map(({ source }: { source: string }) => source).toSorted()).toEqual([
      'MANUAL',
      'RULES',
      'RULES',
      'RULES',
    ]);
    for (const { contacts_count } of lists) expect(contacts_count).toBeGreaterThan(10);
  });

  test('has opportunities with products in every stage of its pipeline', async () => {
    const [pipeline] = await call('GET', '/pipelines');
    const stages = await call('POST', '/stages/list', { pipeline_id: pipeline.id });
    expect(stages).toHaveLength(6);
    for (const { total_opportunities } of stages) expect(total_opportunities).toBeGreaterThan(2);
    expect(await call('POST', '/products/list', {})).toHaveLength(6);
  });

  test('has activities of every type, and tasks that are done, late and to come', async () => {
    const total = async (filters: object) =>
      (await call('POST', '/activities/metadata', { filters })).pagination.total_records;
    for (const type of ['note', 'task', 'call', 'meeting', 'email']) expect(await total({ type })).toBeGreaterThan(5);
    expect(await total({ is_done: true })).toBeGreaterThan(1);
    expect(await total({ is_overdue: true })).toBeGreaterThan(1);
    expect(await total({ is_done: false, is_overdue: false })).toBeGreaterThan(1);
  });

  test('has a catalog, and a job that spends some of its credits', async () => {
    expect(demo.prospects).toBe(5_000);
    expect(await call('POST', '/service-handler/list', {})).toMatchObject([
      { type: 'unlock_contacts', total: 60, credits: { reserved: 60 } },
    ]);
    expect(await call('GET', '/customer/credits')).toMatchObject({ subscription: { balance: 940, reserved: 60 } });
  });
});

describe('beside another customer the demo', () => {
  test('is not loaded, and nothing is changed', async () => {
    const other = await startApp();
    await other.customer();
    await expect(loadDemo(other)).rejects.toThrow('holds another customer');
    expect(await other.owner`select from customers`).toHaveLength(1);
    expect(await other.owner`select from prospects`).toHaveLength(0);
  });

  test('is loaded by force without its catalog, and the second time changes nothing', async () => {
    const other = await startApp();
    await other.customer();
    const first = await loadDemo(other, true);
    expect(first).toMatchObject({ created: true, prospects: 0 });
    const before = await other.owner`select password_hash from users order by id`;
    const again = { customerId: first.customerId, created: false, password: null, key: null, prospects: null };
    expect(await loadDemo(other, true)).toMatchObject(again);
    expect(await other.owner`select password_hash from users order by id`).toEqual(before);
    expect(await other.owner`select from prospects`).toHaveLength(0);
  });
});
