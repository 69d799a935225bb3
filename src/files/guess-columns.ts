import type { ImportObject } from '../schemas/imports.ts';
import type { DeclaredField } from '../schemas/wire.ts';
import { domainOf } from '../text/domains.ts';
import { fold, words, wordSet } from '../text/fold.ts';
import { findEmails, isNothing, readYear } from './read-value.ts';
import type { RawRecord } from './record-formats.ts';
import type { CountryCodes } from './phones.ts';
import { headerKey, namesOfFields, openNames } from './header.ts';

type Contents = readonly string[];

const maxCells = 200;
const maxLength = 200;

export const contentsOf = (cells: Iterable<string>): Contents => {
  const filled: string[] = [];
  for (const cell of cells) {
    const text = cell.trim();
    if (text === '' || isNothing(text) || text === String.raw`\N`) continue;
    filled.push(text.slice(0, maxLength));
    if (filled.length === maxCells) break;
  }
  return filled;
};

const share = (contents: Contents, test: (text: string) => boolean): number =>
  contents.length === 0 ? 0 : contents.filter(test).length / contents.length;

const isUnique = (contents: Contents): boolean => new Set(contents).size === contents.length;

/** Salutations and degrees, folded (lower case, no accents). Address books have them in a column `Title`. */
const salutations = wordSet(
  'mr mrs ms miss mx sir dr drs prof professor herr herrn frau fraulein dipl ing mag med phil rer nat m mme mlle monsieur madame dott sr sra srta don dona lic',
);

const isSalutation = (text: string): boolean => words(text).every((word) => salutations.has(word));

const states = wordSet(
  'open closed active inactive new old pending done won lost lead customer prospect true false yes no offen geschlossen aktiv inaktiv',
);

const doesNotThrow = (read: () => unknown): boolean => {
  try {
    read();
    return true;
  } catch {
    return false;
  }
};

const hasDigits = (text: string): boolean => (text.match(/\d/g)?.length ?? 0) >= 5;

const tests: Record<string, (contents: Contents, codeOf: CountryCodes) => boolean> = {
  work_email: (contents) => contents.some((text) => text.includes('@')),
  personal_email: (contents) => contents.some((text) => text.includes('@')),
  other_emails: (contents) => contents.some((text) => text.includes('@')),
  phone_numbers: (contents) => contents.some(hasDigits),
  mobile_phone: (contents) => contents.some(hasDigits),
  job_title: (contents) => share(contents, isSalutation) < 0.8,
  full_name: (contents) => share(contents, (text) => /\p{L}/u.test(text)) > 0.8,
  location_country: (contents, codeOf) => contents.some((text) => codeOf(text) !== ''),
  location_region: (contents) => share(contents, (text) => states.has(fold(text))) < 0.5,
  birth_year: (contents) => contents.some((text) => doesNotThrow(() => readYear(text))),
  profnet_url: (contents) => contents.some((text) => /[./]/.test(text)),
  social1_url: (contents) => contents.some((text) => /[./]/.test(text)),
  social2_url: (contents) => contents.some((text) => /[./]/.test(text)),
  gender: (contents) => share(contents, (text) => text.length <= 20) === 1,
  domain: (contents) => contents.some((text) => domainOf(text) !== undefined),
  'company.domain': (contents) => contents.some((text) => domainOf(text) !== undefined),
  external_id: isUnique,
};

const canHold = (field: string, contents: Contents, codeOf: CountryCodes): boolean =>
  contents.length === 0 || (tests[field]?.(contents, codeOf) ?? true);

const othersWords = wordSet(
  'owner besitzer inhaber eigentumer zustandig betreuer bearbeiter assigned assignee manager vorgesetzter assistant assistent assistenz created creator ' +
    'modified updated erstellt geandert sender absender referrer partner spouse proprietaire responsable proprietario propietario gerente ' +
    'language sprache langue idioma locale nationality nationalitat staatsangehorigkeit nationalite nacionalidad birthplace geburtsort',
);

const isOfOthers = (header: string): boolean =>
  words(header).some((word) => othersWords.has(word) || word.includes('fax'));

/** Returns true if a header is the key or the label of a declared field. */
export const isNamedBy = ({ key, label }: DeclaredField, header: string): boolean =>
  [key, label].some((name) => headerKey(name) === headerKey(header) && headerKey(name) !== '');

const minimum = 3;
const enough = 0.8;

const isPhoneLike = (text: string): boolean => /^(?:\+|00)[\d\s()./-]{6,30}$/.test(text) && hasDigits(text);

/** Returns true for a country name. Returns false for a country code, because `DE` can also be a language. */
const isCountryName = (text: string, codeOf: CountryCodes): boolean =>
  text.length > 3 && text.length <= 60 && codeOf(text) !== '';

