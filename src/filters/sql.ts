import type postgres from 'postgres';

/** A piece of an SQL statement with its parameters. */
export type Fragment = postgres.Fragment;

type Part = string | number | boolean | string[] | Fragment | Fragment[];

/**
 * Creates SQL fragments from template literals, but runs no statement. Connection pools and transactions also implement
 * this interface.
 */
export interface FragmentMaker {
  (template: TemplateStringsArray, ...parts: Part[]): Fragment;
  unsafe(text: string): Fragment;
}

const constants = new WeakMap<FragmentMaker, Map<string, Fragment>>();

/**
 * Returns a constant SQL text as a fragment. The text must be part of this program, never input from a caller.
 * Fragments are cached by text, because creating one is expensive.
 */
export function constant(sql: FragmentMaker, text: string): Fragment {
  const known = constants.get(sql) ?? new Map<string, Fragment>();
  if (known.size === 0) constants.set(sql, known);
  const made = known.get(text) ?? sql.unsafe(text);
  known.set(text, made);
  return made;
}

/**
 * Joins SQL fragments with a word or comma between them.
 * @param otherwise the SQL text to return if there are no fragments
 */
export function join(sql: FragmentMaker, fragments: Fragment[], word: 'and' | 'or' | ',', otherwise: string): Fragment {
  if (fragments.length === 0) return constant(sql, otherwise);
  return fragments.reduce((joined, fragment) => sql`${joined} ${constant(sql, word)} ${fragment}`);
}
