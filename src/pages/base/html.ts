import { html } from 'ghtml';
import { clearDate, clearNumber } from '../../files/values.ts';

export { html };

/** Text that contains HTML. In a template, `!${…}` inserts it unchanged and `${…}` escapes it. */
export type Html = string;

export const when = (condition: unknown, shown: Html): Html => (condition ? shown : '');

export type Tone = 'good' | 'busy' | 'warning' | 'bad' | 'plain';

export const badge = (text: string, tone: Tone): Html => html`<span class="badge ${tone}">${text}</span>`;

export const notice = (text: string, tone: Tone = 'good', more: Html = ''): Html =>
  html`<div class="notice ${tone}" role="${tone === 'bad' ? 'alert' : 'status'}">
    ${text}!${when(more, ` ${more}`)}
  </div>`;

export const empty = (title: string, text: string, drawing: PictureName = 'search', link: Html = ''): Html =>
  html`<div class="empty">
    !${picture(drawing)}
    <h2>${title}</h2>
    <p>${text}</p>
    !${link}
  </div>`;

/**
 * Column of a table: its title, a function that draws a cell, and the style of its cells. The style `number` aligns
 * right. The style `row` marks the cell that names its row.
 */
export type Column<Row> = readonly [
  head: string,
  cell: (row: Row, index: number) => Html,
  kind?: string | undefined,
  sort?: { path: string; now: 'ascending' | 'descending' | 'none' } | undefined,
];

/**
 * Returns a table that scrolls sideways if it is wider than the screen. On a narrow screen, each row becomes a card.
 * @param none text shown instead of an empty table
 */
