import { LRUCache } from 'lru-cache';
import type { Transaction } from '../../database/db.ts';
import { lowestId } from '../../database/wire-types.ts';
import { TimeSlice } from '../../process/event-loop.ts';
import { contactSource } from '../../filters/columns.ts';
import { compileFilter, type Matches } from '../../filters/matches.ts';
import { rulesFilter, rulesFilterInPieces } from '../../filters/rules.ts';
import type { Filter } from '../../filters/tree.ts';
import type { Rule } from '../../schemas/lists.ts';

export interface RuleList {
  id: string;
  matches: Matches;
}

/**
 * The compiled rules of all lists of a customer. They are locked, so they cannot change until the transaction ends. A
 * transaction that writes contacts or companies gets them at its start, and passes them to `refreshMembers` at its end.
 */
export interface LockedRules {
  isEmpty: boolean;
  /** Returns all lists that have rules, ordered by id, in batches. You can call it more than once. */
  lists: () => Iterable<readonly RuleList[]> | AsyncIterable<readonly RuleList[]>;
}

declare const isExclusive: unique symbol;

/** The id of a customer whose list rules this transaction has locked in exclusive mode. Only `lockRulesExclusive` returns one. */
export type WithExclusiveRules = string & { readonly [isExclusive]: true };

/** Returns `LockedRules` of lists that were read after the rules were locked. */
export const rulesOf = (lists: readonly RuleList[]): LockedRules => ({
  isEmpty: lists.length === 0,
  lists: () => [lists],
});

/**
 * Locks the rules of the customer's lists in shared mode until the transaction ends, and returns them. Other
 * transactions can hold the shared lock too, but cannot change rules. Take this lock before any row lock.
 */
export async function lockAndReadRules(sql: Transaction, customerId: string): Promise<LockedRules> {
  const version = await lockRulesShared(sql, customerId);
  if (version === undefined) return rulesOf([]);
  const { lists } = await findCompiled(sql, customerId, version);
  return lists ? rulesOf(lists) : { isEmpty: false, lists: () => readLists(sql, customerId) };
}

/**
 * Locks the rules of the customer's lists in shared mode until the transaction ends, without reading them. Take this
 * lock before any row lock.
 * @returns the version of the rules, or undefined if the customer never had rules
 */
export async function lockRulesShared(sql: Transaction, customerId: string): Promise<string | undefined> {
  // Both statements are sent together. The second statement's snapshot is taken after the first has the lock.
  const [, [current]] = await Promise.all([
    sql`select pg_advisory_xact_lock_shared(hashtextextended(${lockName(customerId)}, 0))`,
    sql<{ version: string }[]>`select version from rule_versions where customer_id = ${customerId}`,
  ]);
  return current?.version;
}

/**
 * Locks the rules of the customer's lists in exclusive mode until the transaction ends. Meanwhile, other transactions
 * cannot change rules or write contacts or companies. Take this lock before any row lock.
 */
export async function lockRulesExclusive(sql: Transaction, customerId: string): Promise<WithExclusiveRules> {
  await sql`select pg_advisory_xact_lock(hashtextextended(${lockName(customerId)}, 0))`;
  return customerId as WithExclusiveRules;
}

const lockName = (customerId: string): string => `rules:${customerId}`;

/**
 * Gives the rules of the customer's lists a new version number. Other processes then know that their cached rules are
 * out of date.
 * @returns the new version
 */
export async function bumpRuleVersion(sql: Transaction, customerId: WithExclusiveRules): Promise<string> {
  const [renewed] = await sql<{ version: string }[]>`
    insert into rule_versions (customer_id)
    values (${customerId})
    on conflict (customer_id) do update set version = excluded.version
    returning version`;
  return renewed!.version;
}

export const compileRules = (rules: readonly Rule[]): Matches =>
  compileFilter(contactSource, rulesFilter(contactSource.fields, rules));

interface CompiledRules {
  version: string;
  /** The customer's contact lists that have rules; undefined if their compiled rules are too large to cache. */
  lists: readonly RuleList[] | undefined;
  /** Estimated memory (bytes) of the compiled rules. */
  size: number;
}

/**
 * Maximum memory (bytes) of one customer's cached rules. Larger rules are not cached: they are read and compiled again
 * for each write, which is slow.
 */
const maxCachedBytes = 64 * 2 ** 20;

/**
 * Cache of compiled rules by customer id. An entry is valid if it has the current version of the rules; a version is
 * never used twice.
 */
const cache = new LRUCache<string, CompiledRules>({ maxSize: 2 * maxCachedBytes, sizeCalculation: ({ size }) => size });

/**
 * The compilations of list rules that are running now, by the version of the rules. If two transactions need the same
 * version, they share one compilation.
 */
const compiling = new Map<string, Promise<CompiledRules>>();

async function findCompiled(sql: Transaction, customerId: string, version: string): Promise<CompiledRules> {
  const cached = cache.get(customerId);
  if (cached?.version === version) return cached;
  // If the other transaction fails, this one compiles the rules.
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
    if (size > maxCachedBytes) return { version, lists: undefined, size: 1_000 };
    lists.push(...part);
  }
  return { version, lists, size };
}

/** Maximum size (bytes) of the stored rules that one statement reads. A statement also reads at most 200 lists. */
const bytesAtOnce = 64 * 1024;

/** Reads the customer's lists that have rules, in batches ordered by id, and compiles their rules. */
async function* readLists(sql: Transaction, customerId: string): AsyncGenerator<(RuleList & { size: number })[]> {
  for (let after = lowestId; ;) {
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
  const stretch = new TimeSlice();
  const compiled: (RuleList & { size: number })[] = [];
  for (const { id, rules } of lists) {
    const filter = await rulesFilterInPieces(contactSource.fields, rules, stretch);
    compiled.push({ id, matches: compileFilter(contactSource, filter), size: sizeOf(filter) });
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
