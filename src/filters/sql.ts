import { LRUCache } from 'lru-cache';
import type postgres from 'postgres';
import type { Queryable } from '../database/db.ts';

export type Fragment = postgres.Fragment;

type Part = string | number | boolean | string[] | Fragment | Fragment[];

export interface FragmentMaker {
  (template: TemplateStringsArray, ...parts: Part[]): Fragment;
  unsafe(text: string): Fragment;
}

const constants = new WeakMap<FragmentMaker, Map<string, Fragment>>();

/**
 * Returns a fragment of SQL text that is a constant of this program, never a caller's input. Fragments are cached,
 * because creating one is expensive.
 */
export function constant(sql: FragmentMaker, text: string): Fragment {
  const known = constants.get(sql) ?? new Map<string, Fragment>();
  if (known.size === 0) constants.set(sql, known);
  const made = known.get(text) ?? sql.unsafe(text);
  known.set(text, made);
  return made;
}

function join(sql: FragmentMaker, fragments: Fragment[], word: 'and' | 'or' | ',', otherwise: string): Fragment {
  if (fragments.length === 0) return constant(sql, otherwise);
  return fragments.reduce((joined, fragment) => sql`${joined} ${constant(sql, word)} ${fragment}`);
}

export const commaList = (sql: FragmentMaker, fragments: Fragment[]): Fragment => join(sql, fragments, ',', '');

/** Returns the SQL condition that all of these conditions hold, in parentheses. */
export const allOf = (sql: FragmentMaker, conditions: Fragment[]): Fragment =>
  sql`(${join(sql, conditions, 'and', 'true')})`;

/** Returns the SQL condition that at least one of these conditions holds, in parentheses. */
export const anyOf = (sql: FragmentMaker, conditions: Fragment[]): Fragment =>
  sql`(${join(sql, conditions, 'or', 'false')})`;

export interface RecordedSql {
  text: string;
  parameters: unknown[];
}

class Piece {
  readonly strings: readonly string[];
  readonly parts: readonly unknown[];

  constructor(strings: readonly string[], parts: readonly unknown[]) {
    this.strings = strings;
    this.parts = parts;
  }
}

/** Creates fragments that several statements can use. The driver's own fragments can be used only once. */
export const recorder: FragmentMaker = Object.assign(
  // A fragment of the driver also costs more, because it is a promise. A filter can need thousands of fragments.
  (strings: TemplateStringsArray, ...parts: unknown[]) => new Piece(strings, parts) as unknown as Fragment,
  { unsafe: (text: string) => new Piece([text], []) as unknown as Fragment },
);

function writeOut(fragment: Fragment, parameters: unknown[]): string {
  const { strings, parts } = fragment as unknown as Piece;
  return strings.reduce((text, string, i) => text + writePart(parts[i - 1], parameters) + string);
}

function writePart(part: unknown, parameters: unknown[]): string {
  if (part instanceof Piece) return writeOut(part as unknown as Fragment, parameters);
  if (Array.isArray(part) && part[0] instanceof Piece)
    return part.map((piece) => writeOut(piece as Fragment, parameters)).join(' ');
  return `$${parameters.push(part)}`;
}

export function record(fragment: Fragment): RecordedSql {
  const parameters: unknown[] = [];
  return { text: writeOut(fragment, parameters), parameters };
}

const recentUnprepared = new LRUCache<string, true>({ max: 500 });

// The server keeps a prepared statement (80 KB) on each connection until it closes, which is within 40 minutes.
/** Texts of prepared statements: at most 100 in an hour, so that callers with ever new filters cannot fill the memory. */
const prepared = new LRUCache<string, true>({ max: 100, ttl: 3_600_000 });
const maxPreparedLength = 10_000;

/**
 * Returns true if a statement is to be prepared, which saves a round trip and its parsing: from its second run on, if
 * few other statements are prepared.
 */
function isPrepared(text: string): boolean {
  if (prepared.has(text)) return true;
  const isRepeated = recentUnprepared.has(text);
  recentUnprepared.set(text, true);
  prepared.purgeStale();
  if (!isRepeated || prepared.size === prepared.max || text.length > maxPreparedLength) return false;
  prepared.set(text, true);
  return true;
}

/** Runs a statement that was made with `recorder`. */
export function run<Row extends object>(sql: Queryable, statement: Fragment): Promise<Row[]> {
  const { text, parameters } = record(statement);
  return sql.unsafe<Row[]>(text, parameters as string[], { prepare: isPrepared(text) });
}

/*
 * The rows of deleted companies and lists stay for `HISTORY_DAYS`, and until then contacts, opportunities and memberships
 * refer to them. So a statement takes companies and lists from here. `test/live-records.test.ts` fails if one names the
 * tables itself.
 */

export const isLive = (alias: string): string => `${alias}.deleted_at is null`;

/**
 * Returns SQL for the clauses `from` and `where` that selects the customer's companies, except deleted ones. Append
 * further conditions: ``select id from ${liveCompanies(sql, customerId)} and id = …``.
 */
export const liveCompanies = (sql: FragmentMaker, customerId: string, alias = 'co'): Fragment =>
  live(sql, 'companies', customerId, alias);

export const liveLists = (sql: FragmentMaker, customerId: string, alias = 'l'): Fragment =>
  live(sql, 'lists', customerId, alias);

/** Returns SQL for the contacts or companies `r` of a customer, without deleted ones. */
export const liveRecords = (sql: FragmentMaker, table: 'contacts' | 'companies', customerId: string): Fragment =>
  table === 'companies'
    ? liveCompanies(sql, customerId, 'r')
    : sql`contacts r where r.customer_id = ${customerId}::uuid`;

const live = (sql: FragmentMaker, table: string, customerId: string, alias: string): Fragment =>
  sql`${constant(sql, `${table} ${alias} where ${alias}.customer_id =`)} ${customerId}::uuid and ${constant(sql, isLive(alias))}`;
