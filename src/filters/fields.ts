import { fold } from '../text/fold.ts';
import { companySource, contactSource, type Source } from './columns.ts';

/** The value of a record's database column `folded`: texts in lower case without accents, by field name. */
export type Folded = Record<string, string>;

/** The fields of a record, by their names in the API. A field that is undefined counts as absent. */
export type RecordFields = Readonly<Record<string, unknown>>;

/**
 * Returns the value of a contact's database column `folded`: all texts that filters use, in lower case without accents.
 * A text that is null is left out; a required text that is absent is `""`.
 * @param contact all fields of the contact, not only the changed ones
 */
export function foldContact(contact: RecordFields): Folded {
  const folded = foldRecord(contactTexts, contact);
  // The filter `search` looks for words in this text.
  folded['search'] = fold(
    searched
      .flatMap((name) => contact[name] ?? [])
      .filter(isText)
      .join(' '),
  );
  return folded;
}

const searched = ['first_name', 'middle_name', 'last_name', 'work_email', 'personal_email', 'other_emails'];

/**
 * Returns the value of a company's database column `folded`: all texts that filters use, in lower case without accents.
 * @param company all fields of the company, not only the changed ones
 */
export const foldCompany = (company: RecordFields): Folded => foldRecord(companyTexts, company);

/** Returns the fields whose text is stored folded (lower case, no accents), and whether each is required. */
const textsOf = ({ columns }: Source) =>
  Object.entries(columns).flatMap(([name, { isFolded, required }]) => (isFolded ? [{ name, required }] : []));
const contactTexts = textsOf(contactSource);
const companyTexts = textsOf(companySource);

/** Returns the given text fields and the custom fields of a record, in lower case without accents. */
function foldRecord(texts: ReturnType<typeof textsOf>, record: RecordFields): Folded {
  // Plain loops for speed: jobs fold thousands of records per second.
  const folded: Folded = {};
  for (const { name, required } of texts) put(folded, name, record[name] ?? (required ? '' : null));
  for (const [key, value] of Object.entries((record['custom_fields'] as RecordFields | undefined) ?? {}))
    put(folded, `custom_fields.${key}`, value);
  return folded;
}

const isText = (value: unknown): value is string => typeof value === 'string';

function put(folded: Folded, name: string, value: unknown): void {
  if (isText(value)) folded[name] = fold(value);
}
