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
  const answer = await caller.client.send('POST', '/list-contact', body);
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

export async function duplicateList(caller: Caller): Promise<void> {
  const { model, client } = caller;
  const list = caller.pick(model.lists);
  if (!list || model.lists.size > 2 * maxLists) return;
  const body = { list_id: caller.idOf(list), new_name: caller.mark() };
  const answer = await client.send('POST', '/list-contact/duplicate', body);
  const request = `POST /list-contact/duplicate ${JSON.stringify(body)}`;
  expectStatus(answer, 200, request, [list]);
  const made: List = { ...list, id: answer.body.data.id, name: body.new_name, history: [...list.history] };
  remember([made], request);
  model.lists.add(made);
  model.addToLists(membersOf(caller, list), [made]);
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
