import type { Fragment, FragmentMaker } from './sql.ts';

/** A statement, or a piece of one, as the server is sent it: text with `$n` and the values of those. */
export interface Recorded {
  text: string;
  parameters: unknown[];
}

/** A fragment that was made by the recorder: text between which stand values and further pieces. */
class Piece {
  readonly strings: readonly string[];
  readonly parts: readonly unknown[];

  constructor(strings: readonly string[], parts: readonly unknown[]) {
    this.strings = strings;
    this.parts = parts;
  }
}

/** Makes fragments that can be kept, whereas the driver's are good for one statement of one connection. */
export const recorder: FragmentMaker = Object.assign(
  (strings: TemplateStringsArray, ...parts: unknown[]) => new Piece(strings, parts) as unknown as Fragment,
  { unsafe: (text: string) => new Piece([text], []) as unknown as Fragment },
);

/** Writes a recorded fragment out. The numbers of its parameters follow those already in `parameters`, to which they are added. */
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

/** The whole of a recorded statement. */
export function record(fragment: Fragment): Recorded {
  const parameters: unknown[] = [];
  return { text: writeOut(fragment, parameters), parameters };
}
