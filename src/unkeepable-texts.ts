import { isStorable } from './code-points.ts';
import { maxFaults, type Fault } from './errors.ts';
import { pointerTo } from './json-pointer.ts';

/**
 * Places of texts that Postgres cannot keep: with a NUL or a lone surrogate. Ends with the first fault past `maxFaults`.
 * @param body a JSON value no deeper than a body may be
 */
export function unkeepableTexts(body: unknown): Fault[] {
  const faults: Fault[] = [];
  const tokens: (string | number)[] = [];
  const visit = (value: unknown): void => {
    if (faults.length > maxFaults) return;
    if (typeof value === 'string' && !isStorable(value))
      faults.push({ path: pointerTo(tokens), message: `must not contain ${unkeepable}` });
    if (typeof value !== 'object' || value === null) return;
    const keys = Array.isArray(value) ? value.keys() : Object.keys(value);
    for (const key of keys) {
      if (typeof key === 'string' && !isStorable(key))
        faults.push({ path: pointerTo(tokens), message: `a property name contains ${unkeepable}` });
      tokens.push(key);
      visit((value as Record<string | number, unknown>)[key]);
      tokens.pop();
    }
  };
  visit(body);
  return faults.slice(0, maxFaults + 1);
}

const unkeepable = 'a NUL character or a lone surrogate';