export const table = <Row>(label: string, columns: readonly Column<Row>[], rows: readonly Row[], none?: Html): Html =>
  none !== undefined && rows.length === 0
    ? none
    : html`<div class="scroll" role="region" aria-label="${label}" tabindex="0">
        <table>
          <thead>
            <tr>
              !${columns.map(([head, , kind, sort]) => {
                if (head === '') return '<td></td>';
                const number = when(kind === 'number', ' class="number"');
                if (!sort) return html`<th scope="col" !${number}>${head}</th>`;
                const order = { ascending: '↑', descending: '↓', none: '' }[sort.now];
                return html`<th scope="col" aria-sort="${sort.now}" !${number}>!${link(head, sort.path)} ${order}</th>`;
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

export type Fact = readonly [name: string, value: Html | false | undefined];

/** Returns a list of names and values. Leaves out entries whose value is undefined. */
export const facts = (entries: readonly Fact[]): Html =>
  html`<dl class="facts">
    !${entries.map(([name, value]) =>
      value === undefined || value === false
        ? ''
        : html`<div>
            <dt>${name}</dt>
            <dd>!${value}</dd>
          </div>`,
    )}
  </dl>`;

export const factCard = (entries: readonly Fact[]): Html => html`<div class="card">!${facts(entries)}</div>`;

export const quiet = (text: string): Html => html`<p class="quiet">${text}</p>`;

export const line = (text: string): Html => html`<span class="line">${text}</span>`;

export const link = (text: string, path: string): Html => html`<a href="${path}">${text}</a>`;

export const twoLines = (first: Html, second: Html): Html =>
  html`!${first}!${when(second, html`<br /><span class="quiet">!${second}</span>`)}`;

export const card = (body: Html): Html => html`<div class="card">!${body}</div>`;

export const sideBySide = (...parts: readonly Html[]): Html => html`<div class="columns">!${parts}</div>`;

export const panel = (title: string, body: Html, beside: Html = ''): Html =>
  html`<section class="card">
    <div class="row apart">
      <h2>${title}</h2>
      !${beside}
    </div>
    !${body}
  </section>`;

export const folded = (title: Html, body: Html, isOpen: unknown = false): Html =>
  html`<details !${when(isOpen, 'open')}>
    <summary>!${title}</summary>
    !${body}
  </details>`;

export const bullets = (items: readonly Html[]): Html =>
  html`<ul>
    !${items.map((item) => html`<li>!${item}</li>`)}
  </ul>`;

export const plainList = (rows: readonly Html[], none: string): Html =>
  rows.length === 0
    ? quiet(none)
    : html`<ul class="items">
        !${rows.map((row) => html`<li>!${row}</li>`)}
      </ul>`;

export const workplace = (main: Html, label: string, aside: Html): Html =>
  html`<div class="workplace">
    <div>!${main}</div>
    <section aria-label="${label}">!${aside}</section>
  </div>`;

/** @param searched what the search looks at */
export function searchBox(noun: string, value: string, searched = noun): Html {
  const said = html`aria-label="Search ${noun}" placeholder="Search ${searched}"`;
  return html`<input type="search" name="search" value="${value}" maxlength="256" autocomplete="off" !${said} />
    <button class="secondary outline">Search</button>`;
}

const pageLinks = { first: ['First page', 'prev'], previous: ['Previous', 'prev'], next: ['Next', 'next'] } as const;

/** Returns links to other pages of a list. A page that is found by a cursor knows only the first and the next one. */
export function pager(paths: Partial<Record<keyof typeof pageLinks, string | undefined>>, label = 'Pages'): Html {
  const links = Object.entries(pageLinks).flatMap(([name, [label, rel]]) => {
    const path = paths[name as keyof typeof pageLinks];
    return path ? [html`<a href="${path}" rel="${rel}">${label}</a>`] : [];
  });
  return links.length === 0 ? '' : html`<nav class="pager" aria-label="${label}">!${links}</nav>`;
}

/** Returns a path with a query string of the parameters that are not empty. */
export function pathWith(path: string, parameters: Readonly<Record<string, string | string[] | undefined>>): string {
  const given = Object.entries(parameters).flatMap(([name, values]) =>
    [values ?? []].flat().flatMap((value): [string, string][] => (value === '' ? [] : [[name, value]])),
  );
  if (given.length === 0) return path;
  return `${path}${path.includes('?') ? '&' : '?'}${new URLSearchParams(given).toString()}`;
}

export const linkButton = (label: string, path: string, style = '', more: Html = ''): Html =>
  html`<a role="button" class="${style}" href="${path}" !${more}>${label}</a>`;

export const dialogLink = (label: string, path: string, spoken = ''): Html =>
  html`<a href="${path}" data-dialog !${when(spoken, html`aria-label="${spoken}"`)}>${label}</a>`;

/** Returns links that act on the row of this name in a table. Their labels are by the last parts of their paths. */
export function acts(path: string, name: string, labels: Readonly<Record<string, string>>): Html {
  const linkOf = ([verb, label]: readonly [string, string]) =>
    dialogLink(label, `${path}/${verb}`, `${label}: ${name}`);
  return html`<span class="acts">!${Object.entries(labels).map(linkOf).join(' · ')}</span>`;
}

export const submit = (label: string): Html => html`<div class="buttons"><button>${label}</button></div>`;

/** @param closes attributes of the link back, which closes the dialog in which the form may be */
export const buttons = (label: string, back: string, refusal = 'Cancel', { tone = '', closes = 'data-close' } = {}) =>
  html`<div class="buttons">
    <button class="${tone}">${label}</button> !${linkButton(refusal, back, 'secondary outline', closes)}
  </div>`;

/** SVG drawings of 48 × 48 units. The style sheet defines their colour. */
const drawings = {
  people:
    '<circle cx="18" cy="17" r="7"/><path d="M5 40c0-8 6-13 13-13s13 5 13 13"/><path d="M31 11a7 7 0 0 1 0 13M35 29c5 2 8 6 8 11"/>',
  company: '<path d="M8 42V12l16-6v36M24 18l16 5v19M4 42h40"/><path d="M14 18v2m0 7v2m0 6v2m18-11v2m0 6v2"/>',
  list: '<rect x="9" y="6" width="30" height="36" rx="4"/><path d="m15 17 2 2 4-4M15 28l2 2 4-4M26 18h7M26 29h7"/>',
  deal: '<rect x="5" y="8" width="10" height="32" rx="3"/><rect x="19" y="8" width="10" height="20" rx="3"/><rect x="33" y="8" width="10" height="26" rx="3"/>',
  search: '<circle cx="21" cy="21" r="13"/><path d="m31 31 12 12M15 21h12"/>',
  twins:
    '<rect x="6" y="10" width="22" height="28" rx="4"/><path d="M28 14h10a4 4 0 0 1 4 4v16a4 4 0 0 1-4 4H28M12 20h10M12 27h6"/>',
  file: '<path d="M12 5h16l10 10v28H12zM28 5v10h10"/><path d="M25 37V22m-6 6 6-6 6 6"/>',
  job: '<circle cx="24" cy="24" r="9"/><path d="M24 5v6m0 26v6M5 24h6m26 0h6M10.6 10.6l4.2 4.2m18.4 18.4 4.2 4.2m0-26.8-4.2 4.2M14.8 33.2l-4.2 4.2"/>',
  coins:
    '<ellipse cx="20" cy="13" rx="13" ry="6"/><path d="M7 13v10c0 3.3 5.8 6 13 6 1.4 0 2.7-.1 4-.3M7 23v10c0 3.3 5.8 6 13 6h3"/><circle cx="34" cy="34" r="9"/>',
  key: '<circle cx="15" cy="31" r="9"/><path d="m22 25 19-19m-7 7 6 6m-13 1 5 5"/>',
  hook: '<circle cx="12" cy="34" r="6"/><circle cx="36" cy="34" r="6"/><circle cx="24" cy="11" r="6"/><path d="M18 34h12M21 16l-7 12M27 16l7 12"/>',
  clock: '<circle cx="24" cy="24" r="18"/><path d="M24 13v11l8 5"/>',
  done: '<circle cx="24" cy="24" r="18"/><path d="m15 25 6 6 12-13"/>',
} as const;

export type PictureName = keyof typeof drawings;

const stroke: Html =
  'width="56" stroke="var(--accent)" stroke-width="2" stroke-linecap="round" stroke-linejoin="round"';

export const picture = (name: PictureName): string =>
  html`<svg class="picture" viewBox="0 0 48 48" aria-hidden="true" fill="none" !${stroke}>!${drawings[name]}</svg>`;

/* Days, times and numbers, as people read and write them. */

/** A day without a time, such as `2026-12-31`. It is the same day in every time zone. */
export type Day = string;

export const dayOf = (instant: string): Day => instant.slice(0, 10);

export const startOf = (day: Day): string => `${day}T00:00:00.000Z`;

export const endOf = (day: Day): string => `${day}T23:59:59.999Z`;

export const dayMs = 24 * 60 * 60 * 1000;

export const dayIn = (days: number): Day => dayOf(new Date(Date.now() + days * dayMs).toISOString());

export const today = (): Day => dayIn(0);

const months = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec'];

/**
 * Reads a day as people write it, such as `25.11.2026` or `25 Nov 2026`. Returns undefined if the text is not a day or
 * can mean two, such as `03/04/2026`.
 */
export function readDay(given: string): Day | undefined {
  if (given.length > maxLength || given.includes(':')) return undefined;
  const [, day, name = '', year] = /^(\d{1,2})\.? ([a-z]{3})[a-z]*\.?,? (\d{4})$/i.exec(given.trim()) ?? [];
  const read = clearDate(name === '' ? given : `${year}-${months.indexOf(name.toLowerCase()) + 1}-${day}`);
  return read !== undefined && read > '0001' ? read : undefined;
}

const maxLength = 40;

/**
 * Reads a number as people write it, such as `40.000,00`, `US$40,000.00` or `€ 40 000`. Returns undefined if the text is
 * not a number or can mean two, such as `1,249`.
 */
export const readNumber = (given: string): number | undefined =>
  given.length > maxLength
    ? undefined
    : clearNumber(given.trim().replaceAll(/^(?:[A-Z]{0,3}\p{Sc}|[A-Z]{3})\s*|\s*(?:\p{Sc}|[A-Z]{3})$/gu, ''));

const dates = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeZone: 'UTC' });
const times = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'short', timeZone: 'UTC' });
const short = new Intl.DateTimeFormat('en-GB', { weekday: 'short', day: 'numeric', month: 'short', timeZone: 'UTC' });
const numbers = new Intl.NumberFormat('en-GB');

/** Returns a date and time in UTC, or `none` for null. A script then shows it in the viewer's time zone. */
export const moment = (instant: string | null, none = '–'): Html =>
  instant === null
    ? html`<span class="quiet">${none}</span>`
    : html`<time datetime="${instant}">${times.format(new Date(instant))} UTC</time>`;

/** Returns the date of an instant in UTC. A script then shows it in the viewer's time zone. */
export const date = (instant: string): Html =>
  html`<time datetime="${instant}" data-day>${dates.format(new Date(instant))}</time>`;

/**
 * Returns the UTC day of an instant. Viewers in all time zones see the same day. Returns text that is not an instant as
 * it is.
 */
export const day = (instant: string): Html =>
  Number.isNaN(Date.parse(instant))
    ? html`${instant}`
    : html`<time datetime="${dayOf(instant)}">${dates.format(new Date(instant))}</time>`;

/** Returns a day of the next weeks, such as `Mon 7 Dec`. */
export const shortDay = (given: Day): string => short.format(new Date(given)).replace(',', '');

export const count = (value: number): string => numbers.format(value);

export const counted = (value: number, noun: string, plural = `${noun}s`): string =>
  `${count(value)} ${value === 1 ? noun : plural}`;

/** Returns the first names and the number of the others, such as `Ada, Grace and 3 more`. */
export const someNames = (names: readonly string[], most: number, all = names.length): Html =>
  html`${names.slice(0, most).join(', ')}${when(all > most, ` and ${count(all - most)} more`)}`;
