import { beforeAll, expect, test } from 'vitest';
import { turnQueues } from '../../src/jobs/workers.ts';
import { contextOf } from '../jobs/working.ts';
import { customerOfEachTest, startApp } from '../setup/app.ts';
import { contactBody, unique, type Answer, type TestCustomer } from '../setup/factories.ts';
import { addTotals } from '../setup/journal.ts';

const app = await startApp();
const customer = customerOfEachTest(app);
const other = await app.customer();
const absent = '0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b';

const makeContact = async (more: object = {}, by = customer): Promise<string> =>
  (await by.post('/contacts', contactBody(more))).body.data.id;
const makeList = async (more: object = {}, by = customer): Promise<string> => {
  const answer = await by.post('/list-contact', { name: unique('List'), ...more });
  expect(answer.status, JSON.stringify(answer.body)).toBe(201);
  return answer.body.id;
};
const read = async (id: string, by = customer) => (await by.get(`/list-contact/${id}`)).body;
const count = async (id: string, by = customer): Promise<number> => (await read(id, by)).contacts_count;
const membersOf = async (id: string, by = customer): Promise<string[]> => {
  const answer = await by.post('/contacts/list', { filters: { list_id: id }, paginate: { limit: 100 } });
  expect(answer.status).toBe(200);
  return answer.body.map((contact: { id: string }) => contact.id).toSorted();
};
const rule = (field: string, operator: string, value: string, logic_operator?: string) => ({
  field,
  operator,
  value,
  ...(logic_operator === undefined ? {} : { logic_operator }),
});
const instant = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);

test('a created list is returned as {id, name} with 201, and shows every field of the contract when read, the first rule with AND', async () => {
  const answer = await customer.post('/list-contact', {
    name: ' Engineers  ',
    description: 'All of them',
    rules: [rule('job_title', 'is_empty', '', 'OR'), rule('score', 'equals', '7')],
  });
  expect(answer).toMatchObject({ status: 201, body: { id: expect.any(String), name: 'Engineers' } });
  expect(Object.keys(answer.body).toSorted()).toEqual(['id', 'name']);
  const { id } = answer.body;
  expect(await read(id)).toEqual({
    id,
    name: 'Engineers',
    description: 'All of them',
    owner_id: customer.adminId,
    owner_name: 'Admin',
    source: 'RULES',
    collaborators: [],
    rules: [rule('job_title', 'is_empty', '', 'AND'), rule('score', 'equals', '7', 'AND')],
    contacts_count: 0,
    created_at: instant,
    updated_at: instant,
  });
  await customer.patch(`/list-contact/${id}`, { rules: [] });
  expect(await read(id)).toMatchObject({ source: 'MANUAL', rules: [] });
});

const refused: [string, object[], paths: string[], says?: string][] = [
  ['an unknown field', [rule('nose', 'equals', 'x')], ['/rules/0/field'], 'job_title'],
  ['a list as field', [rule('list_id', 'equals', absent)], ['/rules/0/field']],
  ['an unknown operator', [rule('score', 'like', '1')], ['/rules/0/operator'], 'not_equals'],
  ['an operator that does not fit', [rule('score', 'contains', '1')], ['/rules/0/operator'], 'greater_than'],
  ['text for a number', [rule('score', 'equals', 'many')], ['/rules/0/value']],
  ['a bare date', [rule('created_at', 'greater_than', '2026-01-01')], ['/rules/0/value']],
  ['no value', [{ field: 'job_title', operator: 'contains' }], ['/rules/0/value'], 'is required'],
  ['a value that is not a string', [{ ...rule('score', 'equals', ''), value: 5 }], ['/rules/0/value']],
  ['a value too long', [rule('job_title', 'equals', 'x'.repeat(256))], ['/rules/0/value']],
  ['another logic', [rule('job_title', 'equals', 'x', 'XOR')], ['/rules/0/logic_operator']],
  ['an unknown property', [{ ...rule('job_title', 'equals', 'x'), weight: 1 }], ['/rules/0/weight']],
  ['several faults', [rule('score', 'equals', 'x'), rule('nose', 'in', 'x')], ['/rules/0/value', '/rules/1/field']],
  ['more than fifty', Array.from({ length: 51 }, () => rule('score', 'equals', '1')), ['/rules']],
];

