import type { FastifyInstance, FastifyRequest } from 'fastify';
import { sessionOf } from '../../plugins/credentials/auth.ts';
import type { ListName } from '../../queries/crm/lists.ts';
import { verificationStatuses } from '../../schemas/verification.ts';
import { forMembers } from '../base/access.ts';
import { filterChoice, hidden, type Choice } from '../base/forms.ts';
import { count, empty, html, linkButton, notice, pager, table, type Html } from '../base/html.ts';
import { sendPage } from '../base/layout.ts';
import { countryChoices } from '../base/values.ts';
import { verificationWords } from '../base/words.ts';
import { addressOf, filtersOf, parametersOf, requestOf, viewOfRequest, type View } from './record-address.ts';
import { doneText } from './chosen-acts.ts';
import { listChoices } from './list-choices.ts';
import type { FilterControl, RecordKind, ShownRecord } from './record-kind.ts';

/** Rows of one page. */
export const pageRows = 25;

/** Up to this number matches are counted exactly. */
export const mostCounted = 10_000;

/** The list of contacts or companies, with search, filters, order and pages. */
export function recordList<Row extends ShownRecord>(app: FastifyInstance, kind: RecordKind<Row>): void {
  const { path, title } = kind;
  app.get(path.replace('/app', ''), forMembers, async (request, reply) => {
    const view = viewOfRequest(kind, request);
    const { db, caller } = request;
    const filters = filtersOf(kind.controls, view);
    const [page, matches, lists] = await Promise.all([
      kind.list(db, caller.customerId, requestOf(kind, view, pageRows)),
      kind.countUpTo(db, caller.customerId, filters, mostCounted),
      kind.object === 'contacts' ? listChoices(request, view.values['list']) : [],
    ]);
    const isFiltered = Object.keys(view.values).length > 0;
    const rows =
      page.rows.length === 0 ? '' : chooser(kind, view, { rows: page.rows, matches, isAdmin: isAdmin(request) });
    return sendPage(request, reply, {
      title,
      section: path,
      actions: html`!${linkButton('Import', importPath(kind), 'secondary outline')}
      !${linkButton(`New ${kind.noun}`, `${path}/new`)}`,
      body: html`!${doneText(request, kind)} !${filterForm(kind, view, lists)}
      !${page.rows.length > 0 ? heading(kind, view, matches) : none(kind, view, isFiltered)} !${rows}
      !${pages(kind, view, page.nextCursor)}`,
    });
  });
}

const importPath = ({ object }: { object: string }): string => `/app/imports/new?object=${object}`;

const isAdmin = (request: FastifyRequest): boolean => sessionOf(request).role === 'admin';

function filterForm<Row extends ShownRecord>(kind: RecordKind<Row>, view: View, lists: readonly ListName[]): Html {
  const isFiltered = Object.keys(view.values).length > 0;
  return html`<search>
    <form class="filters" method="get" action="${kind.path}">
      !${kind.controls.map((control) => controlOf(control, view.values[control.name] ?? '', lists))}
      !${filterChoice('sort', 'Order', [['', 'newest first'], ...kind.sorts], view.sort)}
      <div class="filter-buttons">
        <button class="secondary">Search</button>
        !${isFiltered ? html`<a href="${kind.path}">Clear</a>` : ''}
      </div>
    </form>
  </search>`;
}

function controlOf({ name, label, control }: FilterControl, value: string, lists: readonly ListName[]): Html {
  if (control === 'hidden') return value === '' ? '' : hidden({ [name]: value });
  if (control === 'search' || control === 'text')
    return html`<label class="${control}"
      >${label}
      <input type="search" name="${name}" value="${value}" maxlength="256" autocomplete="off" />
    </label>`;
  return filterChoice(name, label, [['', 'any'], ...choicesOf(control, lists)], value);
}

function choicesOf(control: 'country' | 'list' | 'status', lists: readonly ListName[]): readonly Choice[] {
  if (control === 'country') return countryChoices;
  if (control === 'status') return verificationStatuses.map((one) => [one, verificationWords[one].word] as const);
  return lists.map(({ id, name }) => [id, name] as const);
}

/** Returns e.g. `1,234`, or `more than 10,000`. */
export const numberOf = (matches: number): string =>
  matches > mostCounted ? `more than ${count(mostCounted)}` : count(matches);

