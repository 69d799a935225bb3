import type { Fault } from '../../errors.ts';
import { pointerTo } from '../../text/json-pointer.ts';

const maxQuoted = 100;

export const quoted = (name: string): string =>
  JSON.stringify(name.length > maxQuoted ? `${name.slice(0, maxQuoted - 1).toWellFormed()}…` : name);

/**
 * Returns a fault for each two columns with the same field, with a field (`company`) and a part of it (`company.id`), or
 * with a full name and a part of it.
 */
export function clashesOf(headers: readonly string[], columns: readonly (string | null)[]): Fault[] {
  const first = new Map<string, number>();
  const faults: Fault[] = [];
  for (const [i, field] of columns.entries()) {
    if (field === null) continue;
    const other = first.get(field);
    if (other === undefined) first.set(field, i);
    else faults.push(clash(headers[other]!, headers[i]!, field));
  }
  for (const [field, i] of first) {
    const whole = wholeOf(field);
    const other = whole === undefined ? undefined : first.get(whole);
    if (other !== undefined) faults.push(clash(headers[other]!, headers[i]!, whole!));
  }
  return faults;
}

/** Returns the field of which another is a part. */
function wholeOf(field: string): string | undefined {
  if (field === 'first_name' || field === 'last_name') return 'full_name';
  return field.includes('.') ? field.slice(0, field.indexOf('.')) : undefined;
}

const clash = (first: string, second: string, field: string): Fault => ({
  path: pointerTo(['mapping', second]),
  message: `the columns ${quoted(first)} and ${quoted(second)} are both for the field ${quoted(field)}`,
});