test.each(refused)(
  'invalid rules are rejected with a pointer to every fault %s',
  async (_, rules, paths, says = '') => {
    const answer = await customer.post('/list-contact', { name: 'Refused', rules });
    expect(answer).toMatchObject({ status: 400, body: { code: 'validation_failed' } });
    expect(answer.body.errors.map(({ path }: { path: string }) => path)).toEqual(paths);
    expect(answer.body.errors[0].message).toContain(says);
    const list = await makeList();
    expect((await customer.patch(`/list-contact/${list}`, { rules })).status).toBe(400);
  },
);

const cases: [string, object[], string[]][] = [
  ['not_contains matches empty values too', [rule('middle_name', 'not_contains', 'x')], ['ada', 'bob', 'cyd']],
  ['greater_or_equal', [rule('birth_year', 'greater_or_equal', ' 1980 ')], ['bob', 'cyd']],
  ['less_than', [rule('birth_year', 'less_than', '1980')], []],
  ['a custom number as number and text', [rule('custom_fields.seats', 'equals', '12')], ['ada', 'bob']],
  ['a custom boolean', [rule('custom_fields.trial', 'equals', 'true')], ['cyd']],
  ['% is not a wildcard', [rule('job_title', 'contains', '%')], []],
];

let by: TestCustomer;
const ids: Record<string, string> = {};
beforeAll(async () => {
  by = await app.customer();
  const people = {
    ada: { custom_fields: { seats: 12 } },
    bob: { birth_year: 1980, custom_fields: { seats: '12' } },
    cyd: { birth_year: 1990, custom_fields: { trial: true } },
  };
  for (const [name, body] of Object.entries(people)) ids[name] = await makeContact(body, by);
});

test.each(cases)('rules choose members: %s', async (_, rules, names) => {
  const expected = names.map((name) => ids[name]!).toSorted();
  const list = await makeList({ rules }, by);
  expect(await membersOf(list, by)).toEqual(expected);
  expect(await count(list, by)).toBe(expected.length);
});

test.each(['add-contacts', 'remove-contacts'])(
  '%s lists every unknown id, also those of other customers, and then writes nothing; an id given twice counts once',
  async (call) => {
    const list = await makeList();
    const [mine, foreign] = [await makeContact(), await makeContact({}, other)];
    const answer = await customer.post(`/list-contact-details/${call}`, {
      list_id: list,
      contact_ids: [absent, mine, foreign],
    });
    expect(answer).toMatchObject({
      status: 404,
      body: { errors: [{ path: '/contact_ids/0' }, { path: '/contact_ids/2' }] },
    });
    expect(await count(list)).toBe(0);
    const twice = { list_id: list, contact_ids: [mine, mine.toUpperCase()] };
    const { data } = (await customer.post(`/list-contact-details/${call}`, twice)).body;
    expect(data).toEqual(call === 'add-contacts' ? { added: 1, already_members: 0 } : { removed: 0 });
  },
);

test('an updated list gets a new tag with a change of its count', async () => {
  const id = await makeList();
  const tag = async () => (await customer.get(`/list-contact/${id}`)).headers['etag'] as string;
  const first = await tag();
  await makeContact({ list_ids: [id] });
  expect(await tag()).not.toBe(first);
});

const named = (title: string) => [rule('job_title', 'equals', title)];

