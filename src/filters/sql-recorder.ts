import type { Queryable } from '../database/db.ts';
import type { Fragment, FragmentMaker } from './sql.ts';

/** As the server receives it: `$n` stands for the n-th parameter. */
export interface RecordedSql {
  text: string;
  parameters: unknown[];
}

/** A fragment as plain data: pieces of text, with parameters or fragments between them. */
class Piece {
  readonly strings: readonly string[];
  readonly parts: readonly unknown[];

  constructor(strings: readonly string[], parts: readonly unknown[]) {
    this.strings = strings;
    this.parts = parts;
  }
}

/** Creates fragments that several statements can use. A fragment of the driver can be used only once. */
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

/** Runs a statement made with `recorder`, prepared if the connection allows it. */
export function run<Row extends object>(sql: Queryable, statement: Fragment): Promise<Row[]> {
  const { text, parameters } = record(statement);
  return sql.unsafe<Row[]>(text, parameters as string[], { prepare: true });
}
