import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { fillLists } from '../../../src/jobs/fill-lists.ts';
import { mergeContacts } from '../../../src/queries/crm/merges/contact-merges.ts';
import { fillNextBatch } from '../../../src/queries/memberships/list-fills.ts';
import { contextOf } from '../../jobs/working.ts';
import type { Transaction } from '../../../src/database/db.ts';
import { setOrigin } from '../../../src/database/origin.ts';
import { startApp, type TestApp } from '../../setup/app.ts';
import { beforeStatement } from '../../setup/between-statements.ts';
import { contactBody, grant, make, type TestCustomer } from '../../setup/factories.ts';
import { somebodyWaitsFor } from '../../setup/locks.ts';
import { recount } from './recount.ts';

// Lists that are too large to be deleted or copied in one transaction. No worker runs unless a test starts one: all
// reads must be exact even if no worker ever runs.

let app: TestApp;
let customer: TestCustomer;
let contacts: string[];
let list: string;

/** Number of members of a large list. A small list has at most 2,000. */
const large = 2_150;

beforeAll(async () => {
  app = await startApp();
});
const makeList = async (name: string): Promise<string> => (await customer.post('/list-contact', { name })).body.id;

beforeEach(async () => {
  customer = await app.customer();
  list = await makeList('Large');
  const made = await app.owner<{ id: string }[]>`
    insert into contacts (customer_id, first_name, last_name, work_email, job_title, folded)
    select ${customer.id}, 'Ada', 'Lovelace', 'ada@example.com', title,
      jsonb_build_object('first_name', 'ada', 'last_name', 'lovelace', 'work_email', 'ada@example.com', 'job_title', lower(title),
        'industry', '', 'location_locality', '', 'location_country', '', 'location_region', '')
    from (select (array['Engineer', 'Clerk'])[1 + n % 2] as title from generate_series(1, ${large}::int) n) one
    returning id`;
  contacts = made.map(({ id }) => id).toSorted();
  await app.owner`
    insert into list_members (customer_id, list_id, contact_id, by_hand, by_rule)
    select ${customer.id}, ${list}, unnest(${contacts}::uuid[]), true, false`;
  await app.owner`
    insert into counters (customer_id, counted, shard, records)
    values (${customer.id}, 'contacts', 0, ${large}), (${customer.id}, ${list}, 0, ${large})`;
});

/** Fills all lists, as a worker does. */
const work = (): Promise<void> => fillLists(60)(contextOf(app), { customerId: customer.id });

const duplicate = async (id = list): Promise<string> => {
  const answer = await customer.post('/list-contact/duplicate', { list_id: id, new_name: 'Copy' });
  expect(answer.status).toBe(200);
  return answer.body.data.id;
};
const change = (verb: 'add' | 'remove', list_id: string, contact_ids: string[]) =>
  customer.post(`/list-contact-details/${verb}-contacts`, { list_id, contact_ids });
const listsOf = async (contact: string): Promise<string[]> =>
  (await customer.get(`/contacts/${contact}`)).body.list_ids;

/** Returns the members of a list, read page by page, and expects all counts of the list to agree. */
async function membersOf(id: string): Promise<string[]> {
  const members: string[] = [];
  const filters = { list_id: id };
  for (let cursor: string | undefined; ;) {
    const paginate = { limit: 100, ...(cursor === undefined ? {} : { cursor }) };
    const page = await customer.post('/contacts/list', { filters, paginate });
    members.push(...page.body.map((one: { id: string }) => one.id));
    cursor = page.headers['x-next-cursor'] as string | undefined;
    if (cursor === undefined) break;
  }
  const { body } = await customer.post('/contacts/metadata', { filters });
  expect(body.pagination.total_records).toBe(members.length);
  expect((await customer.get(`/list-contact/${id}`)).body.contacts_count).toBe(members.length);
  const listed = (await customer.post('/list-contact/list', {})).body.find((one: { id: string }) => one.id === id);
  expect(listed.contacts_count).toBe(members.length);
  return members.toSorted();
}

const countOf = async (filters: object): Promise<number> =>
  (await customer.post('/contacts/metadata', { filters })).body.pagination.total_records;

