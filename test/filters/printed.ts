import { record, type Recorded } from '../../src/filters/recorded.ts';
import type { Fragment } from '../../src/filters/sql.ts';

/** Returns a recorded statement with its text on one line. */
export function printed(fragment: Fragment): Recorded {
  const { text, parameters } = record(fragment);
  return { text: text.replaceAll(/\s+/g, ' ').trim(), parameters };
}
