import type postgres from 'postgres';

export type Fragment = postgres.Fragment;

type Part = string | number | boolean | string[] | Fragment | Fragment[];

/** Creates fragments from template literals, but runs nothing. Connection pools and transactions implement it too. */
export interface FragmentMaker {
  (template: TemplateStringsArray, ...parts: Part[]): Fragment;
  unsafe(text: string): Fragment;
}

const constants = new WeakMap<FragmentMaker, Map<string, Fragment>>();

/**
 * Returns a constant of this program, never a caller's input. Cached by text, because creating a fragment is expensive.
 */
export function constant(sql: FragmentMaker, text: string): Fragment {
  const known = constants.get(sql) ?? new Map<string, Fragment>();
  if (known.size === 0) constants.set(sql, known);
  const made = known.get(text) ?? sql.unsafe(text);
  known.set(text, made);
  return made;
}

/** @param otherwise the text to return if there are no fragments */
export function join(sql: FragmentMaker, fragments: Fragment[], word: 'and' | 'or' | ',', otherwise: string): Fragment {
  if (fragments.length === 0) return constant(sql, otherwise);
  return fragments.reduce((joined, fragment) => sql`${joined} ${constant(sql, word)} ${fragment}`);
}
