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
