import { html } from 'ghtml';

export { html };

/**
 * HTML text. Put it into a template with `!${…}`; everything else in a template is escaped with `${…}`. Forgetting the
 * `!` shows tags as text, and is never dangerous.
 */
export type Html = string;

const dates = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeZone: 'UTC' });
const times = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'short', timeZone: 'UTC' });
const numbers = new Intl.NumberFormat('en-GB');

/** Formats an instant as date and time of day in UTC; null as `none`. */
export const moment = (instant: string | null, none = '–'): Html =>
  instant === null
    ? html`<span class="quiet">${none}</span>`
    : html`<time datetime="${instant}">${times.format(new Date(instant))} UTC</time>`;

/** Formats an instant as a date in UTC. */
export const date = (instant: string): Html =>
  html`<time datetime="${instant}">${dates.format(new Date(instant))}</time>`;

/** Formats a whole number with separators between thousands. */
export const count = (value: number): string => numbers.format(value);

/** Returns `1 key`, `2 keys`. */
export const counted = (value: number, noun: string): string => `${count(value)} ${noun}${value === 1 ? '' : 's'}`;

/** What a badge says about something: it is well, it is under way, it needs a look, it is wrong, or none of these. */
export type Tone = 'good' | 'busy' | 'warning' | 'bad' | 'plain';

/** Returns HTML that shows a short text, such as the status of a key, as a badge. `tone` decides its colour. */
export const badge = (text: string, tone: Tone): Html => html`<span class="badge ${tone}">${text}</span>`;

/** Returns a message above the content of a page. */
export const notice = (text: string, tone: Tone = 'good'): Html =>
  html`<p class="notice ${tone}" role="${tone === 'bad' ? 'alert' : 'status'}">${text}</p>`;

/** Returns what a page shows instead of an empty list. */
export const empty = (title: string, text: string, link: Html = ''): Html =>
  html`<div class="empty">
    <h2>${title}</h2>
    <p>${text}</p>
    !${link}
  </div>`;

/** Returns a table that scrolls by itself if it is wider than the screen. */
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

/** Returns a list of names and values. The values are HTML. */
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

/** Returns the links to the neighbours of a page in a list; nothing if it has none. */
export function pager({ newer, older }: { newer?: string | undefined; older?: string | undefined }): Html {
  if (newer === undefined && older === undefined) return '';
  return html`<nav class="pager" aria-label="Pages">
    !${newer === undefined ? '' : html`<a href="${newer}" rel="prev">Newer</a>`}
    !${older === undefined ? '' : html`<a href="${older}" rel="next">Older</a>`}
  </nav>`;
}
