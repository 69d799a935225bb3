import type { Activity } from '../../schemas/activities.ts';
import type { DeclaredField, DeclaredType, FieldEntry, FieldTable } from '../../schemas/wire.ts';
import { companyTable } from '../../schemas/companies.ts';
import { contactTable, type Contact } from '../../schemas/contacts.ts';
import { jobTable, jobTypes } from '../../schemas/jobs.ts';
import type { Pool, JobType, ItemReason, ItemStatus, JobStatus } from '../../schemas/jobs.ts';
import { customKey } from '../../schemas/filters.ts';
import type { ImportObject, ImportStatus } from '../../schemas/imports.ts';
import type { RuleOperator } from '../../schemas/lists.ts';
import { opportunityTable, type Detail, type Opportunity } from '../../schemas/opportunities.ts';
import { productTable } from '../../schemas/products.ts';
import { prospectTable } from '../../schemas/prospects.ts';
import type { Role } from '../../schemas/accounts.ts';
import type { verificationStatuses } from '../../schemas/verification.ts';
import { hidden, type Choice } from './forms.ts';
import { priceField } from './requests.ts';
import { badge, html, when, count, counted, type Html, type Tone } from './html.ts';
import { countries } from '../../schemas/formats.ts';
import { phoneReader, phoneText } from '../../files/phones.ts';

/*
 * Labels for the names of the API. All pages take their labels from here. The schemas of records contain the labels of
 * their fields.
 */

type Words<Name extends string> = Readonly<Record<Name, string>>;

const tables: Record<ImportObject, FieldTable> = {
  contacts: contactTable,
  companies: companyTable,
  products: productTable,
  opportunities: opportunityTable,
};

const labelsOf = <Name extends string>(table: Record<Name, FieldEntry>): Words<Name> =>
  Object.fromEntries(Object.entries<FieldEntry>(table).map(([name, { label }]) => [name, label])) as Words<Name>;

export const opportunityWords = labelsOf(opportunityTable);
export const prospectWords = labelsOf(prospectTable);

/**
 * Returns the label of a field of records. For a custom field (`custom_fields.<key>`), returns its declared label, or
 * else its key.
 */
export function fieldWord(object: ImportObject, name: string, declared: readonly DeclaredField[] = []): string {
  const [table, custom] = [tables[object], customKey(name)];
  if (custom !== undefined) return declared.find(({ key }) => key === custom)?.label ?? custom;
  return Object.hasOwn(table, name) ? table[name]!.label : plain(name);
}

/** Returns in words for whom a search of prospects looks, or an empty text if there is no search. */
export function searchText(filters: object | null | undefined): string {
  const terms = Object.entries<unknown>({ ...filters }).flatMap(([name, value]) => {
    const word = Object.hasOwn(prospectWords, name) ? prospectWords[name as keyof typeof prospectWords] : plain(name);
    const texts = [value].flat().map(clauseText).filter(Boolean);
    if (texts.length === 0) return [];
    return value === true ? word : `${word}: ${texts.join(', ')}`;
  });
  return terms.join(' · ') || when(filters, 'Everybody');
}

const boundWords: Readonly<Record<string, string>> = { gte: 'at least', lte: 'at most' };

