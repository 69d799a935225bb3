import { TimeSlice } from '../process/event-loop.ts';
import { countMembers } from './json-text.ts';

/** A value, and the number of properties of all its objects. A name that occurs twice in an object counts once. */
export interface ParsedJson {
  value: unknown;
  names: number;
}

/** Approximate size of the pieces of a large JSON text (bytes). A piece with a long string is larger. */
const pieceBytes = 64 * 1024;

/**
 * How many elements or properties of one array or object are kept. Five times more than any schema allows, so
 * validation still rejects one that was cut.
 */
export const maxKept = 5_000;

const [quote, backslash, comma, openArray, closeArray, openObject, closeObject] = Buffer.from('"\\,[]{}');

/**
 * Parses a large JSON text in pieces, with pauses so that the event loop is not blocked. Keeps only the first `maxKept`
 * members of an array or object that is larger than a piece.
 * @param text valid UTF-8, whose nesting depth the caller has checked
 * @param parse parses a small JSON text
 * @throws Error if the text is not JSON, or if `parse` throws
 */
export async function parseInPieces(text: Buffer, parse: (text: string) => unknown): Promise<ParsedJson> {
  const start = skipBlanks(text, 0);
  const ends = largeContainers(text);
  const end = ends.get(start);
  if (end === undefined) return withNames(parse(text.toString()));
  if (skipBlanks(text, end + 1) < text.length) throw new SyntaxError('Text follows the value');
  return new Pieces(text, ends, parse).read(start);
}

const withNames = (value: unknown): ParsedJson => ({ value, names: countMembers(value) });

/**
 * Finds the arrays and objects that are larger than a piece.
 * @returns the index of the last byte by that of the first
 * @throws SyntaxError if one has no closing bracket
 */
function largeContainers(text: Buffer): Map<number, number> {
  const ends = new Map<number, number>();
  const open: number[] = [];
  for (let i = 0; i < text.length; i += 1) {
    const byte = text[i];
    if (byte === quote) i = endOfString(text, i + 1);
    else if (byte === openArray || byte === openObject) open.push(i);
    else if (byte === closeArray || byte === closeObject) {
      const start = open.pop() ?? i;
      if (i - start >= pieceBytes) ends.set(start, i);
    }
  }
  if (open.length > 0) throw new SyntaxError('An array or object is left open');
  return ends;
}

/**
 * Returns the index of the closing quote, or one after the text's end if it is missing.
 * @param start the index after the opening quote
 */
function endOfString(text: Buffer, start: number): number {
  let i = start;
  while (i < text.length && text[i] !== quote) i += text[i] === backslash ? 2 : 1;
  return i;
}

/** White space as JSON defines it. */
function skipBlanks(text: Buffer, from: number): number {
  let i = from;
  while (text[i] === 0x20 || text[i] === 0x09 || text[i] === 0x0a || text[i] === 0x0d) i += 1;
  return i;
}

/** Parses the arrays and objects that are larger than a piece. */
class Pieces {
  readonly #text: Buffer;
  readonly #ends: ReadonlyMap<number, number>;
  readonly #parse: (text: string) => unknown;
  readonly #slice = new TimeSlice();

  constructor(text: Buffer, ends: ReadonlyMap<number, number>, parse: (text: string) => unknown) {
    this.#text = text;
    this.#ends = ends;
    this.#parse = parse;
  }

  /** @param start the index at which the array or object starts */
  async read(start: number): Promise<ParsedJson> {
    const text = this.#text;
    const end = this.#ends.get(start)!;
    const isArray = text[start] === openArray;
    if (text[end] !== (isArray ? closeArray : closeObject)) throw new SyntaxError('Brackets do not match');
    const container = isArray ? new ArrayParts() : new ObjectParts();
    // A run is a part of the text that has whole members, separated by commas.
    let [runStart, memberStart, depth] = [start + 1, start + 1, 0];
    for (let i = start + 1; i <= end; i += 1) {
      const byte = text[i];
      if (byte === quote) i = endOfString(text, i + 1);
      else if (i === end || (byte === comma && depth === 0 && i - runStart >= pieceBytes)) {
        const isEmpty = i === end && runStart === start + 1;
        this.#addRun(container, runStart, i, isEmpty);
        runStart = memberStart = i + 1;
        if (this.#slice.isOver) await this.#slice.pause();
      } else if (byte === comma && depth === 0) memberStart = i + 1;
      else if (depth === 0 && this.#ends.has(i)) {
        if (memberStart > runStart) this.#addRun(container, runStart, memberStart - 1, false);
        const before = this.#parse(container.open + text.toString('utf8', memberStart, i) + container.large);
        container.addLarge(before as never, await this.read(i));
        i = skipBlanks(text, this.#ends.get(i)! + 1);
        if (i < end && text[i] !== comma) throw new SyntaxError('A comma is missing');
        runStart = memberStart = i + 1;
      } else if (byte === openArray || byte === openObject) depth += 1;
      else if (byte === closeArray || byte === closeObject) depth -= 1;
    }
    return container;
  }

  /**
   * Parses whole members and adds them to `container`.
   * @throws SyntaxError if there are none, unless `mayBeEmpty`
   */
  #addRun(container: ArrayParts | ObjectParts, from: number, to: number, mayBeEmpty: boolean): void {
    const part = this.#parse(container.open + this.#text.toString('utf8', from, to) + container.close) as object;
    if (container.add(part as never) === 0 && !mayBeEmpty) throw new SyntaxError('A member is missing');
  }
}

class ArrayParts implements ParsedJson {
  readonly open = '[';
  readonly close = ']';
  /** Stands for a large element and all that follows, so the array before it can be parsed alone. */
  readonly large = 'null]';
  readonly value: unknown[] = [];
  names = 0;

  /** Returns their number. */
  add(elements: unknown[]): number {
    this.names += countMembers(elements);
    this.value.push(...elements.slice(0, maxKept - this.value.length));
    return elements.length;
  }

  addLarge(_before: unknown, { value, names }: ParsedJson): void {
    if (this.value.length < maxKept) this.value.push(value);
    this.names += names;
  }
}

class ObjectParts implements ParsedJson {
  readonly open = '{';
  readonly close = '}';
  /** Stands for the large value of a property and all that follows, so its name can be parsed alone. */
  readonly large = 'null}';
  readonly value: Record<string, unknown> = {};
  readonly #seen = new Set<string>();
  names = 0;

  /** Returns their number. */
  add(properties: Record<string, unknown>): number {
    const entries = Object.entries(properties);
    for (const [name, value] of entries) this.#put(name, value, countMembers(value));
    return entries.length;
  }

  /** @param before an object with one property, whose value is large */
  addLarge(before: Record<string, unknown>, { value, names }: ParsedJson): void {
    this.#put(Object.keys(before)[0]!, value, names);
  }

  #put(name: string, value: unknown, names: number): void {
    this.names += names + (this.#seen.has(name) ? 0 : 1);
    if (this.#seen.size < maxKept) this.value[name] = value;
    this.#seen.add(name);
  }
}
