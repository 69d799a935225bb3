import { isDeepStrictEqual } from 'node:util';
import type postgres from 'postgres';
import type { TestCustomer } from '../../setup/factories.ts';
import { readTotalsOf } from '../../setup/journal.ts';

// Computes the members of each list in a simple way: it reads the rows and evaluates the rules in a loop. It shares no
// code with the service, so that both cannot have the same fault.

/** A rule as the API returns it. */
export interface PlainRule {
  field: string;
  operator: string;
  value: string;
  logic_operator: string;
}

export interface PlainContact {
  id: string;
  fields: Record<string, unknown>;
}

/** Folds a text for comparison. Correct for Latin letters only; the tests use no others. */
export const plainFold = (value: unknown): string =>
  String(value)
    .normalize('NFKD')
    .replaceAll(/[\u0300-\u036f]/g, '')
    .toLowerCase()
    .trim()
    .replaceAll(/\s+/g, ' ');

const isEmpty = (value: unknown): boolean => value === null || value === undefined || value === '';

/** Returns whether a contact matches one rule. */
export function matchesRule({ fields }: PlainContact, { field, operator, value }: PlainRule): boolean {
  const actual = fields[field];
  if (operator.startsWith('not_'))
    return !matchesRule({ id: '', fields }, { field, value, operator: positive(operator), logic_operator: '' });
  if (operator === 'is_empty') return isEmpty(actual);
  if (operator === 'is_not_empty') return !isEmpty(actual);
  if (actual === null || actual === undefined) return false;
  if (operator === 'in') return value.split(',').some((one) => plainFold(one) === plainFold(actual));
  if (typeof actual === 'number') return compareNumbers(actual, operator, Number(value));
  if (actual instanceof Date) return compareNumbers(actual.getTime(), operator, Date.parse(value));
  const [text, wanted] = [plainFold(actual), plainFold(value)];
  if (operator === 'equals') return text === wanted;
  if (operator === 'contains') return text.includes(wanted);
  if (operator === 'starts_with') return text.startsWith(wanted);
  if (operator === 'ends_with') return text.endsWith(wanted);
  throw new Error(`The recount does not support the operator ${operator}`);
}

const positive = (operator: string): string => operator.slice('not_'.length);

function compareNumbers(actual: number, operator: string, wanted: number): boolean {
  if (operator === 'equals') return actual === wanted;
  if (operator === 'greater_than') return actual > wanted;
  if (operator === 'greater_or_equal') return actual >= wanted;
  if (operator === 'less_than') return actual < wanted;
  if (operator === 'less_or_equal') return actual <= wanted;
  throw new Error(`The recount does not support the operator ${operator} for numbers`);
}

/** Returns whether a contact matches the rules. `OR` starts a new group; all rules of at least one group must match. */
export function matchesRules(contact: PlainContact, rules: readonly PlainRule[]): boolean {
  const runs: PlainRule[][] = [];
  for (const [i, rule] of rules.entries()) {
    if (i === 0 || rule.logic_operator === 'OR') runs.push([rule]);
    else runs.at(-1)!.push(rule);
  }
  return runs.some((run) => run.every((rule) => matchesRule(contact, rule)));
}

/** Returns custom fields under the names that rules have for them. */
export const customFields = (given: Record<string, unknown>): Record<string, unknown> =>
  Object.fromEntries(Object.entries(given).map(([key, value]) => [`custom_fields.${key}`, value]));

/** A customer's stored counts (`kept`), the correct ones (`real`), and the correct members of each list. */
export interface Recount {
  contacts: { kept: number; real: number };
  companies: { kept: number; real: number };
  lists: { id: string; isDeleted: boolean; shouldBe: string[] }[];
}

/** Recounts a customer's records and memberships in one snapshot. */
export const recount = (owner: postgres.Sql, customerId: string): Promise<Recount> =>
  owner.begin('isolation level repeatable read', async (sql) => {
    const contacts = await readContacts(sql, customerId);
    const kept = await readTotalsOf(sql as never, customerId);
    const [companies] = await sql<{ real: number }[]>`
      select count(*)::integer as real from companies where customer_id = ${customerId} and deleted_at is null`;
    const lists = await sql<{ id: string; rules: PlainRule[]; is_deleted: boolean }[]>`
      select id, rules, deleted_at is not null as is_deleted from lists where customer_id = ${customerId}`;
    const members = await sql<{ list_id: string; contact_id: string }[]>`
      select list_id, contact_id from list_members where customer_id = ${customerId}`;
    return {
      contacts: { kept: kept.contacts, real: contacts.length },
      companies: { kept: kept.companies, real: companies!.real },
      lists: lists.map(({ id, rules, is_deleted: isDeleted }) => {
        const byHand = members.filter(({ list_id }) => list_id === id).map(({ contact_id }) => contact_id);
        const matching = contacts.filter((contact) => matchesRules(contact, rules)).map((contact) => contact.id);
        return { id, isDeleted, shouldBe: [...new Set([...byHand, ...matching])].toSorted() };
      }),
    };
  });

/** A caller of the API. */
type Reader = Pick<TestCustomer, 'get' | 'post'>;

/** Returns the members of a list as the API shows them, from all pages, ordered by id. */
export async function membersOf(by: Reader, id: string): Promise<string[]> {
  const members: string[] = [];
  for (let cursor: string | undefined, isFirst = true; isFirst || cursor; isFirst = false) {
    const paginate = { limit: 100, ...(cursor ? { cursor } : {}) };
    const { body, headers } = await by.post('/contacts/list', { filters: { list_id: id }, paginate });
    members.push(...body.map((contact: { id: string }) => contact.id));
    cursor = headers['x-next-cursor'] as string | undefined;
  }
  return members.toSorted();
}

/**
 * Returns what the API shows wrong: lists with other members, or another number of them, than the rows say; and stored
 * counts that are not right. `[]` if all is right.
 */
export async function wrongCounts(by: Reader & { id: string }, owner: postgres.Sql): Promise<unknown[]> {
  const { contacts, companies, lists } = await recount(owner, by.id);
  const wrong: unknown[] = [];
  if (contacts.kept !== contacts.real || companies.kept !== companies.real) wrong.push({ contacts, companies });
  for (const { id, isDeleted, shouldBe } of lists) {
    if (isDeleted) continue;
    const { contacts_count } = (await by.get(`/list-contact/${id}`)).body;
    const { pagination } = (await by.post('/contacts/metadata', { filters: { list_id: id } })).body;
    const shown = { members: await membersOf(by, id), counts: [contacts_count, pagination.total_records] };
    const correct = { members: shouldBe, counts: [shouldBe.length, shouldBe.length] };
    if (!isDeepStrictEqual(shown, correct)) wrong.push({ id, shown, correct });
  }
  return wrong;
}

async function readContacts(sql: postgres.TransactionSql, customerId: string): Promise<PlainContact[]> {
  const rows = await sql<Record<string, unknown>[]>`
    select
      c.*,
      co.id as company_id,
      co.company_name,
      co.industry as company_industry
    from contacts c
    left join companies co on co.customer_id = c.customer_id and co.id = c.company_id and co.deleted_at is null
    where c.customer_id = ${customerId}`;
  return rows.map((row) => ({
    id: row['id'] as string,
    fields: {
      ...row,
      ...customFields(row['custom_fields'] as Record<string, unknown>),
      'company.company_name': row['company_name'] ?? '',
      'company.industry': row['company_industry'] ?? '',
    },
  }));
}
