import { maxFaults, type Fault } from '../errors.ts';
import { isStorable } from './code-points.ts';
import { pointerTo } from './json-pointer.ts';

/**
 * Returns a fault for each text that PostgreSQL cannot store. Stops after `maxFaults` + 1.
 * @param body a JSON value; the caller has checked that it is not nested too deeply
 */
export function findUnstorableText(body: unknown): Fault[] {
  const faults: Fault[] = [];
  const tokens: (string | number)[] = [];
  const visit = (value: unknown): void => {
    if (faults.length > maxFaults) return;
    if (typeof value === 'string' && !isStorable(value))
      faults.push({ path: pointerTo(tokens), message: `must not contain ${unstorable}` });
    if (typeof value !== 'object' || value === null) return;
    const keys = Array.isArray(value) ? value.keys() : Object.keys(value);
    for (const key of keys) {
      if (typeof key === 'string' && !isStorable(key))
        faults.push({ path: pointerTo(tokens), message: `a property name contains ${unstorable}` });
      tokens.push(key);
      visit((value as Record<string | number, unknown>)[key]);
      tokens.pop();
    }
  };
  visit(body);
  return faults.slice(0, maxFaults + 1);
}

const unstorable = 'a NUL character or a lone surrogate';
