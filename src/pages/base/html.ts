import { html } from 'ghtml';
import { dayOf } from './days.ts';
import { picture, type PictureName } from './pictures.ts';

export { html };

/**
 * Text that contains HTML. In a template, `!${…}` inserts it unchanged and `${…}` escapes it, so a forgotten `!` shows
 * tags as text, which is safe.
 */
export type Html = string;

const dates = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeZone: 'UTC' });
const times = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'short', timeZone: 'UTC' });
const numbers = new Intl.NumberFormat('en-GB');

/**
 * Returns a date and time in UTC, or `none` for null. The script of the pages shows it in the time zone of the viewer.
 */
export const moment = (instant: string | null, none = '–'): Html =>
  instant === null
    ? html`<span class="quiet">${none}</span>`
    : html`<time datetime="${instant}">${times.format(new Date(instant))} UTC</time>`;

/** Returns a date in UTC, without the time. The script of the pages shows the date in the time zone of the viewer. */
export const date = (instant: string): Html =>
  html`<time datetime="${instant}" data-day>${dates.format(new Date(instant))}</time>`;

/**
 * Returns the day of an instant in UTC, such as the day on which an opportunity closes. It is the day that was typed, in
 * the time zone of every viewer. A text that is not an instant is returned as text: custom fields can be called like days.
 */
export const day = (instant: string): Html =>
  Number.isNaN(Date.parse(instant))
    ? html`${instant}`
    : html`<time datetime="${dayOf(instant)}">${dates.format(new Date(instant))}</time>`;

/** Formats an integer with thousands separators. */
export const count = (value: number): string => numbers.format(value);

/** Returns e.g. `1 key` or `2 keys`. */
export const counted = (value: number, noun: string, plural = `${noun}s`): string =>
  `${count(value)} ${value === 1 ? noun : plural}`;

/** Determines the colour of a badge or message. `busy` means in progress. */
export type Tone = 'good' | 'busy' | 'warning' | 'bad' | 'plain';

/** Returns a short coloured text, such as the status of an API key. */
export const badge = (text: string, tone: Tone): Html => html`<span class="badge ${tone}">${text}</span>`;

export const notice = (text: string, tone: Tone = 'good'): Html =>
  html`<p class="notice ${tone}" role="${tone === 'bad' ? 'alert' : 'status'}">${text}</p>`;

/** Returns what a page shows in place of an empty list. `text` says what to do. */
export const empty = (title: string, text: string, link: Html = '', drawing: PictureName = 'search'): Html =>
  html`<div class="empty">
    !${picture(drawing)}
    <h2>${title}</h2>
    <p>${text}</p>
    !${link}
  </div>`;

/** A column of a table: its head, what a row shows in it, and how (`number`: at the right; `row`: it names the row). */
export type Column<Row> = readonly [
  head: string,
  cell: (row: Row, index: number) => Html,
  kind?: string | undefined,
  /** The link that sorts by it, and how it is sorted now. */
  sort?: { path: string; now: 'ascending' | 'descending' | 'none' } | undefined,
];

/**
 * Returns a table in a frame of its own, in which it scrolls if it is wider than the screen; the first column stays. On
 * a narrow screen each row is a card, in which each cell has the head of its column.
 */
export const table = <Row>(label: string, columns: readonly Column<Row>[], rows: readonly Row[]): Html =>
  html`<div class="scroll" role="region" aria-label="${label}" tabindex="0">
    <table>
      <thead>
        <tr>
          !${columns.map(([head, , kind, sort]) => {
            const number = kind === 'number' ? 'class="number"' : '';
            if (!sort) return html`<th scope="col" !${number}>${head}</th>`;
            return html`<th scope="col" aria-sort="${sort.now}" !${number}><a href="${sort.path}">${head}</a></th>`;
          })}
        </tr>
      </thead>
      <tbody>
        !${rows.map(
          (row, i) =>
            html`<tr>
              !${columns.map(([head, cell, kind]) => tableCell(head, cell(row, i), kind))}
            </tr>`,
        )}
      </tbody>
    </table>
  </div>`;

function tableCell(head: string, value: Html, kind?: string): Html {
  if (kind === 'row') return html`<th scope="row" data-head="${head}">!${value}</th>`;
  return html`<td data-head="${head}" !${kind ? html`class="${kind}"` : ''}>!${value}</td>`;
}

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

export interface PagerNames {
  newer: string;
  older: string;
}

/** Returns links to the previous and next page, or an empty string if there is only one page. */
export function pager(
  { newer, older }: { newer?: string | undefined; older?: string | undefined },
  names: PagerNames = { newer: 'Newer', older: 'Older' },
): Html {
  if (newer === undefined && older === undefined) return '';
  return html`<nav class="pager" aria-label="Pages">
    !${newer === undefined ? '' : html`<a href="${newer}" rel="prev">${names.newer}</a>`}
    !${older === undefined ? '' : html`<a href="${older}" rel="next">${names.older}</a>`}
  </nav>`;
}

/** Returns the links beside a page of rows that were read with a cursor; an empty cursor is the first page. */
export const cursorPager = (
  path: string,
  cursor: string,
  next: string | undefined,
  filters: Readonly<Record<string, string>> = {},
): Html => {
  const urlOf = (more: object): string => {
    const query = new URLSearchParams({ ...filters, ...more }).toString();
    return query === '' ? path : `${path}?${query}`;
  };
  return pager({ newer: cursor ? urlOf({}) : undefined, older: next && urlOf({ cursor: next }) });
};

/**
 * Returns a link that looks like a button.
 * @param style how it looks, e.g. `danger outline`
 * @param more further attributes
 */
export const linkButton = (label: string, path: string, style = '', more: Html = ''): Html =>
  html`<a role="button" class="${style}" href="${path}" !${more}>${label}</a>`;

/**
 * Returns the button that sends a form, and the link that leads back.
 * @param refusal text of the link
 */
export const buttons = (label: string, back: string, refusal = 'Cancel'): Html =>
  html`<div class="buttons">
    <button>${label}</button> !${linkButton(refusal, back, 'secondary outline', 'data-close')}
  </div>`;
