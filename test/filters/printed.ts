import type { Fragment, FragmentMaker } from '../../src/filters/sql.ts';

/** A statement as it goes to the server. */
export interface Printed {
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

/** Makes fragments that are only ever printed. */
export const printer: FragmentMaker = Object.assign(
  (template: TemplateStringsArray, ...parts: unknown[]) => new Piece(template, parts) as unknown as Fragment,
  { unsafe: (text: string) => new Piece([text], []) as unknown as Fragment },
);

/** The text of a fragment in one line, its parameters numbered as the driver does. */
export function printed(fragment: Fragment): Printed {
  const parameters: unknown[] = [];
  const write = (part: unknown): string => {
    if (!(part instanceof Piece)) return `$${parameters.push(part)}`;
    return part.strings.map((text, i) => text + (i < part.parts.length ? write(part.parts[i]) : '')).join('');
  };
  return { text: write(fragment).replaceAll(/\s+/g, ' ').trim(), parameters };
}