const isEmail = (text: string): boolean => text.includes('@') && findEmails(text).addresses.length > 0;

/**
 * Guesses a column's field from its cells, such as `work_email` for e-mail addresses. The header can only exclude a
 * guess. Returns undefined if no field fits.
 */
export function fieldOfContents(
  object: ImportObject,
  header: string,
  contents: Contents,
  codeOf: CountryCodes,
): string | undefined {
  if (object !== 'contacts' && object !== 'companies') return undefined;
  const least = /\b(?:url|link|profile?)\b/i.test(header) ? 1 : minimum;
  if (contents.length < least || isOfOthers(header)) return undefined;
  const isMostly = (test: (text: string) => boolean): boolean => share(contents, test) >= enough;
  const profile = object === 'contacts' ? /linkedin\.com\/(?:in|pub)\//i : /linkedin\.com\/(?:company|school)\//i;
  if (isMostly((text) => profile.test(text))) return 'profnet_url';
  if (contents.length < minimum) return undefined;
  if (object === 'contacts') {
    if (isMostly(isEmail) && new Set(contents).size > contents.length / 2) return 'work_email';
    if (isMostly(isPhoneLike)) return 'phone_numbers';
  }
  return isMostly((text) => isCountryName(text, codeOf)) ? 'location_country' : undefined;
}

const maxByContents = 200;

const rivals: readonly (readonly [field: string, others: readonly string[]])[] = [
  ['full_name', ['first_name', 'last_name']],
  ['company', ['company.name', 'company.industry']],
  ['company.id', ['company.name', 'company.industry', 'company.domain', 'company.external_id']],
  ['company.external_id', ['company.name', 'company.industry', 'company.domain']],
];

const rivalsOf = (field: string): string[] =>
  rivals.flatMap(([one, others]) => [...(one === field ? others : []), ...(others.includes(field) ? [one] : [])]);

/**
 * Removes notes in brackets from a header, as in `First name (at most 40 characters)`. Returns `""` for a header about
 * another person, such as `Owner`.
 */
const withoutNote = (header: string): string => (isOfOthers(header) ? '' : header.replaceAll(/\([^()]*\)/g, ' '));

interface GuessInput {
  object: ImportObject;
  headers: readonly string[];
  records: readonly RawRecord[];
  codeOf: CountryCodes;
  declared?: readonly DeclaredField[] | undefined;
}

/** Guesses the fields of columns by their headers, then by their cells. Gives each field to at most one column. */
export class ColumnGuesser {
  readonly #input: GuessInput;
  readonly #taken: Set<string>;
  readonly #guesses = new Map<number, string>();

  constructor(input: GuessInput, taken: Iterable<string>) {
    this.#input = input;
    this.#taken = new Set(taken);
  }

  guess(open: readonly number[]): ReadonlyMap<number, string> {
    this.#byName(open);
    this.#byOpenName(open);
    this.#byDeclared(open);
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

  /**
   * Assigns headers whose field depends on other columns. `Name` is the last name beside a first name, else the full
   * name.
   */
  #byOpenName(open: readonly number[]): void {
    if (this.#input.object !== 'contacts') return;
    for (const { keys, field, beside = [], without = [] } of openNames) {
      if (!beside.every((other) => this.#taken.has(other)) || without.some((other) => this.#taken.has(other))) continue;
      for (const i of open) if (keys.includes(headerKey(this.#input.headers[i]!))) this.#take(i, field);
    }
  }

  #byDeclared(open: readonly number[]): void {
    for (const field of this.#input.declared ?? [])
      for (const i of open) if (isNamedBy(field, this.#input.headers[i]!)) this.#take(i, `custom_fields.${field.key}`);
  }

  #byContents(open: readonly number[]): void {
    const { object, headers, codeOf } = this.#input;
    for (const i of open.filter((column) => !this.#guesses.has(column)).slice(0, maxByContents)) {
      const field = fieldOfContents(object, headers[i]!, this.#contentsOf(i), codeOf);
      if (field !== undefined) this.#take(i, field);
    }
  }

  #take(i: number, field: string): void {
    if (this.#guesses.has(i) || this.#taken.has(field)) return;
    if (rivalsOf(field).some((other) => this.#taken.has(other))) return;
    if (!canHold(field, this.#contentsOf(i), this.#input.codeOf)) return;
    this.#guesses.set(i, field);
    this.#taken.add(field);
  }

  #contentsOf(i: number): Contents {
    return contentsOf(this.#input.records.map(({ cells }) => cells[i]?.text ?? ''));
  }
}
