import { maxFaults, type Fault } from '../errors.ts';
import { isStorable } from './fold.ts';

/** Maximum nesting depth of JSON in requests. Prevents stack overflows in recursive functions. */
const maxDepth = 64;

/**
 * Parses JSON from outside. Rejects deep nesting, duplicate names in an object, and names such as `__proto__`.
 * @param maxValues maximum number of values; with the default, parsing takes at most 250 ms
 * @returns the value, or the reason for the rejection, such as `is nested deeper than 64 levels`
 */
export function parseJson(text: string, maxValues = 400_000): { value?: unknown; fault?: string } {
  const { colons, fault } = checkSize(text, maxValues);
  if (fault !== undefined) return { fault };
  try {
    const value: unknown = JSON.parse(text);
    return countNames(value) < colons ? { fault: 'names a property of one object twice' } : { value };
  } catch (error) {
    return { fault: error instanceof PrototypeNamed ? error.message : `is not valid JSON${whereOf(error)}` };
  }
}

function whereOf(error: unknown): string {
  const { message } = error as SyntaxError;
  const [, line, column] = /\(line (\d+) column (\d+)\)$/.exec(message) ?? [];
  const what = message.includes('after JSON') ? 'it goes on behind its end' : 'it breaks off';
  if (line === '1') return `: ${what} at character ${column}`;
  if (line !== undefined) return `: ${what} at line ${line}, column ${column}`;
  const [, token] = /^Unexpected token '([!-~])'/.exec(message) ?? [];
  return token === undefined ? '' : `: ${token} is unexpected`;
}

const [quote, backslash, colon, comma, openArray, closeArray, openObject, closeObject] = Array.from(
  '"\\:,[]{}',
  (one) => one.charCodeAt(0),
);

/** Counts the colons outside strings, or returns why the text is rejected. There is one colon for each property. */
function checkSize(text: string, maxValues: number): { colons: number; fault?: string } {
  let [colons, values, depth] = [0, 1, 0];
  for (let i = 0; i < text.length; i += 1) {
    const character = text.charCodeAt(i);
    if (character === quote) i = endOfString(text, i + 1);
    else if (character === colon) colons += 1;
    else if (character === comma) values += 1;
    else if (character === openArray || character === openObject) {
      values += 1;
      depth += 1;
      if (depth > maxDepth) return { colons, fault: `is nested deeper than ${maxDepth} levels` };
    } else if (character === closeArray || character === closeObject) depth -= 1;
  }
  return values > maxValues ? { colons, fault: `has more than ${maxValues} values` } : { colons };
}

function endOfString(text: string, start: number): number {
  let i = start;
  while (i < text.length && text.charCodeAt(i) !== quote) i += text.charCodeAt(i) === backslash ? 2 : 1;
  return i;
}

class PrototypeNamed extends Error {
  override readonly message = 'names a property `__proto__`, or `prototype` of a `constructor`, which is not allowed';
}

function countNames(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0;
  if (Array.isArray(value)) return value.reduce<number>((sum, element) => sum + countNames(element), 0);
  const names = Object.keys(value);
  let count = names.length;
  for (const name of names) {
    const member = (value as Record<string, unknown>)[name];
    const isPrototype = name === '__proto__' || (name === 'constructor' && Object.hasOwn(Object(member), 'prototype'));
    if (isPrototype) throw new PrototypeNamed();
    count += countNames(member);
  }
  return count;
}

const maxLength = 1_000;

/** Escapes a property name for a JSON pointer (RFC 6901). Shortens a very long name first. */
export const escapePointer = (name: string): string => beginningOf(name).replaceAll('~', '~0').replaceAll('/', '~1');

/** Returns the first `maxLength` UTF-16 units as a copy. A slice would keep the whole name in memory. */
const beginningOf = (name: string): string =>
  name.length > maxLength ? Array.from(name.slice(0, maxLength)).join('') : name;

export function pointerTo(tokens: readonly (string | number)[]): string {
  let pointer = '';
  for (const token of tokens) {
    if (pointer.length > maxLength) break;
    pointer += `/${escapePointer(String(token))}`;
  }
  return pointer;
}

export const tokensOf = (pointer: string): string[] =>
  pointer
    .split('/')
    .slice(1)
    .map((token) => token.replaceAll('~1', '/').replaceAll('~0', '~'));

/**
 * Returns a fault for each text that PostgreSQL cannot store. Stops after `maxFaults` + 1 faults.
 * @param body a JSON value; the caller has checked its nesting depth
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