test('a filter on lists selects members by hand and by rules: alone, in an array, negated, beside other fields and in _or', async () => {
  const pilots = await makeList({ rules: named('Pilot') });
  const [bakers, hand] = [await makeList({ rules: named('Baker') }), await makeList()];
  const pilot = await makeContact({ job_title: 'Pilot', birth_year: 1990 });
  const baker = await makeContact({ job_title: 'Baker', list_ids: [pilots] });
  const clerk = await makeContact({ job_title: 'Clerk', list_ids: [hand] });
  const diver = await makeContact({ job_title: 'Diver' });
  const cases: [object, string[]][] = [
    [{ list_id: [pilots.toUpperCase(), hand, absent] }, [pilot, baker, clerk]],
    [{ list_id: [] }, []],
    [{ list_id: absent }, []],
    [{ list_id: { is_null: false } }, [pilot, baker, clerk]],
    [{ list_id: null }, [diver]],
    [{ list_id: { in: [pilots, bakers], ne: bakers } }, [pilot]],
    [{ _or: [{ list_id: hand }, { list_id: bakers }, { birth_year: 1990 }] }, [pilot, baker, clerk]],
    [{ _or: [{ list_id: { ne: pilots } }, { list_id: bakers }], job_title: { ne: 'Diver' } }, [baker, clerk]],
  ];
  for (const [filters, expected] of cases) {
    const { body } = await customer.post('/contacts/list', { filters });
    const shown = body.map(({ id }: { id: string }) => id).toSorted();
    expect(shown, JSON.stringify(filters)).toEqual(expected.toSorted());
    const metadata = await customer.post('/contacts/metadata', { filters });
    expect(metadata.body.pagination.total_records, JSON.stringify(filters)).toBe(expected.length);
    const order_by = { last_name: 'ASC' };
    expect((await customer.post('/contacts/list', { filters, order_by })).body).toHaveLength(expected.length);
    const exported = await customer.post('/contacts/export', { filters, fields: ['id'], format: 'csv' });
    expect(String(exported.body).trim().split('\r\n')).toHaveLength(1 + expected.length);
  }
});

test('a filter on lists can name ten lists with rules and any number without, but not eleven; null names all', async () => {
  const lists: string[] = [];
  for (let i = 0; i < 11; i += 1) lists.push(await makeList({ rules: named(`Title ${i}`) }));
  const others = [await makeList(), await makeList()];
  await makeContact({ job_title: 'Title 3' });
  const ask = (list_id: unknown, call = 'list') =>
    customer.post(`/contacts/${call}`, { filters: { list_id }, ...(call === 'export' ? { format: 'csv' } : {}) });
  expect((await ask([...lists.slice(1), ...others])).body).toHaveLength(1);
  const refused = { status: 400, body: { code: 'validation_failed', errors: [{ path: '/filters' }] } };
  for (const call of ['list', 'metadata', 'export']) expect(await ask(lists, call)).toMatchObject(refused);
  expect(await ask(null)).toMatchObject(refused);
  const first = { list_id: lists[0]! };
  const many = { _or: lists.slice(1).map((list_id) => ({ list_id })), ...first };
  expect(await customer.post('/contacts/list', { filters: many })).toMatchObject(refused);
  await customer.delete(`/list-contact/${lists[0]!}`);
  expect((await ask(null)).body).toEqual([]);
});

const rules = [rule('job_title', 'equals', 'Smith')];
const numbers = async () => {
  const { body } = await customer.post('/list-contact/list', {});
  return body.map(({ contacts_count }: { contacts_count: number }) => contacts_count);
};

test('the numbers in the list of lists are a minute old at most where a customer has more than 20,000 contacts and the list has rules', async () => {
  await addTotals(app.owner, customer.id, { contacts: 20_000 });
  const [list, hand] = [await makeList({ rules }), await makeList()];
  await makeContact({ job_title: 'Smith', list_ids: [hand] });
  expect(await numbers()).toEqual([1, 1]);
  await makeContact({ job_title: 'Smith', list_ids: [hand] });
  expect(await numbers()).toEqual([2, 1]);
  expect(await count(list)).toBe(2);
  await app.owner`update lists set counted_at = '2000-01-01' where customer_id = ${customer.id}`;
  expect(await numbers()).toEqual([2, 2]);
  await makeContact({ job_title: 'Smith' });
  await customer.patch(`/list-contact/${list}`, { name: 'Renamed' });
  expect(await numbers()).toEqual([2, 2]);
  await customer.patch(`/list-contact/${list}`, { rules: [rule('job_title', 'contains', 'Smith')] });
  expect(await numbers()).toEqual([2, 3]);
});

