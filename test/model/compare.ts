import { isDeepStrictEqual } from 'node:util';
import type postgres from 'postgres';
import { expect } from 'vitest';
import { seeded, type Random } from '../../src/commands/generate-people.ts';
import type { WireRecord } from '../filters/evaluator.ts';
import { recount } from '../queries/memberships/recount.ts';
import { describe, type Customer } from './caller.ts';
import { Difference, type Client } from './client.ts';
import { isMember, type Company, type Contact, type Json, type List } from './model.ts';
import { anyCase } from './random-values.ts';
import { checkCompany, checkContact } from './shown.ts';

/** All records that a customer should have. */
interface World {
  client: Client;
  contacts: Contact[];
  companies: Company[];
  lists: List[];
}

/**
 * Compares everything that a customer can read with the models of its callers. No caller may run meanwhile, but
 * background work may: reads are exact also before it has ended.
 */
export async function compare(customer: Customer, seed: number): Promise<void> {
  const models = customer.callers.map(({ model }) => model);
  const world: World = {
    client: customer.callers[0]!.client,
    contacts: models.flatMap(({ contacts }) => [...contacts]),
    companies: [...models.flatMap(({ companies }) => [...companies]), ...customer.shared.values()],
    lists: models.flatMap(({ lists }) => [...lists]),
  };
  await compareContacts(world);
  await compareCompanies(world);
  await compareSingles(world, seeded(seed));
  await compareLists(world);
}

/** Reads all pages of a list by cursor, with the numbers that `metadata` returns. */
async function readAll(client: Client, path: string, body: Json = {}): Promise<WireRecord[]> {
  const all: WireRecord[] = [];
  for (let cursor: string | null | undefined; cursor !== null;) {
    const paginate = { limit: 100, ...(cursor === undefined ? {} : { cursor }) };
    const answer = await client.send(
      'POST',
      path,
      path.startsWith('/list-contact/') ? paginate : { ...body, paginate },
    );
    if (answer.status !== 200) throw new Difference(`POST ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
    all.push(...(answer.body as WireRecord[]));
    cursor = answer.headers.get('x-next-cursor');
  }
  return all;
}

const total = async (client: Client, path: string, filters: Json = {}): Promise<number> =>
  (await client.send('POST', path, { filters, paginate: { limit: 10 } })).body.pagination.total_records;

/** Throws unless exactly the records of the model are there, in the order of their creation, newest first. */
function sameRecords<T extends { id: string | undefined; history: string[] }>(
  noun: string,
  records: readonly T[],
  shown: readonly WireRecord[],
  check: (record: T, shown: Json) => void,
): void {
  const byId = new Map(records.map((record) => [record.id, record]));
  const ids = shown.map(({ id }) => id);
  const extra = shown.filter(({ id }) => !byId.has(id));
  const missing = records.filter(({ id }) => !ids.includes(id!));
  const told = [
    ...extra.slice(0, 5).map((one) => `unknown: ${JSON.stringify(one)}`),
    ...missing.slice(0, 5).map((one) => `missing: ${[one.id, ...one.history].join('\n    ')}`),
  ];
  if (told.length > 0)
    throw new Difference(`${extra.length} ${noun} too many, ${missing.length} missing\n  ${told.join('\n  ')}`);
  expect(new Set(ids).size, `${noun}: number of different ids`).toBe(ids.length);
  expect(isDeepStrictEqual(ids, ids.toSorted().toReversed()), `${noun}: newest first`).toBe(true);
  for (const one of shown) check(byId.get(one.id)!, one);
}

async function compareContacts({ client, contacts }: World): Promise<void> {
  const shown = await readAll(client, '/contacts/list');
  sameRecords('contacts', contacts, shown, checkContact);
  expect(await total(client, '/contacts/metadata'), 'total of contacts').toBe(contacts.length);
}

async function compareCompanies({ client, companies }: World): Promise<void> {
  const shown = await readAll(client, '/company/list');
  // Nobody has read the id of a shared company whose contacts are gone.
  for (const company of companies) if (company.isShared) company.id ??= shown.find((one) => isNamed(company, one))?.id;
  sameRecords('companies', companies, shown, checkCompany);
  expect(await total(client, '/company/metadata'), 'total of companies').toBe(companies.length);
}

const isNamed = (company: Company, shown: Json): boolean => {
  try {
    checkCompany({ ...company, id: shown['id'] as string }, shown);
    return true;
  } catch {
    return false;
  }
};

/** Reads all contacts again as single ones, which show their manual memberships. */
async function compareSingles({ client, contacts }: World, random: Random): Promise<void> {
  for (let at = 0; at < contacts.length; at += 500) {
    const some = contacts.slice(at, at + 500);
    const items = some.map(({ id }) => ({ id: anyCase(random, id!) }));
    const { body } = await client.send('POST', '/contacts/batch/read', { items });
    for (const [i, contact] of some.entries()) checkContact(contact, body.data.results[i].record ?? {});
  }
}

async function compareLists({ client, lists, contacts }: World): Promise<void> {
  const shown = await readAll(client, '/list-contact/list');
  const members = new Map(lists.map((list) => [list, contacts.filter((contact) => isMember(contact, list))]));
  sameRecords('lists', lists, shown, (list, one) => {
    const { id, name, description, rules } = list;
    const expected = { id, name, description, rules, contacts_count: members.get(list)!.length };
    const told = Object.fromEntries(Object.keys(expected).map((key) => [key, one[key]]));
    if (!isDeepStrictEqual(told, expected))
      throw new Difference(
        `A list is ${JSON.stringify(told)} instead of ${describe({ id, fields: expected, history: list.history })}`,
      );
  });
  for (const [list, expected] of members) {
    const filters = { list_id: list.id };
    const found = (await readAll(client, '/contacts/list', { filters })).map(({ id }) => id);
    const wrong = new Set(found).symmetricDifference(new Set(expected.map(({ id }) => id!)));
    if (wrong.size > 0)
      throw new Difference(
        wrongMembers(
          list,
          contacts.filter(({ id }) => wrong.has(id!)),
          found,
        ),
      );
    expect(await total(client, '/contacts/metadata', filters), `total of list ${list.id}`).toBe(expected.length);
  }
}

const wrongMembers = (list: List, wrong: readonly Contact[], found: readonly string[]): string =>
  [
    `${wrong.length} wrong members of a list: ${list.id} ${JSON.stringify(list.rules)}`,
    ...list.history,
    ...wrong.slice(0, 3).map((one) => `${found.includes(one.id!) ? 'too many' : 'missing'}: ${describe(one)}`),
  ].join('\n  ');

/** Compares the stored numbers of records. */
export async function compareStored(owner: postgres.Sql, { id }: Customer): Promise<void> {
  const { contacts, companies } = await recount(owner, id);
  expect([contacts.kept, companies.kept]).toEqual([contacts.real, companies.real]);
}
