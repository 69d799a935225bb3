import type postgres from 'postgres';

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
    return !matchesRule({ id: '', fields }, { field, value, operator: positive[operator]!, logic_operator: '' });
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

const positive: Record<string, string> = { not_equals: 'equals', not_contains: 'contains', not_in: 'in' };

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

/** A customer's stored counts and memberships (`kept`, `members`), and the correct ones (`real`, `shouldBe`). */
export interface Recount {
  contacts: { kept: number; real: number };
  companies: { kept: number; real: number };
  /** Names of stored counts whose list does not exist. */
  orphans: string[];
  lists: {
    id: string;
    isFilling: boolean;
    isDeleted: boolean;
    kept: number;
    members: string[];
    shouldBe: string[];
    wrong: string[];
  }[];
}

/** Recounts a customer's records and memberships in one snapshot. */
export const recount = (owner: postgres.Sql, customerId: string): Promise<Recount> =>
  owner.begin('isolation level repeatable read', async (sql) => {
    const contacts = await readContacts(sql, customerId);
    const counters = await sql<{ counted: string; records: number }[]>`
      select counted, sum(records)::integer as records from counters where customer_id = ${customerId} group by counted`;
    const kept = new Map(counters.map(({ counted, records }) => [counted, records]));
    const [companies] = await sql<{ real: number }[]>`
      select count(*)::integer as real from companies where customer_id = ${customerId} and deleted_at is null`;
    const lists = await sql<{ id: string; rules: PlainRule[]; filling: boolean; deleted: boolean }[]>`
      select id, rules, fill_version is not null as filling, deleted_at is not null as deleted from lists where customer_id = ${customerId}`;
    const members = await sql<{ list_id: string; contact_id: string; by_hand: boolean; by_rule: boolean }[]>`
      select list_id, contact_id, by_hand, by_rule from list_members where customer_id = ${customerId}`;
    const copied = await sql<{ list_id: string; contact_id: string }[]>`
      select list_id, unnest(contact_ids) as contact_id from copied_members where customer_id = ${customerId}`;
    const existing = new Set(contacts.map(({ id }) => id));
    const known = new Set(['contacts', 'companies', ...lists.map(({ id }) => id)]);
    return {
      contacts: { kept: kept.get('contacts') ?? 0, real: contacts.length },
      companies: { kept: kept.get('companies') ?? 0, real: companies!.real },
      orphans: [...kept.keys()].filter((counted) => !known.has(counted)),
      lists: lists.map(({ id, rules, filling, deleted }) => {
        const rows = members.filter(({ list_id }) => list_id === id);
        const byHand = new Set(rows.filter((row) => row.by_hand).map(({ contact_id }) => contact_id));
        for (const one of copied) if (one.list_id === id && existing.has(one.contact_id)) byHand.add(one.contact_id);
        const byRule = new Set(rows.filter((row) => row.by_rule).map(({ contact_id }) => contact_id));
        const matching = new Set(
          contacts.filter((contact) => matchesRules(contact, rules)).map((contact) => contact.id),
        );
        return {
          id,
          isFilling: filling,
          isDeleted: deleted,
          kept: kept.get(id) ?? 0,
          members: rows.map(({ contact_id }) => contact_id).toSorted(),
          shouldBe: [...byHand.union(matching)].toSorted(),
          wrong: [...byRule.symmetricDifference(matching)],
        };
      }),
    };
  });

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