test('the numbers in the list of lists are those of before where rules take too long to evaluate, so that the page comes', async () => {
  const hand = await makeList();
  await makeList({ rules });
  await makeContact({ job_title: 'Smith', list_ids: [hand] });
  await app.owner`update lists set contacts_count = 7 where customer_id = ${customer.id}`;
  await app.owner.begin(async (owner) => {
    await owner`lock table contacts`;
    expect(await numbers()).toEqual([7, 1]);
  });
  expect(await numbers()).toEqual([1, 1]);
});

test('the numbers in the list of lists are counted by a worker where a read has no time for it', async () => {
  await addTotals(app.owner, customer.id, { contacts: 20_000 });
  const list = await makeList({ rules });
  await makeContact({ job_title: 'Smith' });
  await app.owner`update lists set is_count_due = true where customer_id = ${customer.id}`;
  await turnQueues['count-lists'].handle(contextOf(app), { customerId: customer.id });
  expect(await app.owner`select contacts_count, is_count_due from lists where customer_id = ${customer.id}`).toEqual([
    { contacts_count: 1, is_count_due: false },
  ]);
  await makeContact({ job_title: 'Smith' });
  expect(await numbers()).toEqual([1]);
  expect(await count(list)).toBe(2);
});

const rulesOf = (count: number) => Array.from({ length: count }, () => rule('job_title', 'equals', 'Countess', 'OR'));

/** Inserts existing lists, each with this many rules. */
async function haveLists(count: number, rulesEach: number): Promise<string[]> {
  const rows = await app.owner<{ id: string }[]>`
    insert into lists (customer_id, name, owner_id, rules)
    select ${customer.id}, 'Kept', ${customer.adminId}, ${app.owner.json(rulesOf(rulesEach))}
    from generate_series(1, ${count})
    returning id`;
  return rows.map(({ id }) => id);
}

const create = (count: number): Promise<Answer> =>
  customer.post('/list-contact', { name: 'New', rules: rulesOf(count) });
const change = (id: string, count: number): Promise<Answer> =>
  customer.patch(`/list-contact/${id}`, { rules: rulesOf(count) });
const duplicate = (id: string): Promise<Answer> =>
  customer.post('/list-contact/duplicate', { list_id: id, new_name: 'Copy' });

const withRules = async (): Promise<number> =>
  (await app.owner`select from lists where customer_id = ${customer.id} and rules <> '[]'`).count;

function expectConflict({ status, body }: Answer, path: string): void {
  expect({ status, code: body.code }).toEqual({ status: 409, code: 'conflict' });
  expect(body.errors.map((fault: { path: string }) => fault.path)).toEqual([path]);
}

test('of 500 lists with rules the last can be made by only one of several concurrent requests; what is there already stays', async () => {
  const [first] = await haveLists(499, 1);
  const without = await makeList();
  const racing = await Promise.all([create(1), create(2), duplicate(first!), change(without, 3)]);
  expect(racing.map(({ status }) => status).filter((status) => status < 300)).toHaveLength(1);
  expect(racing.filter(({ status }) => status === 409)).toHaveLength(3);
  const another = await makeList();
  expectConflict(await create(1), '/rules');
  expectConflict(await change(another, 1), '/rules');
  expectConflict(await duplicate(first!), '/list_id');
  expect([await withRules(), (await read(another)).rules]).toEqual([500, []]);
  expect((await change(first!, 2)).status).toBe(200);
  expect((await customer.post('/list-contact', { name: 'By hand' })).status).toBe(201);
  expect((await duplicate(another)).status).toBe(200);
  expect((await change(first!, 0)).status).toBe(200);
  expect((await create(1)).status).toBe(201);
  expectConflict(await create(1), '/rules');
});