function heading<Row extends ShownRecord>(kind: RecordKind<Row>, view: View, matches: number): Html {
  const download = (format: string) => addressOf(`${kind.path}/export`, view, { format });
  return html`<div class="above">
    <p><strong>${numberOf(matches)}</strong> ${matches === 1 ? kind.noun : kind.title.toLowerCase()}</p>
    <p class="quiet">
      Export: <a href="${download('xlsx')}" download>Excel</a> · <a href="${download('csv')}" download>CSV</a>
    </p>
  </div>`;
}

/** Returns the table of records, each of which can be chosen. */
function chooser<Row extends ShownRecord>(
  kind: RecordKind<Row>,
  view: View,
  { rows, matches, isAdmin }: { rows: readonly Row[]; matches: number; isAdmin: boolean },
): Html {
  const { path, title } = kind;
  const columns = filledColumns(kind, rows);
  const all =
    matches > rows.length
      ? html`<label><input type="checkbox" name="all" value="1" /> all ${numberOf(matches)} that match</label>`
      : '';
  return html`<form class="chooser" method="get" action="${path}/chosen" data-chooser>
    !${hidden(Object.fromEntries(parametersOf(view)))}
    !${table(
      title,
      columns.map(({ head }) => head),
      rows.map((row) => rowOf(kind, columns, row)),
    )}
    <div class="chosen">
      <label data-choose-page hidden><input type="checkbox" /> this page</label>
      !${all}
      <span data-chosen class="quiet" role="status"></span>
      <div class="buttons small">
        !${
          kind.object === 'contacts'
            ? html`<button name="do" value="list" class="secondary outline">Add to a list</button>
                !${isAdmin ? html`<button name="do" value="verify" class="secondary outline">Verify</button>` : ''}`
            : ''
        }
        <button name="do" value="delete" class="danger outline">Delete</button>
      </div>
    </div>
  </form>`;
}

/** Returns the columns of a table of these rows, without those that are empty in all of them. */
const filledColumns = <Row extends ShownRecord>({ columns }: RecordKind<Row>, rows: readonly Row[]) =>
  columns.filter(({ cell }, i) => i === 0 || rows.some((row) => cell(row) !== ''));

/** Returns records as a table in which none can be chosen. */
export function rowsOf<Row extends ShownRecord>(kind: RecordKind<Row>, rows: readonly Row[]): Html {
  const { title, path, nameOf } = kind;
  const columns = filledColumns(kind, rows);
  return table(
    title,
    columns.map(({ head }) => head),
    rows.map(
      (row) =>
        html`<tr>
          <td><a href="${path}/${row.id}">${nameOf(row)}</a></td>
          !${columns.slice(1).map(({ cell }) => html`<td>!${cell(row)}</td>`)}
        </tr>`,
    ),
  );
}

function rowOf<Row extends ShownRecord>(
  { path, nameOf }: RecordKind<Row>,
  [, ...others]: RecordKind<Row>['columns'],
  row: Row,
): Html {
  const name = nameOf(row);
  return html`<tr>
    <td class="chosen-first">
      <input type="checkbox" name="id" value="${row.id}" aria-label="Choose ${name}" /><a href="${path}/${row.id}"
        >${name}</a
      >
    </td>
    !${others.map(({ cell }) => html`<td>!${cell(row)}</td>`)}
  </tr>`;
}

function none<Row extends ShownRecord>(kind: RecordKind<Row>, view: View, isFiltered: boolean): Html {
  const { path, title, noun, advice, picture } = kind;
  if (view.cursor !== '') return notice(`There are no more ${title.toLowerCase()}.`, 'plain');
  if (isFiltered) {
    const clear = linkButton('Show all', path, 'secondary outline');
    return empty(`No ${noun} matches`, 'Search for less, or take a filter away.', clear, 'search');
  }
  const add = linkButton('Import a file', importPath(kind));
  return empty(`No ${title.toLowerCase()} yet`, advice, add, picture);
}

/** Returns the links to the first and the next page. */
function pages({ path }: { path: string }, view: View, next: string | undefined): Html {
  const older =
    next === undefined ? undefined : addressOf(path, view, { cursor: next, from: String(view.from + pageRows) });
  const newer = view.cursor === '' ? undefined : addressOf(path, view);
  return pager({ newer, older }, { newer: 'First page', older: 'Next page' });
}
