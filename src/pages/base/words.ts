import type { Activity } from '../../schemas/activities.ts';
import type { DeclaredField, DeclaredType } from '../../schemas/base/declared-fields.ts';
import type { FieldEntry, FieldTable } from '../../schemas/base/field-table.ts';
import { companyTable } from '../../schemas/companies.ts';
import { contactTable } from '../../schemas/contacts.ts';
import type { Pool } from '../../schemas/credits.ts';
import { customKey } from '../../schemas/filters.ts';
import type { ImportObject } from '../../schemas/imports.ts';
import type { JobType } from '../../schemas/jobs.ts';
import type { RuleOperator } from '../../schemas/lists.ts';
import { opportunityTable, type Opportunity } from '../../schemas/opportunities.ts';
import { productTable } from '../../schemas/products.ts';
import { prospectTable } from '../../schemas/prospects.ts';
import type { Role } from '../../schemas/users.ts';
import type { verificationStatuses } from '../../schemas/verification.ts';
import type { Tone } from './html.ts';

/*
 * What people call the things that the API has names for. All pages take their words from here. Names of fields stand with
 * the schemas of records.
 */

type Words<Name extends string> = Readonly<Record<Name, string>>;

const tables: Record<ImportObject, FieldTable> = {
  contacts: contactTable,
  companies: companyTable,
  products: productTable,
  opportunities: opportunityTable,
};

/** Returns what people call each field of a kind of records. */
const labelsOf = <Name extends string>(table: Record<Name, FieldEntry>): Words<Name> =>
  Object.fromEntries(Object.entries<FieldEntry>(table).map(([name, { label }]) => [name, label])) as Words<Name>;

export const opportunityWords = labelsOf(opportunityTable);
export const prospectWords = labelsOf(prospectTable);

/**
 * Returns the word for a field of records that can be imported. A field of your own (`custom_fields.<key>`) is called by its
 * label, if it is declared, else by its key. A name that is not known is returned without underscores.
 */
export function fieldWord(object: ImportObject, name: string, declared: readonly DeclaredField[] = []): string {
  const [table, custom] = [tables[object], customKey(name)];
  if (custom !== undefined) return declared.find(({ key }) => key === custom)?.label ?? custom;
  return Object.hasOwn(table, name) ? table[name]!.label : plain(name);
}

export const typeWords: Words<DeclaredType> = {
  text: 'Text',
  long_text: 'Long text',
  number: 'Number',
  boolean: 'Yes or no',
  date: 'Date',
  url: 'Web address',
  choice: 'Choice',
};

/** Returns a name of the API as words, such as `Accept all` for `accept_all`. */
export function plain(name: string): string {
  const text = name.replaceAll(/[_.]/g, ' ').toLowerCase();
  return text.charAt(0).toUpperCase() + text.slice(1);
}

type VerificationStatus = (typeof verificationStatuses)[number];

/** What the last verification of an e-mail address found: a word, its reason, and a colour. */
export const verificationWords: Readonly<Record<VerificationStatus, { word: string; reason: string; tone: Tone }>> = {
  unverified: { word: 'not verified', reason: 'Nobody has checked this address yet.', tone: 'plain' },
  verified: { word: 'verified', reason: 'The address accepts mail.', tone: 'good' },
  invalid: { word: 'invalid', reason: 'The address does not accept mail.', tone: 'bad' },
  accept_all: {
    word: 'accepts all',
    reason: 'The mail server accepts every address, so it says nothing about this one.',
    tone: 'warning',
  },
  disposable: { word: 'throw-away', reason: 'The address belongs to a service for throw-away mailboxes.', tone: 'bad' },
  do_not_mail: {
    word: 'do not mail',
    reason: 'The address belongs to a role, such as info@, and not to a person.',
    tone: 'warning',
  },
  unknown: { word: 'unclear', reason: 'The mail server gave no clear answer.', tone: 'busy' },
};

export const jobWords: Words<JobType> = {
  unlock_contacts: 'Unlock prospects by filter',
  unlock_selected_contacts: 'Unlock chosen prospects',
  verify_email: 'Verify e-mail addresses',
  verify_list: 'Verify a list',
  enrich_contacts: 'Enrich contacts',
  undo: 'Undo a change',
};

/** How rules compare, as the middle of a sentence: “Job title contains engineer”. */
export const operatorWords: Words<RuleOperator> = {
  equals: 'is',
  not_equals: 'is not',
  contains: 'contains',
  not_contains: 'does not contain',
  starts_with: 'begins with',
  ends_with: 'ends with',
  greater_than: 'is more than',
  greater_or_equal: 'is at least',
  less_than: 'is less than',
  less_or_equal: 'is at most',
  in: 'is one of',
  not_in: 'is none of',
  is_empty: 'is empty',
  is_not_empty: 'is not empty',
};

/** Activities: what they are called, and the middle of a sentence that begins with who did it. */
export const activityWords: Readonly<Record<Activity['type'], { word: string; done: string }>> = {
  note: { word: 'Note', done: 'wrote a note' },
  call: { word: 'Call', done: 'had a call' },
  meeting: { word: 'Meeting', done: 'had a meeting' },
  email: { word: 'E-mail', done: 'wrote an e-mail' },
  task: { word: 'Task', done: 'set a task' },
};

export const priorityWords: Readonly<Record<Opportunity['priority'], { word: string; tone: Tone }>> = {
  URGENT: { word: 'urgent', tone: 'bad' },
  HIGHT: { word: 'high', tone: 'warning' },
  MEDIUM: { word: 'medium', tone: 'busy' },
  LOW: { word: 'low', tone: 'plain' },
  NONE: { word: 'none', tone: 'plain' },
};

export const roleWords: Readonly<Record<Role, { word: string; may: string }>> = {
  admin: { word: 'Admin', may: 'may also spend credits, and manage keys and users' },
  member: { word: 'Member', may: 'may work with contacts, companies, lists and opportunities' },
};

export const poolWords: Readonly<Record<Pool, { word: string; purpose: string }>> = {
  subscription: { word: 'Prospects', purpose: 'to unlock prospects' },
  verification: { word: 'Verification', purpose: 'to verify e-mail addresses' },
};
