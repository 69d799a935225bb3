import { html } from 'ghtml';

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
                const number = kind === 'number' ? 'class="number"' : '';
                if (!sort) return html`<th scope="col" !${number}>${head}</th>`;
                const order = { ascending: ' ↑', descending: ' ↓', none: '' }[sort.now];
                return html`<th scope="col" aria-sort="${sort.now}" !${number}>
                  <a href="${sort.path}">${head}</a>${order}
                </th>`;
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

export const quiet = (text: string): Html => html`<p class="quiet">${text}</p>`;

export const panel = (title: string, body: Html): Html =>
  html`<section class="card">
    <h2>${title}</h2>
    !${body}
  </section>`;

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

export const searchBox = (noun: string, value: string): Html =>
  html`<input
      type="search"
      name="search"
      value="${value}"
      maxlength="256"
      autocomplete="off"
      !${html`aria-label="Search ${noun}" placeholder="Search ${noun}"`}
    />
    <button class="secondary outline">Search</button>`;

const pageLinks = { first: ['First page', 'prev'], previous: ['Previous', 'prev'], next: ['Next', 'next'] } as const;

/** Returns links to other pages of a list. A page that is found by a cursor knows only the first and the next one. */
export function pager(paths: Partial<Record<keyof typeof pageLinks, string | undefined>>): Html {
  const links = Object.entries(pageLinks).flatMap(([name, [label, rel]]) => {
    const path = paths[name as keyof typeof pageLinks];
    return path ? [html`<a href="${path}" rel="${rel}">${label}</a>`] : [];
  });
  return links.length === 0 ? '' : html`<nav class="pager" aria-label="Pages">!${links}</nav>`;
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

export const buttons = (label: string, back: string, refusal = 'Cancel'): Html =>
  html`<div class="buttons">
    <button>${label}</button> !${linkButton(refusal, back, 'secondary outline', 'data-close')}
  </div>`;

/** SVG drawings of 48 × 48 units. The style sheet sets their colour. */
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

const stroke: Html = 'stroke-width="2" stroke-linecap="round" stroke-linejoin="round"';

export const picture = (name: PictureName): string =>
  html`<svg class="picture" viewBox="0 0 48 48" aria-hidden="true" fill="none" !${stroke}>!${drawings[name]}</svg>`;
