import { fold } from '../text/fold.ts';
import { companySource, contactSource, type Source } from './columns.ts';

/** The value of a record's column `folded`: folded texts by field name. */
export type Folded = Record<string, string>;

/** A record's own fields, by their names in the API. An undefined field counts as not given. */
export type RecordFields = Readonly<Record<string, unknown>>;

/**
 * Returns a contact's column `folded`: every text that filters use, folded. A null text has no key; a text that is
 * never null counts as `""` if it is not given. Texts of `custom_fields` stand at the same level under
 * `custom_fields.<key>`. `search` holds the text that the filter `search` looks into.
 * @param contact all fields of the contact, not only the changed ones
 */
export function foldContact(contact: RecordFields): Folded {
  const folded = foldRecord(contactTexts, contact);
  folded['search'] = fold(
    searched
      .flatMap((name) => contact[name] ?? [])
      .filter(isText)
      .join(' '),
  );
  return folded;
}

const searched = ['first_name', 'middle_name', 'last_name', 'work_email', 'personal_email', 'other_emails'];

/** Returns a company's column `folded`. It has no key `search`: companies are searched by name. See `foldContact`. */
export const foldCompany = (company: RecordFields): Folded => foldRecord(companyTexts, company);

/** Returns the fields of a source that are stored folded. */
const textsOf = ({ columns }: Source) =>
  Object.entries(columns).flatMap(([name, { isFolded, required }]) => (isFolded ? [{ name, required }] : []));
const contactTexts = textsOf(contactSource);
const companyTexts = textsOf(companySource);

/**
 * Folds the given fields of a record and its custom fields. It uses plain loops for speed: jobs fold thousands of
 * records per second.
 */
function foldRecord(texts: ReturnType<typeof textsOf>, record: RecordFields): Folded {
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