/** Expects stored members and counts to be exact, no list to be filling, and no copied members to wait. */
async function expectSettled(): Promise<void> {
  const { lists, orphans } = await recount(app.owner, customer.id);
  expect(orphans).toEqual([]);
  for (const { isFilling, kept, members, shouldBe } of lists) {
    expect([isFilling, kept]).toEqual([false, shouldBe.length]);
    expect(members).toEqual(shouldBe);
  }
  expect(await app.owner`select from copied_members where customer_id = ${customer.id}`).toHaveLength(0);
}

describe('a copy of a large list', () => {
  test('has all members at once, and the same members after a worker has written them', async () => {
    const copy = await duplicate();
    expect(await membersOf(copy)).toEqual(contacts);
    expect(await app.owner`select from list_members where list_id = ${copy}`).toHaveLength(0);
    expect(await listsOf(contacts[0]!)).toEqual([list, copy].toSorted());
    await work();
    expect(await membersOf(copy)).toEqual(contacts);
    expect(await listsOf(contacts[0]!)).toEqual([list, copy].toSorted());
    await expectSettled();
  });

  test('is independent of the original at once: each changes alone, and changes of contacts reach both', async () => {
    const copy = await duplicate();
    const [removed, deleted, left, again, kept, ...others] = contacts.toReversed() as [
      string,
      string,
      string,
      string,
      string,
    ];
    expect((await change('remove', copy, [removed])).body.data).toEqual({ removed: 1 });
    expect((await customer.delete(`/contacts/${deleted}`)).status).toBe(200);
    expect((await customer.patch(`/contacts/${left}`, { list_ids: [list] })).status).toBe(200);
    expect((await change('add', copy, [again])).body.data).toEqual({ added: 0, already_members: 1 });
    expect((await change('remove', list, [kept])).body.data).toEqual({ removed: 1 });
    const fresh = await make(customer, '/contacts', contactBody({ list_ids: [copy] }));
    const expected = [...others, again, kept, fresh].toSorted();
    expect(await membersOf(copy)).toEqual(expected);
    expect(await membersOf(list)).toEqual([...others, again, removed, left].toSorted());
    const second = await duplicate(copy);
    expect((await customer.delete(`/list-contact/${list}`)).status).toBe(200);
    for (const id of [copy, second]) expect(await membersOf(id)).toEqual(expected);
    expect(await countOf({ list_id: null })).toBe(2);
    await work();
    for (const id of [copy, second]) expect(await membersOf(id)).toEqual(expected);
    expect(await countOf({ list_id: null })).toBe(2);
    await expectSettled();
  });

  test('has the original’s rules too', async () => {
    await customer.patch(`/list-contact/${list}`, {
      rules: [{ field: 'job_title', operator: 'equals', value: 'Baker' }],
    });
    const copy = await duplicate();
    const fresh = await make(customer, '/contacts', contactBody({ job_title: 'Baker' }));
    const [last] = contacts.toReversed();
    await customer.patch(`/contacts/${last}`, { job_title: 'Baker' });
    expect(await membersOf(copy)).toEqual([...contacts, fresh].toSorted());
    expect((await change('remove', copy, [last!])).body.data).toEqual({ removed: 1 });
    expect(await membersOf(copy)).toEqual([...contacts, fresh].toSorted());
    await work();
    await customer.patch(`/contacts/${last}`, { job_title: 'Clerk' });
    expect(await membersOf(copy)).toEqual([...contacts.filter((id) => id !== last), fresh].toSorted());
    await expectSettled();
  });

  test('accepts new rules and loses rules while its members are written', async () => {
    const copy = await duplicate();
    for (const value of ['Engineer', 'Baker'])
      await customer.patch(`/list-contact/${copy}`, { rules: [{ field: 'job_title', operator: 'equals', value }] });
    expect(await membersOf(copy)).toEqual(contacts);
    await customer.patch(`/list-contact/${copy}`, { rules: [] });
    expect(await membersOf(copy)).toEqual(contacts);
    await work();
    expect(await membersOf(copy)).toEqual(contacts);
    await expectSettled();
  });

  test('is verified with all its members', async () => {
    const copy = await duplicate();
    await grant(app.fastify, customer.id, 'verification', 10);
    const job = (await customer.post(`/list-contact/verify-contacts/${copy}`)).body.data.id;
    const [input] = await app.owner<
      { contact_ids: string[] }[]
    >`select contact_ids from job_inputs where job_id = ${job}`;
    expect(input!.contact_ids.toSorted()).toEqual(contacts);
  });

  test('stays exact when contacts are deleted, removed and added while workers write its members', async () => {
    const copy = await duplicate();
    const removed = new Set<string>();
    const chosen = contacts.filter((_, i) => i % 50 === 0);
    const write = async (): Promise<void> => {
      for (const [i, id] of chosen.entries()) {
        if (i % 4 === 0) await customer.delete(`/contacts/${id}`);
        if (i % 4 === 1) await change('remove', copy, [id]);
        if (i % 4 === 2) await customer.patch(`/contacts/${id}`, { list_ids: [] });
        if (i % 4 === 3) await change('add', copy, [id]);
        else removed.add(id);
      }
    };
    await Promise.all([
      write(),
      ...[1, 2].map(async () => {
        while ((await app.db.transaction((sql) => fillNextBatch(sql, customer.id))) !== 'done');
      }),
    ]);
    await work();
    expect(await membersOf(copy)).toEqual(contacts.filter((id) => !removed.has(id)));
    await expectSettled();
  });
});

