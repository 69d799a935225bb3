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
    const whole = wholesOf(field).find((one) => first.has(one));
    if (whole !== undefined) faults.push(clash(headers[first.get(whole)!]!, headers[i]!, whole));
  }
  return faults;
}

const wholes: Readonly<Record<string, string>> = {
  first_name: 'full_name',
  last_name: 'full_name',
  pipeline: 'stage_id',
  stage: 'stage_id',
  'contacts.external_id': 'contacts_ids',
};

/** Returns the fields of which another is a part, or which it names by another value. */
function wholesOf(field: string): string[] {
  if (Object.hasOwn(wholes, field)) return [wholes[field]!];
  const name = field.split('.', 1)[0]!;
  return name === field ? [] : [name, `${name}_id`];
}

const clash = (first: string, second: string, field: string): Fault => ({
  path: pointerTo(['mapping', second]),
  message: `the columns ${quoted(first)} and ${quoted(second)} are both for the field ${quoted(field)}`,
});
