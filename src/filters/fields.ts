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
export const foldContact = (contact: RecordFields): Folded => ({
  ...foldRecord(contactSource, contact),
  search: fold(
    searched
      .flatMap((name) => contact[name] ?? [])
      .filter(isText)
      .join(' '),
  ),
});

const searched = ['first_name', 'middle_name', 'last_name', 'work_email', 'personal_email', 'other_emails'];

/** The same of a company, which is searched by its name. */
export const foldCompany = (company: RecordFields): Folded => foldRecord(companySource, company);

function foldRecord({ columns }: Source, record: RecordFields): Folded {
  const texts = Object.entries(columns).filter(([, { isFolded }]) => isFolded);
  const own = texts.flatMap(([name, { required }]) => foldText(name, record[name] ?? (required ? '' : null)));
  const custom = Object.entries((record['custom_fields'] as RecordFields | undefined) ?? {});
  return Object.fromEntries([...own, ...custom.flatMap(([key, value]) => foldText(`custom_fields.${key}`, value))]);
}

const isText = (value: unknown): value is string => typeof value === 'string';

const foldText = (name: string, value: unknown): [string, string][] =>
  typeof value === 'string' ? [[name, fold(value)]] : [];