test('a contact that takes the place of a member while a large list is copied is in the copy once a worker has written it', async () => {
  const kept = await make(customer, '/contacts', contactBody());
  const [merged, ...others] = contacts as [string, ...string[]];
  const copy = await app.db.for({ customerId: customer.id }, 'api').transaction(async (sql) => {
    await mergeContacts(sql, customer.id, { id: kept, merge_ids: [merged] });
    return duplicate(); // does not see the merge
  });
  await work();
  for (const id of [list, copy]) expect(await membersOf(id)).toEqual([...others, kept].toSorted());
  await expectSettled();
});

test('a contact that takes the place of a member of a copy while a worker waits to write that member is in the copy', async () => {
  const kept = await make(customer, '/contacts', contactBody());
  const [merged, ...others] = contacts as [string, ...string[]];
  const { copy, worker } = await app.db.for({ customerId: customer.id }, 'api').transaction(async (sql) => {
    await mergeContacts(sql, customer.id, { id: kept, merge_ids: [merged] });
    const id = await duplicate(); // does not see the merge
    const waiting = work();
    await somebodyWaitsFor(sql, app.owner);
    return { copy: id, worker: waiting };
  });
  await worker;
  for (const id of [list, copy]) expect(await membersOf(id)).toEqual([...others, kept].toSorted());
  await expectSettled();
});

test('a contact that took the place of a member of a copy, and was removed from it, is not added again by a worker', async () => {
  const kept = await make(customer, '/contacts', contactBody());
  const copy = await duplicate();
  const [merged, ...others] = contacts as [string, ...string[]];
  const mergeAndRemove = async () => {
    expect((await customer.post('/contacts/merge', { id: kept, merge_ids: [merged] })).status).toBe(200);
    expect((await change('remove', copy, [kept])).body.data).toEqual({ removed: 1 });
  };
  await app.db.transaction((sql) => {
    // After the worker has read the next members.
    const worker = beforeStatement(sql, 5, mergeAndRemove);
    setOrigin(worker, { source: 'job', isRecording: true });
    return fillNextBatch(worker, customer.id);
  });
  await work();
  expect(await membersOf(copy)).toEqual(others);
  expect(await membersOf(list)).toEqual([...others, kept].toSorted());
  await expectSettled();
});

