import type postgres from 'postgres';

/** A piece of SQL with its parameters, to be put into a statement. */
export type Fragment = postgres.Fragment;

type Part = string | number | boolean | string[] | Fragment | Fragment[];

/** What makes fragments: a pool or a transaction, whatever its types. Nothing in here runs one. */
export interface FragmentMaker {
  (template: TemplateStringsArray, ...parts: Part[]): Fragment;
  unsafe(text: string): Fragment;
}

const constants = new WeakMap<FragmentMaker, Map<string, Fragment>>();

/**
 * A text of this program as a fragment, never one of a caller. Made once: the driver's fragments are promises, many
 * times dearer than the text in them.
 */
export function constant(sql: FragmentMaker, text: string): Fragment {
  const known = constants.get(sql) ?? new Map<string, Fragment>();
  if (known.size === 0) constants.set(sql, known);
  const made = known.get(text) ?? sql.unsafe(text);
  known.set(text, made);
  return made;
}

/** The fragments with a word between them; `otherwise` when there is none. */
export function join(sql: FragmentMaker, fragments: Fragment[], word: 'and' | 'or' | ',', otherwise: string): Fragment {
  if (fragments.length === 0) return constant(sql, otherwise);
  return fragments.reduce((joined, fragment) => sql`${joined} ${constant(sql, word)} ${fragment}`);
}
