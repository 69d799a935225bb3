import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { startApp } from '../setup/app.ts';
import { companyBody, contactBody, type Answer, type TestCustomer } from '../setup/factories.ts';
import { readTotalsOf } from '../setup/journal.ts';
import { seed } from '../setup/seed.ts';

// A batch leaves what the same items leave that are sent one by one. Two customers start alike; one gets batches, the other
// single calls; ids differ, so records are compared by the order in which they were created.

type Json = any; // eslint-disable-line typescript/no-explicit-any -- tests read any field of responses

const app = await startApp();

let state = seed;
const random = (): number => {
  state = (state + 0x6d2b79f5) | 0;
  let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
  mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
  return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
};
const whole = (below: number): number => Math.floor(random() * below);
const oneOf = <T>(values: readonly T[]): T => values[whole(values.length)]!;
const sometimes = <T>(share: number, value: () => T): T[] => (random() < share ? [value()] : []);

const paths = { contact: '/contacts', company: '/company' } as const;
type Noun = keyof typeof paths;

/** A customer with its records in the order of their creation. */
interface World {
  customer: TestCustomer;
  lists: string[];
}

async function newWorld(): Promise<World> {
  const customer = await app.customer();
  const rules = [
    [],
    [{ field: 'company.name', operator: 'contains', value: 'engine' }],
    [{ field: 'work_email', operator: 'starts_with', value: 'a' }],
    [{ field: 'custom_fields.tier', operator: 'equals', value: 'gold' }],
  ];
  const lists: string[] = [];
  for (const [i, one] of rules.entries())
    lists.push((await customer.post('/list-contact', { name: `L${i}`, rules: one })).body.id);
  return { customer, lists };
}

/** Returns the ids of all records of a kind, oldest first. */
const idsOf = async ({ customer }: World, noun: Noun): Promise<string[]> =>
  (
    await app.owner<{ id: string }[]>`
      select id from ${app.owner(noun === 'contact' ? 'contacts' : 'companies')}
      where customer_id = ${customer.id} ${noun === 'company' ? app.owner`and deleted_at is null` : app.owner``}
      order by id`
  ).map(({ id }) => id);

/** Stands in an item for the id of a record: its position among all, so that both customers get their own. */
class At {
  readonly noun: Noun | 'list';
  readonly position: number;

  constructor(noun: Noun | 'list', position: number) {
    this.noun = noun;
    this.position = position;
  }
}

interface Ids {
  contact: string[];
  company: string[];
  list: string[];
}

/** Returns an item with the ids of one customer. A position past the last record gives an unknown id. */
function withIds(value: unknown, ids: Ids): unknown {
  if (value instanceof At) return ids[value.noun][value.position] ?? '0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b';
  if (Array.isArray(value)) return value.map((one) => withIds(one, ids));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, withIds(one, ids)]));
}

const emails = ['ada@example.com', 'Ada@Example.com', 'bob@example.com', 'àda@example.com', 'carl@example.com'];
const externalIds = ['x-1', 'x-2', 'X-1', 'x-3', 'x-4', 'x-5'];
const names = ['Analytical Engines', 'analytical éngines', 'Babbage', 'Lovelace & Co', 'Engine Works'];

/** Fields that can be sent with each call of a kind, valid or not. */
const fieldsOf: Record<Noun, (count: Ids) => Json> = {
  contact: (ids) => ({
    ...part('first_name', 0.3, () => oneOf(['Ada', ' Ada ', 'Bob'])),
    ...part('work_email', 0.3, () => oneOf(emails)),
    ...part('score', 0.2, () => oneOf([1, 50, 100])),
    ...part('external_id', 0.4, () => oneOf([...externalIds, null])),
    ...part('company', 0.5, () =>
      oneOf([null, { name: oneOf(names) }, { name: oneOf(names), industry: 'Computing' }, { id: at('company', ids) }]),
    ),
    ...part('list_ids', 0.3, () => Array.from({ length: whole(3) }, () => new At('list', whole(4)))),
    ...part('custom_fields', 0.3, () => ({ tier: oneOf(['gold', 'Gold', null, 7, true]), note: oneOf(['a', null]) })),
    ...part('assigned_to', 0.1, () => null),
    ...part('location_country', 0.1, () => oneOf(['gb', 'DE'])),
    ...part('list_ids', 0.03, () => [new At('list', 99)]),
    ...part('assigned_to', 0.03, () => randomUUID()),
    ...wrong(),
  }),
  company: () => ({
    ...part('company_name', 0.4, () => oneOf([...names, ' Babbage '])),
    ...part('industry', 0.3, () => oneOf(['Computing', ''])),
    ...part('size', 0.2, () => oneOf(['1-10', ''])),
    ...part('external_id', 0.4, () => oneOf([...externalIds, null])),
    ...part('custom_fields', 0.3, () => ({ tier: oneOf(['gold', null]), note: oneOf(['a', null]) })),
    ...wrong(),
  }),
};

