import type { ImportObject } from '../../schemas/imports.ts';
import type { Cell } from '../cells.ts';
import type { ValueReader } from '../values/read-value.ts';
import { canHold, contentsOf, isOfOthers, fieldOfContents, type Contents } from './guess-contents.ts';
import { headerKey, namesOfFields, openNamesOf } from './header-names.ts';

/** Columns whose contents are looked at if their header says nothing. */
const maxByContents = 200;

/** Fields of which a record can have only one. */
const rivals: readonly (readonly string[])[] = [
  ['full_name', 'first_name'],
  ['full_name', 'last_name'],
  ['company', 'company.name'],
  ['company', 'company.industry'],
  ['company.id', 'company.name'],
  ['company.id', 'company.industry'],
  ['company.id', 'company.domain'],
  ['company.id', 'company.external_id'],
  ['company.external_id', 'company.name'],
  ['company.external_id', 'company.industry'],
  ['company.external_id', 'company.domain'],
];

const rivalsOf = (field: string): string[] =>
  rivals.flatMap((pair) => (pair.includes(field) ? pair.filter((other) => other !== field) : []));

/** Removes a note between brackets, as in `First name (at most 40 characters)`, unless it says that the column is about others. */
const withoutNote = (header: string): string => (isOfOthers(header) ? '' : header.replaceAll(/\([^()]*\)/g, ' '));

export interface GuessInput {
  object: ImportObject;
  headers: readonly string[];
  sample: readonly (readonly Cell[])[];
  reader: ValueReader;
}

/** Guesses the fields of columns: by their names, then by what they hold. Each field is guessed once. */
export class ColumnGuesser {
  readonly #input: GuessInput;
  readonly #taken: Set<string>;
  readonly #guesses = new Map<number, string>();

  /** @param taken fields that have a column already */
  constructor(input: GuessInput, taken: Iterable<string>) {
    this.#input = input;
    this.#taken = new Set(taken);
  }

  /**
   * @param open indexes of the columns that have no field yet
   * @returns the field of each column for which there is a guess
   */
  guess(open: readonly number[]): ReadonlyMap<number, string> {
    this.#byName(open);
    this.#byOpenName(open);
    this.#byContents(open);
    return this.#guesses;
  }

  #byName(open: readonly number[]): void {
    const names = namesOfFields[this.#input.object];
    const known = open.flatMap((i) => {
      const header = this.#input.headers[i]!;
      const name = names.get(headerKey(header)) ?? names.get(headerKey(withoutNote(header)));
      return name ? [{ i, ...name, isEmpty: Number(this.#contentsOf(i).length === 0) }] : [];
    });
    // An address book has a column for each kind of phone. One that holds numbers comes before a usual name without any.
    const sorted = known.toSorted((a, b) => a.isEmpty - b.isEmpty || a.rank - b.rank || a.i - b.i);
    for (const { i, field } of sorted) this.#take(i, field);
  }

  /** Assigns columns whose names mean a field only if certain other fields have a column already, or have none. */
  #byOpenName(open: readonly number[]): void {
    for (const { keys, field, beside = [], without = [] } of openNamesOf[this.#input.object]) {
      if (!beside.every((other) => this.#taken.has(other)) || without.some((other) => this.#taken.has(other))) continue;
      for (const i of open) if (keys.includes(headerKey(this.#input.headers[i]!))) this.#take(i, field);
    }
  }

  #byContents(open: readonly number[]): void {
    const { object, headers, reader } = this.#input;
    for (const i of open.filter((column) => !this.#guesses.has(column)).slice(0, maxByContents)) {
      const field = fieldOfContents(object, headers[i]!, this.#contentsOf(i), reader);
      if (field !== undefined) this.#take(i, field);
    }
  }

  /** Does nothing if the field is taken, or cannot hold what the column holds. */
  #take(i: number, field: string): void {
    if (this.#guesses.has(i) || this.#taken.has(field)) return;
    if (rivalsOf(field).some((other) => this.#taken.has(other))) return;
    if (!canHold(field, this.#contentsOf(i), this.#input.reader)) return;
    this.#guesses.set(i, field);
    this.#taken.add(field);
  }

  #contentsOf(i: number): Contents {
    return contentsOf(this.#input.sample.map((cells) => cells[i]?.text ?? ''));
  }
}
