import { maxFaults, type Fault } from './errors.ts';

/** A value in a body, and where it stands. */
interface Place {
  value: unknown;
  key: string;
  parent: Place | undefined;
}

/**
 * Places of texts that Postgres cannot keep: with a NUL or a lone surrogate. A stack of its own, not recursion, and no
 * path before it is needed: the body chooses the depth.
 */
export function unkeepableTexts(body: unknown): Fault[] {
  const faults: Fault[] = [];
  const stack: Place[] = [{ value: body, key: '', parent: undefined }];
  for (let top = stack.pop(); top && faults.length < maxFaults; top = stack.pop()) {
    const { value, key } = top;
    if (!isKeepable(key))
      faults.push({ path: pointerTo(top.parent!), message: `a property name contains ${unkeepable}` });
    if (typeof value === 'string' && !isKeepable(value))
      faults.push({ path: pointerTo(top), message: `must not contain ${unkeepable}` });
    if (typeof value !== 'object' || value === null) continue;
    for (const [name, member] of Object.entries(value)) stack.push({ value: member, key: name, parent: top });
  }
  return faults;
}

const unkeepable = 'a NUL character or a lone surrogate';

const isKeepable = (text: string): boolean => !text.includes('\0') && text.isWellFormed();

/** RFC 6901. */
function pointerTo(place: Place): string {
  const tokens: string[] = [];
  for (let at = place; at.parent; at = at.parent)
    tokens.push(`/${at.key.toWellFormed().replaceAll('~', '~0').replaceAll('/', '~1')}`);
  return tokens.toReversed().join('');
}
