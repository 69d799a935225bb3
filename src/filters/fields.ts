import { fold } from '../fold.ts';
import { companySource, contactSource, type Source } from './columns.ts';

/** What the column `folded` of a record holds. */
export type Folded = Record<string, string>;

/** A record's own fields by the names of the contract; undefined counts as not given. */
export type RecordFields = Readonly<Record<string, unknown>>;

/**
 * The column `folded` of a contact: every text that can be filtered by, folded, and no key for one that is null; a text
 * that is never null counts as `""` when it is not given. Of `custom_fields` the strings stand flat beside them, under
 * `custom_fields.<key>`. `search` is what the filter of that name looks into.
 * @param contact all of its fields, not only changed ones
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

/** The same of a company, which is searched by its name. */
export const foldCompany = (company: RecordFields): Folded => foldRecord(companyTexts, company);

/** The texts that records of a source keep folded. */
const textsOf = ({ columns }: Source) =>
  Object.entries(columns).flatMap(([name, { isFolded, required }]) => (isFolded ? [{ name, required }] : []));
const contactTexts = textsOf(contactSource);
const companyTexts = textsOf(companySource);

/** Written out, for jobs fold thousands of records a second. */
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
