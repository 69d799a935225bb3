import { record, type RecordedSql, type Fragment } from '../../src/filters/sql.ts';

/** Returns a recorded statement with its text on one line. */
export function printed(fragment: Fragment): RecordedSql {
  const { text, parameters } = record(fragment);
  return { text: text.replaceAll(/\s+/g, ' ').trim(), parameters };
}
