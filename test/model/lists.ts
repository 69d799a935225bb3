import { setTimeout as sleep } from 'node:timers/promises';
import type { PlainRule } from '../queries/memberships/recount.ts';
import { expectStatus, remember, type Caller } from './caller.ts';
import { Difference } from './client.ts';
import { isMember, type Contact, type Json, type List } from './model.ts';
import { rules, someOf } from './random-values.ts';

/** Number of lists of a caller above which lists are deleted rather than created. */
const maxLists = 8;

/** Returns rules as responses show them: with ids in lower case. */
const shownRules = (given: readonly Json[]): PlainRule[] =>
  given.map((rule) => {
    const {
      field,
      operator,
      value,
      logic_operator = 'AND',
    } = rule as unknown as Partial<PlainRule> & Omit<PlainRule, 'logic_operator'>;
    const isId = field === 'assigned_to' || field === 'company_id';
    return { field, operator, value: isId ? value.toLowerCase() : value, logic_operator };
  });

function someRules(caller: Caller): Json[] {
  if (caller.chance(20)) return [];
  const companyIds = [...caller.model.companies].map(({ id }) => id!);
  return rules(caller.random, { users: caller.customer.users, companyIds, tag: caller.tag });
}

export async function createList(caller: Caller): Promise<void> {
  if (caller.model.lists.size >= maxLists) return deleteList(caller);
  const given = someRules(caller);
  const name = caller.mark();
  const body = {
    name,
    ...(caller.chance(50) ? { description: 'a list' } : {}),
    ...(caller.chance(70) ? { rules: given } : {}),
  };
  const answer = await caller.client.create('/list-contact', body);
  expectStatus(answer, 201, `POST /list-contact ${JSON.stringify(body)}`);
  const { id } = answer.body;
  const list: List = {
    id,
    name,
    description: body.description ?? '',
    rules: shownRules(body.rules ?? []),
    history: [],
  };
  remember([list], `POST /list-contact ${JSON.stringify(body)}`);
  caller.model.lists.add(list);
}

export async function changeList(caller: Caller): Promise<void> {
  const list = caller.pick(caller.model.lists);
  if (!list) return createList(caller);
  const path = `/list-contact/${caller.idOf(list)}`;
  const body = {
    ...(caller.chance(30) ? { name: caller.mark() } : {}),
    ...(caller.chance(70) ? { rules: someRules(caller) } : {}),
  };
  const request = `PATCH ${path} ${JSON.stringify(body)}`;
  expectStatus(await caller.client.send('PATCH', path, body), 200, request, [list]);
  if (body.name) list.name = body.name;
  if (body.rules) list.rules = shownRules(body.rules);
  remember([list], request);
}

export async function deleteList(caller: Caller): Promise<void> {
  const list = caller.pick(caller.model.lists);
  if (!list) return;
  const path = `/list-contact/${caller.idOf(list)}`;
  expectStatus(await caller.client.send('DELETE', path), 200, `DELETE ${path}`, [list]);
  caller.model.deleteList(list);
}

/** Copies a list. Sometimes the original is deleted meanwhile: the copy then has all members, or there is no copy. */
export async function duplicateList(caller: Caller): Promise<void> {
  const { model, client } = caller;
  const isDeleted = caller.chance(50);
  // The members of a large list are copied and removed in several transactions.
  const list = isDeleted && caller.chance(60) ? largest(caller) : caller.pick(model.lists);
  if (!list || model.lists.size > 2 * maxLists) return;
  const name = caller.mark();
  // The copies begin before, during and after the deletion.
  const waits = isDeleted ? Array.from({ length: 5 }, () => caller.random.below(80)) : [0];
  const copy = async (wait: number, i: number) => {
    await sleep(wait);
    return client.create('/list-contact/duplicate', { list_id: caller.idOf(list), new_name: `${name} ${i}` });
  };
  const path = `/list-contact/${caller.idOf(list)}`;
  const [answers, deletion] = await Promise.all([
    Promise.all(waits.map(copy)),
    isDeleted ? client.send('DELETE', path) : undefined,
  ]);
  const request = `duplicate ${path} as ${name}${isDeleted ? ', and DELETE' : ''}`;
  for (const [i, answer] of answers.entries()) {
    if (isDeleted && answer.status === 404) continue;
    expectStatus(answer, 200, request, [list]);
    const made: List = { ...list, id: answer.body.data.id, name: `${name} ${i}`, history: [...list.history] };
    remember([made], `${request}: ${answers.map(({ status }) => status).join(', ')}`);
    model.lists.add(made);
    model.addToLists(membersOf(caller, list), [made]);
  }
  if (!deletion) return;
  expectStatus(deletion, 200, request, [list]);
  model.deleteList(list);
}

function largest({ model }: Caller): List | undefined {
  const size = (list: List) => [...model.contacts].filter((contact) => isMember(contact, list)).length;
  const sizes = new Map([...model.lists].map((list) => [list, size(list)]));
  return [...model.lists].toSorted((a, b) => sizes.get(b)! - sizes.get(a)!)[0];
}

const membersOf = ({ model }: Caller, list: List): Contact[] =>
  [...model.contacts].filter(({ lists }) => lists.has(list));

export async function addMembers(caller: Caller): Promise<void> {
  const { model, client } = caller;
  const list = caller.pick(model.lists);
  if (!list) return createList(caller);
  const isAdding = caller.chance(60);
  const contacts = someOf(caller.random, [...model.contacts], 30);
  const body = { list_id: caller.idOf(list), contact_ids: contacts.map((contact) => caller.idOf(contact)) };
  const path = `/list-contact-details/${isAdding ? 'add' : 'remove'}-contacts`;
  const answer = await client.send('POST', path, body);
  expectStatus(answer, 200, `POST ${path}`, [list]);
  const manual = contacts.filter(({ lists }) => lists.has(list)).length;
  const members = contacts.filter((contact) => isMember(contact, list)).length;
  const data = isAdding ? { added: contacts.length - members, already_members: members } : { removed: manual };
  if (JSON.stringify(answer.body.data) !== JSON.stringify(data))
    throw new Difference(
      `${path} ${JSON.stringify(body)}: ${JSON.stringify(answer.body)} instead of ${JSON.stringify(data)}`,
    );
  if (isAdding) model.addToLists(contacts, [list]);
  else model.removeFromList(contacts, list);
  remember([list, ...contacts], `${path} ${body.list_id} (${contacts.length})`);
}
