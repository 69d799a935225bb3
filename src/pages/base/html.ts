import { html } from 'ghtml';

export { html };

/**
 * Text that contains HTML. In a template, `!${…}` inserts it unchanged and `${…}` escapes it, so a forgotten `!` shows
 * tags as text, which is safe.
 */
export type Html = string;

const dates = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeZone: 'UTC' });
const times = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'short', timeZone: 'UTC' });
const numbers = new Intl.NumberFormat('en-GB');

/** Returns a date and time in UTC, or `none` for null. */
export const moment = (instant: string | null, none = '–'): Html =>
  instant === null
    ? html`<span class="quiet">${none}</span>`
    : html`<time datetime="${instant}">${times.format(new Date(instant))} UTC</time>`;

/** Returns a date in UTC. */
export const date = (instant: string): Html =>
  html`<time datetime="${instant}">${dates.format(new Date(instant))}</time>`;

/** Formats an integer with thousands separators. */
export const count = (value: number): string => numbers.format(value);

/** Returns e.g. `1 key` or `2 keys`. */
export const counted = (value: number, noun: string): string => `${count(value)} ${noun}${value === 1 ? '' : 's'}`;

/** Determines the colour of a badge or message. `busy` means in progress. */
export type Tone = 'good' | 'busy' | 'warning' | 'bad' | 'plain';

/** Returns a short coloured text, such as the status of an API key. */
export const badge = (text: string, tone: Tone): Html => html`<span class="badge ${tone}">${text}</span>`;

export const notice = (text: string, tone: Tone = 'good'): Html =>
  html`<p class="notice ${tone}" role="${tone === 'bad' ? 'alert' : 'status'}">${text}</p>`;

/** Returns what a page shows in place of an empty list. */
export const empty = (title: string, text: string, link: Html = ''): Html =>
  html`<div class="empty">
    <h2>${title}</h2>
    <p>${text}</p>
    !${link}
  </div>`;

/** The table scrolls horizontally if it is wider than the screen. */
export const table = (label: string, heads: readonly string[], rows: readonly Html[]): Html =>
  html`<div class="scroll" role="region" aria-label="${label}" tabindex="0">
    <table>
      <thead>
        <tr>
          !${heads.map((head) => html`<th scope="col">${head}</th>`)}
        </tr>
      </thead>
      <tbody>
        !${rows}
      </tbody>
    </table>
  </div>`;

export const facts = (entries: readonly (readonly [name: string, value: Html])[]): Html =>
  html`<dl class="facts">
    !${entries.map(
      ([name, value]) =>
        html`<div>
          <dt>${name}</dt>
          <dd>!${value}</dd>
        </div>`,
    )}
  </dl>`;

/** Returns links to the previous and next page, or an empty string if there is only one page. */
export function pager({ newer, older }: { newer?: string | undefined; older?: string | undefined }): Html {
  if (newer === undefined && older === undefined) return '';
  return html`<nav class="pager" aria-label="Pages">
    !${newer === undefined ? '' : html`<a href="${newer}" rel="prev">Newer</a>`}
    !${older === undefined ? '' : html`<a href="${older}" rel="next">Older</a>`}
  </nav>`;
}