describe('a large list that is deleted', () => {
  test('is never copied in part: a copy that races with the deletion has all members, or there is none', async () => {
    const copying = await app.owner.begin(async (tx) => {
      await tx`lock table copied_members in share mode`; // stops the copy just before it reads the members
      const answer = customer.post('/list-contact/duplicate', { list_id: list, new_name: 'Copy' });
      await somebodyWaitsFor(tx, app.owner);
      expect((await customer.delete(`/list-contact/${list}`)).status).toBe(200);
      expect(await fillNextBatch(tx as unknown as Transaction, customer.id)).toBe('more');
      return { answer };
    });
    expect(await copying.answer).toMatchObject({ status: 404, body: { errors: [{ path: '/list_id' }] } });
    expect((await customer.post('/list-contact/list', {})).body).toEqual([]);
    await work();
    await expectSettled();
  });

  test('disappears from all reads at once, and a worker removes its rows', async () => {
    const other = await makeList('Other');
    await change('add', other, contacts.slice(0, 3));
    const etag = (await customer.get(`/list-contact/${list}`)).headers['etag'] as string;
    expect((await customer.delete(`/list-contact/${list}`, { 'if-match': '"x"' })).status).toBe(412);
    expect((await customer.delete(`/list-contact/${list}`, { 'if-match': etag })).status).toBe(200);
    const seen = async () => {
      expect((await customer.get(`/list-contact/${list}`)).status).toBe(404);
      expect((await customer.patch(`/list-contact/${list}`, { name: 'x' })).status).toBe(404);
      expect((await customer.delete(`/list-contact/${list}`)).status).toBe(404);
      expect((await change('add', list, contacts.slice(0, 1))).status).toBe(404);
      expect((await change('remove', list, contacts.slice(0, 1))).status).toBe(404);
      expect((await customer.post('/list-contact/duplicate', { list_id: list, new_name: 'x' })).status).toBe(404);
      expect((await customer.post(`/list-contact/verify-contacts/${list}`)).status).toBe(404);
      expect((await customer.patch(`/contacts/${contacts[0]}`, { list_ids: [list] })).status).toBe(404);
      expect((await customer.post('/contacts', contactBody({ list_ids: [list] }))).status).toBe(404);
      const lists = (await customer.post('/list-contact/list', {})).body.map(({ id }: { id: string }) => id);
      expect(lists).toEqual([other]);
      expect(await listsOf(contacts[0]!)).toEqual([other]);
      expect(await countOf({ list_id: list })).toBe(0);
      expect((await customer.post('/contacts/list', { filters: { list_id: list } })).body).toEqual([]);
      expect(await countOf({ list_id: [list, other] })).toBe(3);
      expect(await countOf({ list_id: null })).toBe(large - 3);
      expect(await membersOf(other)).toEqual(contacts.slice(0, 3));
    };
    await seen();
    await work();
    await seen();
    await expectSettled();
    expect(await app.owner`select from lists where customer_id = ${customer.id}`).toHaveLength(1);
    expect(await app.owner`select from list_members where list_id = ${list}`).toHaveLength(0);
  });

  test('never waits for members that another transaction removes, so that the two cannot wait for each other', async () => {
    await customer.delete(`/list-contact/${list}`);
    await app.owner.begin(async (writer) => {
      // In an order of its own, as a statement that deletes several contacts.
      const remove = (contact: string) =>
        writer`delete from list_members where customer_id = ${customer.id} and contact_id = ${contact}`;
      await remove(contacts[5]!);
      expect(await app.db.transaction((sql) => fillNextBatch(sql, customer.id))).toBe('more');
      expect((await remove(contacts[0]!)).count).toBe(0);
      while ((await app.db.transaction((sql) => fillNextBatch(sql, customer.id))) === 'more');
      expect(await app.owner`select from lists where customer_id = ${customer.id}`).toHaveLength(1);
    });
    await work();
    await expectSettled();
    expect(await app.owner`select from lists where customer_id = ${customer.id}`).toHaveLength(0);
  });

  test('gets no new members by its rules', async () => {
    await customer.patch(`/list-contact/${list}`, {
      rules: [{ field: 'job_title', operator: 'equals', value: 'Baker' }],
    });
    await work();
    await customer.delete(`/list-contact/${list}`);
    const fresh = await make(customer, '/contacts', contactBody({ job_title: 'Baker' }));
    expect(await app.owner`select from list_members where contact_id = ${fresh}`).toHaveLength(0);
    expect((await customer.delete(`/contacts/${contacts[0]}`)).status).toBe(200);
    await work();
    await expectSettled();
  });

  test('disappears too if it was a copy whose members were not written yet', async () => {
    const copy = await duplicate();
    expect((await customer.delete(`/list-contact/${copy}`)).status).toBe(200);
    expect(await countOf({ list_id: copy })).toBe(0);
    expect((await customer.patch(`/contacts/${contacts[0]}`, { list_ids: [] })).status).toBe(200);
    expect(await listsOf(contacts[1]!)).toEqual([list]);
    await work();
    expect(await membersOf(list)).toEqual(contacts.slice(1));
    await expectSettled();
  });
});
