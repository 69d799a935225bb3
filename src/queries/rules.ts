import type { Transaction } from '../db.ts';
import { contactSource } from '../filters/columns.ts';
import { recorder, writeOut } from '../filters/recorded.ts';
import { rulesFilter } from '../filters/rules.ts';
import { toSql } from '../filters/to-sql.ts';
import type { Filter } from '../filters/tree.ts';
import type { Rule } from '../schemas/lists.ts';
import { writeCounts } from './counters.ts';

/**
 * The statements that evaluate the rules of some lists for the contacts written, and the values that stand in the rules.
 * Where there is one contact, its id stands alone: the server then sees that a plan for any id is as good as one for
 * this, and plans once instead of each time, which takes longer than what is planned.
 */
export interface CompiledRules {
  forNew: string;
  forOne: string;
  forMany: string;
  values: unknown[];
}

/**
 * The rules of a customer, in force until the transaction that got this ends. Whoever writes contacts or companies needs
 * it before the write, and gives it to `refreshMembers` after: then the members are exact, whatever happens at once.
 */
export interface HeldRules {
  compiled: readonly CompiledRules[];
  /** Whether the statements are to stay prepared. */
  prepare: boolean;
}

/** What `list_members` has to hold of one list. */
export interface ListRules {
  id: string;
  filter: Filter;
}

const noRules: HeldRules = { compiled: [], prepare: false };

interface CachedRules {
  version: string;
  compiled: readonly CompiledRules[];
  uses: number;
}

/** Compiled rules by customer, the least recently used first. A version is never used twice, so what is here stays right. */
const cache = new Map<string, CachedRules>();
const cachedCustomers = 1_000;

/**
 * Keeps the customer's rules as they are until the transaction ends. Any number of writers hold them at once; a change of
 * rules waits for all of them, and they for it. Take it first: before any row.
 */
export async function holdRules(sql: Transaction, customerId: string): Promise<HeldRules> {
  // Sent together. The second statement's snapshot is taken after the first one's lock is there.
  const [, [current]] = await Promise.all([
    sql`select pg_advisory_xact_lock_shared(hashtextextended(${lockName(customerId)}, 0))`,
    sql<{ version: string }[]>`select version from rule_versions where customer_id = ${customerId}`,
  ]);
  if (!current) return noRules;
  const cached = cache.get(customerId);
  const rules = cached?.version === current.version ? cached : await compileRules(sql, customerId, current.version);
  remember(customerId, rules);
  return { compiled: rules.compiled, prepare: isWorthPreparing(rules) };
}

/** The versions whose statements are kept prepared, of this while. */
const prepared = { versions: new Set<string>(), since: performance.now() };
const preparedForMs = 20 * 60_000;
const preparedAtOnce = 32;
const usesWorthPreparing = 10;

/**
 * Preparing saves the planning, half of what the statements take; and takes 300 kB a statement on every connection until
 * that is replaced, within the hour. So it is done for a number of customers, of those who write much.
 */
function isWorthPreparing(rules: CachedRules): boolean {
  if (performance.now() - prepared.since > preparedForMs)
    Object.assign(prepared, { versions: new Set(), since: performance.now() });
  rules.uses += 1;
  if (rules.uses > usesWorthPreparing && prepared.versions.size < preparedAtOnce) prepared.versions.add(rules.version);
  return prepared.versions.has(rules.version);
}

/** Lets nobody write contacts or companies of the customer, nor change rules, until the transaction ends. Take it first. */
export async function lockRules(sql: Transaction, customerId: string): Promise<void> {
  await sql`select pg_advisory_xact_lock(hashtextextended(${lockName(customerId)}, 0))`;
}

const lockName = (customerId: string): string => `rules:${customerId}`;

/**
 * Tells every process that rules have changed. The rules have to be locked.
 * @returns the new version
 */
export async function renewRuleVersion(sql: Transaction, customerId: string): Promise<string> {
  const [renewed] = await sql<{ version: string }[]>`
    insert into rule_versions (customer_id)
    values (${customerId})
    on conflict (customer_id) do update set version = default
    returning version`;
  return renewed!.version;
}