const at = (noun: Noun, ids: Ids): At => new At(noun, whole(ids[noun].length + 1));
const part = (name: string, share: number, value: () => unknown): Json =>
  Object.fromEntries(sometimes(share, () => [name, value()]));
const wrong = (): Json => ({
  ...part('unknown_field', 0.02, () => 1),
  ...part('industry_type', 0.01, () => 'x'),
  ...part('custom_fields', 0.02, () => ({ a: 'b\0c' })),
});

const newBody: Record<Noun, () => Json> = {
  contact: () => contactBody({ work_email: oneOf(emails) }),
  company: () => companyBody({ company_name: oneOf(names) }),
};

type Operation = 'create' | 'update' | 'upsert' | 'delete';
type Match = 'id' | 'external_id' | 'work_email';

function newItem(noun: Noun, operation: Operation, match: Match, ids: Ids): unknown {
  if (random() < 0.03) return oneOf([null, 'x', 7, [], {}]);
  const value = { id: () => at(noun, ids), external_id: () => oneOf(externalIds), work_email: () => oneOf(emails) }[
    match
  ]();
  if (operation === 'create') return { ...newBody[noun](), ...withoutNulls(fieldsOf[noun](ids)) };
  if (operation === 'delete') return { [match]: value };
  const isWhole = operation === 'upsert' && random() < 0.7;
  return { ...(isWhole ? newBody[noun]() : {}), ...fieldsOf[noun](ids), [match]: value };
}

const withoutNulls = (value: Json): Json =>
  typeof value !== 'object' || value === null || Array.isArray(value) || value instanceof At
    ? value
    : Object.fromEntries(
        Object.entries(value).flatMap(([name, one]) => (one === null ? [] : [[name, withoutNulls(one)]])),
      );

/** What became of an item. */
interface Result {
  status: string;
  code?: string;
}

const failed = (code: string): Result => ({ status: 'failed', code });
const resultOf = ({ status, body }: Answer, ok: string): Result => (status < 300 ? { status: ok } : failed(body.code));

/** Sends one item by the calls for one record, as a caller would who has no batches. */
async function sendSingle(world: World, noun: Noun, operation: Operation, match: Match, item: Json, seen: Set<string>) {
  const { customer } = world;
  const path = paths[noun];
  if (typeof item !== 'object' || item === null || Array.isArray(item)) return failed('validation_failed');
  if (operation === 'create') return resultOf(await customer.post(path, item), 'created');
  const { [match]: value, ...fields } = item;
  const isValid =
    (
      await customer.patch(`${path}/${randomUUID()}`, {
        ...(operation === 'delete' ? {} : fields),
        ...(match === 'id' ? {} : { [match]: value }),
      })
    ).status !== 400;
  if (!isValid || value === undefined) return failed('validation_failed');
  const canonical = match === 'work_email' ? fold(value) : value;
  if (seen.has(canonical)) return failed('conflict');
  seen.add(canonical);
  const found = await findBy(world, noun, match, value);
  if (found.length > 1) return failed('conflict');
  const [id] = found;
  if (id === undefined) {
    if (operation !== 'upsert') return failed('not_found');
    if (Object.keys(newBody[noun]()).every((name) => name in item))
      return resultOf(await customer.post(path, withoutNulls(item)), 'created');
    // A single create needs more than an item does.
    const [{ status, error }] = (await customer.post(`${path}/batch/create`, { items: [withoutNulls(item)] })).body.data
      .results;
    return status === 'failed' ? failed(error.code) : { status };
  }
  if (operation === 'delete') return resultOf(await customer.delete(`${path}/${id}`), 'deleted');
  const before = await stateOf(world, noun, id);
  const answer = await customer.patch(`${path}/${id}`, fields);
  const after = await stateOf(world, noun, id);
  return resultOf(answer, JSON.stringify(before) === JSON.stringify(after) ? 'unchanged' : 'updated');
}

