import type { Sql, Transaction } from '../database/db.ts';
import type { Fragment, FragmentMaker } from './sql.ts';

/** An SQL text as the server receives it, with `$n` for the n-th parameter, and its parameters. */
export interface RecordedSql {
  text: string;
  parameters: unknown[];
}

/** A fragment that the recorder created: pieces of text with values or further fragments between them. */
class Piece {
  readonly strings: readonly string[];
  readonly parts: readonly unknown[];

  constructor(strings: readonly string[], parts: readonly unknown[]) {
    this.strings = strings;
    this.parts = parts;
  }
}

/**
 * Creates fragments that can be stored and used again. The driver's own fragments work for one statement on one
 * connection. These are also cheaper: each fragment of the driver is a promise, and a filter can need thousands.
 */
export const recorder: FragmentMaker = Object.assign(
  (strings: TemplateStringsArray, ...parts: unknown[]) => new Piece(strings, parts) as unknown as Fragment,
  { unsafe: (text: string) => new Piece([text], []) as unknown as Fragment },
);

/**
 * Returns the SQL text of a recorded fragment and appends its parameters to `parameters`. Their numbers `$n` follow
 * those already there.
 */
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

/** Returns the SQL text and the parameters of a recorded statement. */
export function record(fragment: Fragment): RecordedSql {
  const parameters: unknown[] = [];
  return { text: writeOut(fragment, parameters), parameters };
}

/** Runs a recorded statement. In a lane that keeps statements prepared it is kept like one of the driver's. */
export function run<Row extends object>(sql: Sql | Transaction, statement: Fragment): Promise<Row[]> {
  const { text, parameters } = record(statement);
  return sql.unsafe<Row[]>(text, parameters as string[], { prepare: true });
}
