import { namesWhere } from '../schemas/base/field-table.ts';
import { fold } from '../text/fold.ts';
import { phoneDigits, type PhoneNumber } from '../text/phone-digits.ts';
import type { Source } from './columns.ts';

/** The value of the column `folded`: folded texts by field name. */
export type Folded = Record<string, string>;

/** By names in the API. Undefined counts as absent. */
export type RecordFields = Readonly<Record<string, unknown>>;

/**
 * Returns the value of the column `folded`. A text that is null is left out; a required text that is absent is `""`.
 * @param record all fields, not only the changed ones
 */
export function foldRecord(source: Source, record: RecordFields): Folded {
  // Plain loops for speed: jobs fold thousands of records per second.
  const folded: Folded = {};
  for (const { name, required } of textsOf(source)) put(folded, name, record[name] ?? (required ? '' : null));
  for (const [key, value] of Object.entries((record['custom_fields'] as RecordFields | undefined) ?? {}))
    put(folded, `custom_fields.${key}`, value);
  if (source.alias !== 'c') return folded;
  const phones = phoneDigits(
    (record['phone_numbers'] ?? []) as PhoneNumber[],
    (record['mobile_phone'] ?? null) as string | null,
  );
  if (phones !== '') folded['phones'] = phones;
  // The filter `search` looks for words in this text.
  folded['search'] = fold(
    searchedOf(source)
      .flatMap((name) => record[name] ?? [])
      .filter(isText)
      .join(' '),
  );
  return folded;
}

export const foldedColumns = (source: Source): string[] => [
  ...textsOf(source).map(({ name }) => name),
  'custom_fields',
  ...(source.alias === 'c' ? ['phone_numbers', ...searchedOf(source)] : []),
];

/** Returns the fields in which `search` finds words. Of a contact, it reads them as one text. */
export const searchedOf = ({ fields }: Source): string[] => namesWhere(fields.table, ({ isSearched }) => isSearched);

interface FoldedText {
  name: string;
  required: boolean;
}
const textsBySource = new WeakMap<Source, FoldedText[]>();

function textsOf(source: Source): FoldedText[] {
  const known = textsBySource.get(source);
  if (known) return known;
  const texts = Object.entries(source.columns).flatMap(([name, { isFolded, required }]) =>
    isFolded ? [{ name, required }] : [],
  );
  textsBySource.set(source, texts);
  return texts;
}

const isText = (value: unknown): value is string => typeof value === 'string';

function put(folded: Folded, name: string, value: unknown): void {
  if (isText(value)) folded[name] = fold(value);
}
