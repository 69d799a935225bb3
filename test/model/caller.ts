import type { Random } from '../../src/commands/generate-people.ts';
import type { HttpAnswer } from '../setup/over-http.ts';
import { Client, Difference, type Journal, type Server } from './client.ts';
import { Model, type Company, type Contact, type Json, type Outcome, type SharedCompanies } from './model.ts';
import { Changes } from './undo.ts';
import { anyCase, chance } from './random-values.ts';

/** A customer that several callers share. */
export interface Customer {
  id: string;
  key: string;
  users: string[];
  shared: SharedCompanies;
  callers: Caller[];
  /** Number of contacts above which a caller deletes rather than creates. */
  maxContacts: number;
}

/** One caller: its random numbers, its records, and what it needs to send requests. */
export class Caller {
  readonly customer: Customer;
  readonly tag: string;
  readonly random: Random;
  readonly client: Client;
  readonly model: Model;
  readonly changes: Changes;
  /** Ids of records of another customer. */
  readonly foreign: () => string[];
  #marks = 0;

  constructor(
    customer: Customer,
    given: { tag: string; random: Random; servers: readonly Server[]; journal: Journal; foreign: () => string[] },
  ) {
    this.customer = customer;
    this.tag = given.tag;
    this.random = given.random;
    this.client = new Client(customer.key, given);
    this.model = new Model(customer.shared);
    this.changes = new Changes(this);
    this.foreign = given.foreign;
  }

  /** Returns a text that no other record has. It finds a contact by its last name. */
  mark(): string {
    return `${this.tag} ${(this.#marks += 1)}`;
  }

  chance(percent: number): boolean {
    return chance(this.random, percent);
  }

  /** Returns one of the records, or undefined if there is none. */
  pick<T>(records: Iterable<T>): T | undefined {
    const all = [...records];
    return all.length === 0 ? undefined : this.random.pick(all);
  }

  /** Returns the id of a record in any case. */
  idOf({ id }: { id: string | undefined }): string {
    return anyCase(this.random, id!);
  }

  /** Returns an id that no record of the customer has: unknown, or another customer's. */
  unknownId(): string {
    return this.pick(this.foreign()) ?? '0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b';
  }
}

/** Number of operations that are kept for each record. */
const remembered = 8;

/** Remembers an operation with each record that it concerned. */
export function remember(records: Iterable<{ history: string[] }>, operation: string): void {
  const text = `${new Date().toISOString().slice(11)} ${operation.slice(0, 600)}`;
  for (const { history } of records) {
    history.push(text);
    if (history.length > remembered) history.shift();
  }
}

/** Throws if a response has another status than the model expects. */
export function expectStatus(
  answer: HttpAnswer,
  status: number,
  request: string,
  records: { history: string[] }[] = [],
): void {
  if (answer.status === status) return;
  const history = records.flatMap((record) => record.history);
  throw new Difference(
    [
      `${request}: ${answer.status} instead of ${status}: ${JSON.stringify(answer.body).slice(0, 2_000)}`,
      ...history,
    ].join('\n  '),
  );
}

const statuses: Record<string, number> = {
  validation_failed: 400,
  not_found: 404,
  conflict: 409,
  precondition_failed: 412,
};

/** Returns the status of the response to a call that has this outcome. */
export const statusOf = (outcome: Outcome<unknown>): number => {
  if (outcome.status === 'failed') return statuses[outcome.code]!;
  return outcome.status === 'created' ? 201 : 200;
};

/** Reads the ids of records that an import created, and of companies that were created by name. */
export async function bindIds(caller: Caller): Promise<void> {
  const { client, model } = caller;
  const isUnbound = (company: Company | null) => company !== null && company.id === undefined && !company.isShared;
  const unbound = [...model.contacts].filter(({ id, company }) => id === undefined || isUnbound(company));
  for (let at = 0; at < unbound.length; at += 100) {
    const some = new Map(unbound.slice(at, at + 100).map((contact) => [contact.fields['last_name'], contact]));
    const body = { filters: { last_name: [...some.keys()] }, paginate: { limit: 100 } };
    const { body: found } = await client.send('POST', '/contacts/list', body);
    for (const record of found) bind(some.get(record.last_name), record);
    const lost = [...some.values()].filter(({ id }) => id === undefined);
    if (found.length !== some.size || lost.length > 0)
      throw new Difference(
        `${found.length} contacts have ${some.size} last names; not found: ${lost.slice(0, 5).map(describe).join('\n  ')}`,
      );
  }
  for (const company of model.companies) if (company.id === undefined) company.id = await findCompany(caller, company);
}

function bind(contact: Contact | undefined, record: { id: string; company: { id: string | null } }): void {
  if (!contact) return;
  contact.id ??= record.id;
  const { id } = record.company;
  if (contact.company && id !== null) contact.company.id ??= id;
}

/** Returns the id of a company that has no contact to find it by. */
async function findCompany({ client, model }: Caller, company: Company): Promise<string> {
  const { company_name, location_address_line_2: mark } = company.fields;
  const filters = mark === null ? { company_name } : { location_address_line_2: mark };
  const { body } = await client.send('POST', '/company/list', { filters, paginate: { limit: 100 } });
  const known = new Set([...model.companies].map(({ id }) => id));
  const ids = (body as { id: string }[]).flatMap(({ id }) => (known.has(id) ? [] : [id]));
  if (ids.length !== 1) throw new Difference(`${ids.length} new companies instead of one: ${describe(company)}`);
  return ids[0]!;
}

/** Returns a record with its latest operations, for the message of a failure. */
export const describe = ({
  id,
  fields,
  history,
}: {
  id: string | undefined;
  fields: Json;
  history: string[];
}): string => [`${id} ${JSON.stringify(fields)}`, ...history].join('\n    ');

interface Recorded {
  id: string | undefined;
  history: string[];
}

/** Creates a record, in the service and in the model. */
export async function createRecord<T extends Recorded>(
  { client }: Caller,
  path: string,
  body: Json,
  write: () => Outcome<T>,
): Promise<void> {
  const answer = await client.send('POST', path, body);
  const outcome = write();
  const request = `POST ${path} ${JSON.stringify(body)}`;
  expectStatus(answer, statusOf(outcome), request);
  if (outcome.status === 'failed') return;
  outcome.record.id = answer.body.data.id;
  remember([outcome.record], request);
}

/**
 * Changes or deletes a record, in the service and in the model. Sometimes with an `If-Match` of the tag that the record has now, or
 * of one that it no longer has: then nothing is written.
 */
export async function writeRecord(
  caller: Caller,
  method: 'PATCH' | 'DELETE',
  path: string,
  { record, body }: { record: Recorded; body?: Json },
  write: () => Outcome<unknown> | void,
): Promise<void> {
  const { client } = caller;
  const at = `${path}/${caller.idOf(record)}`;
  const isStale = caller.chance(8);
  const headers: Record<string, string> = isStale ? { 'if-match': '"a-tag-of-long-ago"' } : {};
  if (!isStale && caller.chance(18)) headers['if-match'] = (await client.send('GET', at)).headers.get('etag')!;
  const request = `${method} ${at} ${JSON.stringify({ body, headers })}`;
  const answer = await client.send(method, at, isStale && body ? {} : body, headers);
  if (isStale) return expectStatus(answer, 412, request, [record]);
  const outcome = write();
  expectStatus(answer, outcome ? statusOf(outcome) : 200, request, [record]);
  remember([record], request);
}
