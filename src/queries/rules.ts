import { LRUCache } from 'lru-cache';
import type { Transaction } from '../db.ts';
import { Stretch } from '../event-loop.ts';
import { exactContactSource } from '../filters/columns.ts';
import { compileFilter, type Matches } from '../filters/matches.ts';
import { rulesFilter, rulesFilterInPieces } from '../filters/rules.ts';
import type { Filter } from '../filters/tree.ts';
import type { Rule } from '../schemas/lists.ts';

/** A list whose members depend on rules. */
export interface RuleList {
  id: string;
  /** Whether a contact matches the list's rules. */
  matches: Matches;
}

/**
 * The rules of a customer, in force until the transaction that got this ends. Whoever writes contacts or companies needs
 * it before the write, and gives it to `refreshMembers` after: then the members are exact, whatever happens at once.
 */
export interface HeldRules {
  isEmpty: boolean;
  /** Returns all lists with rules, a part of them at a time, ordered by id. Can be called again. */
  lists: () => Iterable<readonly RuleList[]> | AsyncIterable<readonly RuleList[]>;
}

/** Rules of some lists, whose holder the caller has taken care of. */
export const rulesOf = (lists: readonly RuleList[]): HeldRules => ({
  isEmpty: lists.length === 0,
  lists: () => [lists],
});

/**
 * Keeps the customer's rules as they are until the transaction ends. Any number of writers hold them at once; a change of
 * rules waits for all of them, and they for it. Take it first: before any row.
 */
export async function holdRules(sql: Transaction, customerId: string): Promise<HeldRules> {
  const version = await keepRules(sql, customerId);
  if (version === undefined) return rulesOf([]);
  const { lists } = await findCompiled(sql, customerId, version);
  return lists ? rulesOf(lists) : { isEmpty: false, lists: () => readLists(sql, customerId) };
}

/**
 * The same for who does not evaluate the rules.
 * @returns their version, if the customer ever had any
 */
export async function keepRules(sql: Transaction, customerId: string): Promise<string | undefined> {
  // Sent together. The second statement's snapshot is taken after the first one's lock is there.
  const [, [current]] = await Promise.all([
    sql`select pg_advisory_xact_lock_shared(hashtextextended(${lockName(customerId)}, 0))`,
    sql<{ version: string }[]>`select version from rule_versions where customer_id = ${customerId}`,
  ]);
  return current?.version;
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
    on conflict (customer_id) do update set version = excluded.version
    returning version`;
  return renewed!.version;
}

/** Compiles the rules of a list. */
export const compileRules = (rules: readonly Rule[]): Matches =>
  compileFilter(exactContactSource, rulesFilter(exactContactSource.fields, rules));

/** The rules of one customer. */
interface CompiledRules {
  version: string;
  /** Every list with rules; undefined if they are too large to be kept. */
  lists: readonly RuleList[] | undefined;
  /** Estimate of the memory (bytes) that they take. */
  size: number;
}

/** Memory (bytes) for the rules of one customer. Larger ones are read and compiled in parts for each write, which is slow. */
const largestKept = 64 * 2 ** 20;

/** Compiled rules by customer. A version is never used twice, so what is here stays right. */
const cache = new LRUCache<string, CompiledRules>({ maxSize: 2 * largestKept, sizeCalculation: ({ size }) => size });

/** Rules that are being compiled, by version: whoever needs the same waits for them. */
const compiling = new Map<string, Promise<CompiledRules>>();

async function findCompiled(sql: Transaction, customerId: string, version: string): Promise<CompiledRules> {
  const cached = cache.get(customerId);
  if (cached?.version === version) return cached;
  // It fails if that other transaction does: then this one tries.
  const other = compiling.get(version);
  if (other) return other.catch(() => findCompiled(sql, customerId, version));
  const compiled = compileAll(sql, customerId, version);
  compiling.set(version, compiled);
  try {
    cache.set(customerId, await compiled);
    return await compiled;
  } finally {
    compiling.delete(version);
  }
}

async function compileAll(sql: Transaction, customerId: string, version: string): Promise<CompiledRules> {
  const lists: RuleList[] = [];
  let size = 1_000;
  for await (const part of readLists(sql, customerId)) {
    size += part.reduce((sum, list) => sum + list.size, 0);
    if (size > largestKept) return { version, lists: undefined, size: 1_000 };
    lists.push(...part);
  }
  return { version, lists, size };
}

/** Bytes of rules, as they are stored, that are read at a time: more than that in one list, or in up to 200. */
const bytesAtOnce = 64 * 1024;

/** Reads and compiles the lists with rules, ordered by id. */
async function* readLists(sql: Transaction, customerId: string): AsyncGenerator<(RuleList & { size: number })[]> {
  for (let after = '00000000-0000-0000-0000-000000000000'; ;) {
    const rows = await sql<{ id: string; rules: Rule[] }[]>`
      select id, rules
      from (
        select id, rules, sum(pg_column_size(rules)) over (order by id) - pg_column_size(rules) as bytes_before
        from lists
        where customer_id = ${customerId}
          and rule_count > 0
          and id > ${after}
        order by id
        limit 200
      ) next
      where bytes_before < ${bytesAtOnce}
      order by id`;
    if (rows.length === 0) return;
    yield await compileLists(rows);
    after = rows.at(-1)!.id;
  }
}

async function compileLists(lists: readonly { id: string; rules: Rule[] }[]): Promise<(RuleList & { size: number })[]> {
  const stretch = new Stretch();
  const compiled: (RuleList & { size: number })[] = [];
  for (const { id, rules } of lists) {
    const filter = await rulesFilterInPieces(exactContactSource.fields, rules, stretch);
    compiled.push({ id, matches: compileFilter(exactContactSource, filter), size: sizeOf(filter) });
    if (stretch.isOver) await stretch.pause();
  }
  return compiled;
}

/** Estimates the memory (bytes) that a compiled filter takes. */
function sizeOf(filter: Filter): number {
  const own = 500;
  if (filter.kind === 'all' || filter.kind === 'any') return filter.of.reduce((sum, one) => sum + sizeOf(one), own);
  if (filter.kind === 'not') return own + sizeOf(filter.of);
  return filter.kind === 'in'
    ? filter.values.reduce<number>((sum, value) => sum + 60 + 2 * String(value).length, own)
    : 2 * own;
}
