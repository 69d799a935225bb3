import type postgres from 'postgres';

/** A piece of an SQL statement with its parameters. */
export type Fragment = postgres.Fragment;

type Part = string | number | boolean | string[] | Fragment | Fragment[];

/**
 * Tagged-template function that creates SQL fragments: a pool or a transaction, with any type parameters. The modules in src/filters never run a statement.
 */
export interface FragmentMaker {
  (template: TemplateStringsArray, ...parts: Part[]): Fragment;
  unsafe(text: string): Fragment;
}

const constants = new WeakMap<FragmentMaker, Map<string, Fragment>>();

/**
 * Returns a constant SQL text of this program as a fragment. Never pass input from a caller. Each text's fragment is
 * cached, because the driver's fragments are promises and cost many times more than their text.
 */
export function constant(sql: FragmentMaker, text: string): Fragment {
  const known = constants.get(sql) ?? new Map<string, Fragment>();
  if (known.size === 0) constants.set(sql, known);
  const made = known.get(text) ?? sql.unsafe(text);
  known.set(text, made);
  return made;
}

/** Joins the fragments with a word between them. Returns `otherwise` if there are no fragments. */
export function join(sql: FragmentMaker, fragments: Fragment[], word: 'and' | 'or' | ',', otherwise: string): Fragment {
  if (fragments.length === 0) return constant(sql, otherwise);
  return fragments.reduce((joined, fragment) => sql`${joined} ${constant(sql, word)} ${fragment}`);
}