function remember(customerId: string, rules: CachedRules): void {
  cache.delete(customerId);
  cache.set(customerId, rules);
  if (cache.size > cachedCustomers) cache.delete(cache.keys().next().value!);
}

async function compileRules(sql: Transaction, customerId: string, version: string): Promise<CachedRules> {
  const lists = await sql<{ id: string; rules: Rule[] }[]>`
    select id, rules
    from lists
    where customer_id = ${customerId}
      and rules <> '[]'
    order by id`;
  const read = lists.map(({ id, rules }) => ({ id, filter: rulesFilter(contactSource.fields, rules) }));
  return { version, compiled: chunks(read).map(compile), uses: 0 };
}

/** Lists that one statement evaluates; a statement may have 65,535 parameters, a list 50 rules with few each. */
const listsTogether = 200;

function chunks<T>(all: readonly T[]): T[][] {
  const count = Math.ceil(all.length / listsTogether);
  return Array.from({ length: count }, (_, i) => all.slice(i * listsTogether, (i + 1) * listsTogether));
}

/**
 * The statements that make the rows of these lists agree with their rules for the contacts of $4, and write the counts
 * with it: $1 customer, $2 and $3 counts that changed besides. Nobody else may change the rows of these contacts meanwhile.
 */
export function compile(lists: readonly ListRules[]): CompiledRules {
  const parameters: unknown[] = [...fixedParameters];
  const tests = lists.map(({ id, filter }) =>
    writeOut(recorder`(${id}::uuid, (${toSql(recorder, contactSource, filter)}) is true)`, parameters),
  );
  const matching = (ids: string) => matchingContacts(tests.join(', '), ids);
  const of = `and m.list_id = any('{${lists.map(({ id }) => id).join(',')}}'::uuid[])`;
  return {
    values: parameters.slice(fixedParameters.length),
    forNew: `with ${matching('= $4::uuid')}, ${comeNew} ${writeCounts(comeAndGiven)}`,
    forOne: `with ${matching('= $4::uuid')}, ${come}, ${leave('= $4::uuid', of)} ${writeCounts(`${comeAndGiven} ${andGone}`)}`,
    forMany: `with ${matching('= any($4::uuid[])')}, ${come}, ${leave('= any($4::uuid[])', of)} ${writeCounts(`${comeAndGiven} ${andGone}`)}`,
  };
}

const fixedParameters = ['customer', 'counted', 'changes', 'contacts'];

const matchingContacts = (tests: string, ids: string): string => `
  matching as materialized (
    select l.list_id, c.id as contact_id
    from ${contactSource.from}
    cross join lateral (values ${tests}) as l (list_id, matches)
    where c.customer_id = $1::uuid
      and c.id ${ids}
      and l.matches
  )`;

const enter = (condition: string): string => `
  come as (
    insert into list_members (customer_id, list_id, contact_id, by_hand, by_rule)
    select $1::uuid, n.list_id, n.contact_id, false, true
    from matching n
    ${condition}
    on conflict (customer_id, list_id, contact_id) do update
    set by_rule = true
    returning new.list_id, old.list_id is null as is_new
  )`;

const comeNew = enter('');

const come = enter(`
    where not exists (
      select from list_members m
      where m.customer_id = $1::uuid
        and m.list_id = n.list_id
        and m.contact_id = n.contact_id
        and m.by_rule
    )`);

const leave = (ids: string, of: string): string => {
  const noLongerMatching = `
    where m.customer_id = $1::uuid
      and m.contact_id ${ids}
      ${of}
      and m.by_rule
      and not exists (select from matching n where n.list_id = m.list_id and n.contact_id = m.contact_id)`;
  return `
  gone as (
    delete from list_members m
    ${noLongerMatching}
      and not m.by_hand
    returning m.list_id
  ),
  kept as (
    update list_members m
    set by_rule = false
    ${noLongerMatching}
      and m.by_hand
  )`;
};

const comeAndGiven = `
    select come.list_id::text as counted, 1 as change from come where come.is_new
    union all
    select * from unnest($2::text[], $3::integer[])`;

const andGone = `
    union all
    select gone.list_id::text, -1 from gone`;