/** Returns the words for a value that a filter compares with, or for its bounds. */
function clauseText(value: unknown): string {
  if (typeof value !== 'object' || value === null) return String(value);
  const bounds = Object.entries<unknown>({ ...value }).filter(([, bound]) => bound !== null);
  return bounds.map(([name, bound]) => `${boundWords[name] ?? name} ${String(bound)}`).join(', ');
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

export function plain(name: string): string {
  const text = name.replaceAll(/[_.]/g, ' ').toLowerCase();
  return text.charAt(0).toUpperCase() + text.slice(1);
}

type VerificationStatus = (typeof verificationStatuses)[number];

export const verificationWords: Readonly<Record<VerificationStatus, { word: string; reason: string; tone: Tone }>> = {
  unverified: { word: 'not verified', reason: 'Nobody has checked this address yet.', tone: 'plain' },
  verified: { word: 'verified', reason: 'The address accepts mail.', tone: 'good' },
  invalid: { word: 'invalid', reason: 'The address does not accept mail.', tone: 'bad' },
  accept_all: { word: 'accepts all', reason: 'The server also accepts addresses that do not exist.', tone: 'warning' },
  disposable: { word: 'throw-away', reason: 'The address belongs to a service for throw-away mailboxes.', tone: 'bad' },
  do_not_mail: { word: 'do not mail', reason: 'The address belongs to a role, such as info@.', tone: 'warning' },
  unknown: { word: 'unclear', reason: 'The mail server gave no clear answer.', tone: 'busy' },
};

export const verificationChoices = Object.entries(verificationWords).map(([name, { word }]) => [name, word] as const);

export const jobWords = Object.fromEntries(jobTypes.map((type) => [type, jobTable[type].words[0]])) as Words<JobType>;

const reasons: Partial<Words<ItemReason>> = {
  max_credits: 'the credits of the job are used up',
  taken: 'another record has its own id by now',
  in_use: 'other records belong to it by now',
  gone: 'deleted since',
};

export const reasonWord = (reason: ItemReason): string => reasons[reason] ?? plain(reason).toLowerCase();

const equality = { equals: 'is', not_equals: 'is not', in: 'is one of', not_in: 'is none of' };
const part = { contains: 'contains', not_contains: 'does not contain' };
const ends = { starts_with: 'begins with', ends_with: 'ends with' };
const emptiness = { is_empty: 'is empty', is_not_empty: 'is not empty' };
const order = (more: string, least: string, less: string, most: string) =>
  ({ greater_than: more, greater_or_equal: least, less_than: less, less_or_equal: most }) as const;

/** The comparisons that fit the values of a field, in words, by the kind of the values. */
export const comparisons = {
  text: { ...part, ...equality, ...ends, ...emptiness },
  choice: { ...equality, ...emptiness },
  number: { ...equality, ...order('is more than', 'is at least', 'is less than', 'is at most'), ...emptiness },
  day: { equals: 'is', ...order('is after', 'is on or after', 'is before', 'is on or before'), ...emptiness },
} satisfies Record<string, Partial<Words<RuleOperator>>>;

const operatorWords: Words<RuleOperator> = { ...comparisons.text, ...comparisons.number };

export function comparisonWord(kind: keyof typeof comparisons, operator: RuleOperator): string {
  const words: Words<RuleOperator> = { ...operatorWords, ...comparisons[kind] };
  return Object.hasOwn(words, operator) ? words[operator] : operator;
}

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

/** Name of the product whose price is the amount that the form of an opportunity asks for, apart from its products. */
export const amountName = 'Amount';

export const isAmount = ({ name, quantity }: Pick<Detail, 'name' | 'quantity'>): boolean =>
  name === amountName && quantity === 1;

export const roleWords: Readonly<Record<Role, { word: string; may: string }>> = {
  admin: { word: 'Admin', may: 'may also spend credits, and manage keys and users' },
  member: { word: 'Member', may: 'may work with contacts, companies, lists and opportunities' },
};

export const poolWords: Readonly<Record<Pool, { word: string; purpose: string }>> = {
  subscription: { word: 'Prospects', purpose: 'to unlock prospects' },
  verification: { word: 'Verification', purpose: 'to verify e-mail addresses' },
};

const regions = new Intl.DisplayNames('en', { type: 'region' });

export const countryName = (code: string): string => (code === '' ? '' : (regions.of(code) ?? code));

export const countryChoices: readonly Choice[] = [...countries]
  .map((code) => [code, countryName(code)] as const)
  .toSorted(([, a], [, b]) => a.localeCompare(b, 'en'));

const currencies = new Intl.DisplayNames('en', { type: 'currency' });

const currencyChoice = (code: string): Choice => [code, `${code}, ${currencies.of(code)}`];

export const currencyChoices = Intl.supportedValuesOf('currency').map(currencyChoice);

const formats = new Map<string, Intl.NumberFormat>();

/**
 * Returns an amount of money as people write it, such as `€1,249.90`.
 * @param currency ISO 4217 code
 */
export function money(amount: number, currency: string): string {
  const format =
    formats.get(currency) ?? new Intl.NumberFormat('en-GB', { style: 'currency', currency, maximumFractionDigits: 4 });
  formats.set(currency, format);
  return format.format(amount);
}

export function verification(status: keyof typeof verificationWords): Html {
  const { word, reason, tone } = verificationWords[status];
  return html`<span title="${reason}">!${badge(word, tone)}</span>`;
}

export const mailLink = (address: string | null): Html =>
  address ? html`<a href="${`mailto:${encodeURIComponent(address).replaceAll('%40', '@')}`}">${address}</a>` : '';

export const { write: phoneNumber } = await phoneReader();

export function phoneLink(given: string): Html {
  const number = phoneNumber({ country_code: '', number: given });
  return /^[+\d\s()./-]+$/.test(number)
    ? html`<a href="${`tel:${number.replaceAll(/[^+\d]/g, '')}`}">${number}</a>`
    : html`${number}`;
}

type Phones = Pick<Contact, 'phone_numbers' | 'mobile_phone'>;

export const contactPhone = ({ phone_numbers: [phone], mobile_phone: mobile }: Phones): Html =>
  phoneLink(phone ? phoneText(phone) : (mobile ?? ''));

/** Returns a link that shows an http(s) URL without its scheme. Returns other text without a link. */
export function webLink(url: string | null): Html {
  if (!url) return '';
  const isWeb = URL.canParse(url) && /^https?:$/.test(new URL(url).protocol);
  const text = url.replace(/^https?:\/\/(www\.)?/, '').replace(/\/$/, '');
  return isWeb ? html`<a href="${url}" rel="noopener noreferrer" target="_blank">${text}</a>` : html`${url}`;
}

export const customValue = (value: string | number | boolean): Html => {
  if (typeof value === 'string') return /^https?:\/\/\S+$/.test(value) ? webLink(value) : html`${value}`;
  return typeof value === 'boolean' ? (value ? 'yes' : 'no') : String(value);
};

/**
 * Returns the price of an action and the available credits, for a form. A hidden field contains the price (see
 * `payerOf`).
 */
export function priceOf({ cost, available }: { cost: number; available: number }): Html {
  const tone = cost > available ? 'bad' : 'plain';
  const short = cost > available ? html` That is ${count(cost - available)} too few: nothing would start.` : '';
  return html`!${hidden({ [priceField]: String(cost) })}
    <p class="notice ${tone}">
      <strong>At most ${counted(cost, 'credit')}</strong>; ${count(available)} are available.!${short}
    </p>`;
}

const openTones = { UPLOADING: 'busy', UPLOADED: 'warning', PENDING: 'busy', PROCESSING: 'busy' } as const;
const endTones = { COMPLETED: 'good', FAILED: 'bad', CANCELLED: 'plain' } as const;
const itemTones = { succeeded: 'good', failed: 'bad', skipped: 'plain' } as const;

const tones: Record<ImportStatus | JobStatus | ItemStatus, Tone> = { ...openTones, ...endTones, ...itemTones };

const statusWords: Partial<Record<keyof typeof tones, string>> = { UPLOADING: 'no file yet', UPLOADED: 'not started' };

export const statusBadge = (status: keyof typeof tones, isCheck = false): Html =>
  isCheck && ['PENDING', 'PROCESSING', 'COMPLETED'].includes(status)
    ? badge(status === 'COMPLETED' ? 'checked' : 'checking', 'plain')
    : badge(statusWords[status] ?? status.toLowerCase(), tones[status]);

export function progressBar({ processed, total }: { processed: number; total: number | null }, noun: string): Html {
  const label = total === null ? `${count(processed)} ${noun}` : `${count(processed)} of ${count(total)} ${noun}`;
  return html`<p>
    <progress aria-label="Progress" max="${Math.max(1, total ?? 1)}" value="${total === 0 ? 1 : processed}"></progress>
    <span>${label}</span>
  </p>`;
}
