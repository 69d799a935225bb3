import { countries } from '../../schemas/base/formats.ts';
import { hidden, priceField } from './forms.ts';
import { badge, count, counted, html, type Html, type Tone } from './html.ts';
import { verificationWords } from './words.ts';
import type { ImportStatus } from '../../schemas/imports.ts';
import type { ItemStatus, JobStatus } from '../../schemas/jobs.ts';

const regions = new Intl.DisplayNames('en', { type: 'region' });

/** Returns the name of a country, such as `Germany` for `DE`; an empty string for no country. */
export const countryName = (code: string): string => (code === '' ? '' : (regions.of(code) ?? code));

/** Code and name of every country, by name. */
export const countryChoices: readonly (readonly [code: string, name: string])[] = [...countries]
  .map((code) => [code, countryName(code)] as const)
  .toSorted(([, a], [, b]) => a.localeCompare(b, 'en'));

const formats = new Map<string, Intl.NumberFormat>();

/**
 * Returns an amount of money as people write it, such as `€1,249.90`.
 * @param currency ISO 4217
 */
export function money(amount: number, currency: string): string {
  const format =
    formats.get(currency) ?? new Intl.NumberFormat('en-GB', { style: 'currency', currency, maximumFractionDigits: 4 });
  formats.set(currency, format);
  return format.format(amount);
}

/** Returns the outcome of a verification as a coloured word, whose reason shows when the mouse rests on it. */
export function verification(status: keyof typeof verificationWords): Html {
  const { word, reason, tone } = verificationWords[status];
  return html`<span title="${reason}">!${badge(word, tone)}</span>`;
}

export const mailLink = (address: string | null): Html =>
  address ? html`<a href="${`mailto:${encodeURIComponent(address).replaceAll('%40', '@')}`}">${address}</a>` : '';

/** Returns a link that calls a phone number. A number with words, such as an extension, is returned as text. */
export const phoneLink = (number: string): Html =>
  /^[+\d\s()./-]+$/.test(number)
    ? html`<a href="${`tel:${number.replaceAll(/[^+\d]/g, '')}`}">${number}</a>`
    : html`${number}`;

/**
 * Returns a web address as a link that opens it, without the scheme in its text. A text that is no http(s) URL is
 * returned as text.
 */
export function webLink(url: string | null): Html {
  if (!url) return '';
  const isWeb = URL.canParse(url) && /^https?:$/.test(new URL(url).protocol);
  const text = url.replace(/^https?:\/\/(www\.)?/, '').replace(/\/$/, '');
  return isWeb ? html`<a href="${url}" rel="noopener noreferrer" target="_blank">${text}</a>` : html`${url}`;
}

/** Returns a value of a custom field as people write it. A web address is a link. */
export const customValue = (value: string | number | boolean): Html => {
  if (typeof value === 'string') return /^https?:\/\/\S+$/.test(value) ? webLink(value) : html`${value}`;
  return typeof value === 'boolean' ? (value ? 'yes' : 'no') : String(value);
};

/** Says in a form what something costs, and whether it can be paid. The form sends the price: see `payerOf`. */
export function priceOf({ cost, available }: { cost: number; available: number }): Html {
  const tone = cost > available ? 'bad' : 'plain';
  const short = cost > available ? html` That is ${count(cost - available)} too few: nothing would start.` : '';
  return html`!${hidden({ [priceField]: String(cost) })}
    <p class="price ${tone}">
      <strong>At most ${counted(cost, 'credit')}</strong>; ${count(available)} are available.!${short}
    </p>`;
}

const tones: Record<ImportStatus | JobStatus | ItemStatus, Tone> = {
  UPLOADING: 'busy',
  UPLOADED: 'warning',
  PENDING: 'busy',
  PROCESSING: 'busy',
  COMPLETED: 'good',
  FAILED: 'bad',
  CANCELLED: 'plain',
  succeeded: 'good',
  failed: 'bad',
  skipped: 'plain',
};

/** What people call a status whose name does not say what to do. */
const words: Partial<Record<keyof typeof tones, string>> = { UPLOADING: 'no file yet', UPLOADED: 'not started' };

export const statusBadge = (status: keyof typeof tones): Html =>
  badge(words[status] ?? status.toLowerCase(), tones[status]);

/** @param total null while it is unknown */
export function progressBar({ processed, total }: { processed: number; total: number | null }, noun: string): Html {
  const label = total === null ? `${count(processed)} ${noun}` : `${count(processed)} of ${count(total)} ${noun}`;
  return html`<p>
    <progress aria-label="Progress" max="${Math.max(1, total ?? 1)}" value="${total === 0 ? 1 : processed}"></progress>
    <span>${label}</span>
  </p>`;
}
