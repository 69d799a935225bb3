import { beforeEach, expect, test } from 'vitest';
import { startApp } from '../setup/app.ts';
import { makeList, type Answer, type TestCustomer } from '../setup/factories.ts';
let customer: TestCustomer;

const app = await startApp();
beforeEach(async () => {
  customer = await app.customer();
});

const rule = { field: 'job_title', operator: 'equals', value: 'Countess' };
const rules = (count: number) => Array.from({ length: count }, () => ({ ...rule, logic_operator: 'OR' }));

/** Inserts existing lists, each with this many rules. */
async function haveLists(count: number, rulesEach: number): Promise<string[]> {
  const rows = await app.owner<{ id: string }[]>`
    insert into lists (customer_id, name, owner_id, rules)
    select ${customer.id}, 'Kept', ${customer.adminId}, ${app.owner.json(rules(rulesEach))}
    from generate_series(1, ${count})
    returning id`;
  return rows.map(({ id }) => id);
}

const create = (count: number, headers?: Record<string, string>): Promise<Answer> =>
  customer.post('/list-contact', { name: 'New', rules: rules(count) }, headers);
const change = (id: string, count: number): Promise<Answer> =>
  customer.patch(`/list-contact/${id}`, { rules: rules(count) });
const duplicate = (id: string): Promise<Answer> =>
  customer.post('/list-contact/duplicate', { list_id: id, new_name: 'Copy' });

const state = async (): Promise<{ lists: number; rules: number }> => {
  const [row] = await app.owner<[{ lists: number; rules: number }]>`
    select count(*)::integer as lists, sum(jsonb_array_length(rules))::integer as rules
    from lists
    where customer_id = ${customer.id} and rules <> '[]'`;
  return row;
};

function expectConflict({ status, body }: Answer, path: string): void {
  expect({ status, code: body.code }).toEqual({ status: 409, code: 'conflict' });
  expect(body.errors.map((fault: { path: string }) => fault.path)).toEqual([path]);
}

test('of 500 lists with rules the last can be created, updated or duplicated by only one of several concurrent requests', async () => {
  const [first] = await haveLists(499, 1);
  const answers = await Promise.all([create(1), create(2), duplicate(first!), create(3)]);
  expect(answers.map(({ status }) => status).filter((status) => status < 300)).toHaveLength(1);
  expect(answers.filter(({ status }) => status === 409)).toHaveLength(3);
  expect((await state()).lists).toBe(500);
});

test('of 500 lists with rules no further one can be created, neither by adding rules to a list nor by a copy; nothing is written', async () => {
  const [first] = await haveLists(500, 1);
  const without = await makeList(app.fastify, customer);
  expectConflict(await create(1), '/rules');
  expectConflict(await change(without, 1), '/rules');
  expectConflict(await duplicate(first!), '/list_id');
  expect(await state()).toEqual({ lists: 500, rules: 500 });
  expect((await customer.get(`/list-contact/${without}`)).body.rules).toEqual([]);
});

test('of 500 lists with rules each can still be updated, and lists without rules can be created', async () => {
  const [first, second] = await haveLists(500, 1);
  expect((await change(first!, 2)).status).toBe(200);
  expect((await customer.post('/list-contact', { name: 'By hand' })).status).toBe(201);
  expect((await duplicate(await makeList(app.fastify, customer))).status).toBe(200);
  await customer.delete(`/list-contact/${first!}`);
  expect((await change(second!, 0)).status).toBe(200);
  expect([(await create(1)).status, (await create(1)).status]).toEqual([201, 201]);
  expectConflict(await create(1), '/rules');
});

test('an unknown list is 404, an outdated one 412, whatever the limits', async () => {
  const [first] = await haveLists(500, 10);
  const nobody = '0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b';
  expect((await change(nobody, 50)).status).toBe(404);
  expect((await duplicate(nobody)).status).toBe(404);
  const answer = await customer.patch(`/list-contact/${first!}`, { rules: rules(50) }, { 'if-match': '"other"' });
  expect(answer.status).toBe(412);
});