const fold = (text: string): string => text.normalize('NFD').replaceAll(/\p{M}/gu, '').toLowerCase();

async function findBy({ customer }: World, noun: Noun, match: Match, value: string): Promise<string[]> {
  if (match === 'id') return (await idsOf({ customer, lists: [] }, noun)).filter((id) => id === value);
  const { body } = await customer.post(`${paths[noun]}/list`, { filters: { [match]: value } });
  return body.map(({ id }: { id: string }) => id);
}

const withoutTimes = ({ updated_at: _u, created_at: _c, last_verified: _v, ...fields }: Json): Json => fields;

const stateOf = async ({ customer }: World, noun: Noun, id: string): Promise<Json> =>
  withoutTimes((await customer.get(`${paths[noun]}/${id}`)).body);

/** Reads everything that a customer has, with positions in the place of ids. */
async function wholeState(world: World): Promise<Json> {
  const { customer, lists } = world;
  const ids: Ids = { contact: await idsOf(world, 'contact'), company: await idsOf(world, 'company'), list: lists };
  const positions = new Map(
    Object.entries(ids).flatMap(([noun, all]) => (all as string[]).map((id, i) => [id, `${noun} ${i}`])),
  );
  const named = (value: Json): Json => {
    if (typeof value === 'string') return positions.get(value) ?? value;
    if (Array.isArray(value)) return value.map(named);
    if (typeof value !== 'object' || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, named(one)]));
  };
  const records = async (noun: Noun) => Promise.all(ids[noun].map((id) => stateOf(world, noun, id)));
  const members = await app.owner`
    select list_id, contact_id from list_members
    where customer_id = ${customer.id} order by list_id, contact_id`;
  return {
    contacts: named((await records('contact')).map((one) => ({ ...one, list_ids: one.list_ids.toSorted() }))),
    companies: named(await records('company')),
    members: named(members)
      .map((one: Json) => JSON.stringify(one))
      .toSorted(),
    totals: await readTotalsOf(app.owner, customer.id),
  };
}

test('a batch leaves what its items leave that are sent one by one, and says the same of each', async () => {
  const [batched, single] = [await newWorld(), await newWorld()];
  for (let round = 0; round < 45; round += 1) {
    const noun = oneOf(['contact', 'contact', 'company'] as const);
    const operation = oneOf(['create', 'update', 'update', 'upsert', 'upsert', 'delete'] as const);
    const usable: Match[] = noun === 'contact' ? ['external_id', 'work_email', 'id'] : ['external_id', 'id'];
    const match = oneOf(usable.filter((one) => operation !== 'upsert' || one !== 'id'));
    const count = {
      contact: await idsOf(batched, 'contact'),
      company: await idsOf(batched, 'company'),
      list: batched.lists,
    };
    const length = 1 + whole(operation === 'delete' ? 4 : 20);
    const items = Array.from({ length }, () => newItem(noun, operation, match, count));
    const what = `SEED=${seed}, round ${round}: ${noun} ${operation} by ${match}`;

    const body = { items: withIds(items, count), ...(operation === 'create' ? {} : { match }) };
    const answer = await batched.customer.post(`${paths[noun]}/batch/${operation}`, body);
    expect(answer.status, `${what} ${JSON.stringify(answer.body)}`).toBe(200);
    const own = {
      contact: await idsOf(single, 'contact'),
      company: await idsOf(single, 'company'),
      list: single.lists,
    };
    const seen = new Set<string>();
    const expected: Result[] = [];
    for (const item of withIds(items, own) as unknown[])
      expected.push(await sendSingle(single, noun, operation, match, item, seen));

    const results: Result[] = answer.body.data.results.map(({ status, error }: Json) =>
      error ? { status, code: error.code } : { status },
    );
    expect(results, `${what} ${JSON.stringify(items, undefined, 1)}`).toEqual(expected);
    expect(answer.body.success, what).toBe(results.every(({ status }) => status !== 'failed'));
    expect(await wholeState(batched), `${what} ${JSON.stringify(items)}`).toEqual(await wholeState(single));
  }
}, 120_000);
