import type { FastifyRequest } from 'fastify';
import { canonicalId, etagOf } from '../../text/ids.ts';
import { tokenMark, tokenField, text, linesIn, asSentBack, queryOf, queryText, pageNumberOf } from './requests.ts';
import { sentText, type Fields, type Faults } from './requests.ts';
import { notice, pager, pathWith, html, table, when, type Column, type Html } from './html.ts';

/* How pages draw forms, their controls, and what was done. */

/** Returns a form with a hidden field for the token against cross-site request forgery (CSRF). */
export const form = (action: string, body: Html, attributes: Html = ''): Html =>
  html`<form method="post" action="${action}" !${attributes}>!${hidden({ [tokenField]: tokenMark })} !${body}</form>`;

export const versionField = (shown: object): Html => hidden({ etag: etagOf(shown) });

export function pageOf<Row>(request: FastifyRequest, all: readonly Row[], size: number): { rows: Row[]; below: Html } {
  const page = pageNumberOf(request);
  return { rows: all.slice((page - 1) * size, page * size), below: numberedPager(request, all.length > page * size) };
}

function addressAt(request: FastifyRequest, place: Record<string, string>, path = request.url.split('?')[0]!): string {
  const { page: _page, cursor: _cursor, made: _made, ...query } = queryOf(request);
  const { done: _done, change: _change, were: _were, ...filters } = query;
  return pathWith(path, { ...filters, ...place });
}

/** @param next true if there is another page; or its cursor, so that it costs the same however far down it is */
export function numberedPager(request: FastifyRequest, next: boolean | string | undefined, path?: string): Html {
  const page = pageNumberOf(request);
  const at = (number: number, cursor?: string): string =>
    addressAt(request, { page: String(number), ...(cursor === undefined ? {} : { cursor }) }, path);
  return pager({
    previous: page > 1 ? at(page - 1) : undefined,
    next: next ? at(page + 1, typeof next === 'string' ? next : undefined) : undefined,
  });
}

/** @param next cursor of the next page */
export const cursorPager = (request: FastifyRequest, next: string | undefined): Html =>
  pager({
    first: queryText(request, 'cursor') && addressAt(request, {}),
    next: next && addressAt(request, { cursor: next }),
  });

const usualTexts = {
  created: 'It is created.',
  planned: 'The task is created.',
  changed: 'It is saved.',
  deleted: 'It is deleted.',
  moved: 'It is moved.',
  completed: 'The task is done.',
  reopened: 'The task is open again.',
  undone: 'It is taken back.',
};

export function doneNotice(request: FastifyRequest, given: Readonly<Record<string, string>> = {}): Html {
  const done = queryText(request, 'done');
  if (done === 'sent') return notice('This form was sent before. Nothing was done a second time.', 'warning');
  const texts: Readonly<Record<string, string>> = { ...usualTexts, ...given };
  return Object.hasOwn(texts, done) ? notice(texts[done]!, 'good', undoButton(request)) : '';
}

/** Returns the parameters of an address without those that tell what was done. */
export function withoutNotice(query: string): URLSearchParams {
  const rest = new URLSearchParams(query);
  for (const name of ['done', 'n', 'more', 'change', 'were', 'made']) rest.delete(name);
  return rest;
}

/**
 * Returns a button that undoes the last action, and leads back to the same page. The query parameter `change` names its
 * changes (`withUndo`), or `were` the contacts that it has put into the page's list, or taken out.
 */
export function undoButton(request: FastifyRequest): Html {
  const [change, were] = [canonicalId(queryText(request, 'change')), queryText(request, 'were')];
  if (change === undefined && were === '') return '';
  const [path, query] = request.url.split('?') as [string, string];
  const back = pathWith(path, Object.fromEntries(withoutNotice(query)));
  const undo = '<button class="link">Undo</button>';
  if (change !== undefined) return form(pathWith(`/app/changes/${change}/undo`, { back }), undo, 'data-once');
  const act = queryText(request, 'done') === 'added' ? 'remove' : 'add';
  const members = hidden({ list_id: queryText(request, 'list'), do: act, id: were.split('.') });
  const reversal = pathWith('/app/contacts/lists', { back: pathWith(back, { done: 'undone' }) });
  return form(reversal, html`!${members} !${undo}`, 'data-once');
}

export const group = (legend: string, body: Html, id = ''): Html =>
  html`<div class="card" !${id === '' ? '' : html`id="${id}"`}>
    <fieldset>
      <legend><h2>${legend}</h2></legend>
      !${body}
    </fieldset>
  </div>`;

export const choices = (legend: string, ticks: readonly Html[]): Html =>
  html`<fieldset class="row">
    <legend>${legend}</legend>
    !${ticks}
  </fieldset>`;

/** Returns attributes that mark a control outside `controlsFor` as wrong. `faultText` shows why. */
export const faultMark = (name: string, faults: Faults): Html =>
  when(faults[name], html`aria-invalid="true" aria-describedby="${name}-fault"`);

export const faultText = (name: string, faults: Faults): Html =>
  faults[name] ? html`<small class="fault" id="${name}-fault">${faults[name]}</small>` : '';

export function formFaults(faults: Faults, body: Html = ''): Html {
  if (Object.keys(faults).length === 0) return '';
  const others = Object.entries(faults).filter(([name]) => !body.includes(html`id="${name}-fault"`));
  return notice(others.map(([, fault]) => fault).join(' ') || 'Please look at the marked fields.', 'bad');
}

/** Returns an input, or a text area if the value has line breaks. An `input` would lose them. */
export const textInput = (attributes: Html, value: string, type = 'text'): Html =>
  /[\r\n]/.test(value) ? textArea(attributes, value) : html`<input type="${type}" !${attributes} value="${value}" />`;

export const textArea = (attributes: Html, value: string): Html =>
  // Browsers drop the line break at the beginning.
  html`<textarea !${attributes} rows="${Math.max(2, value.split('\n').length)}">${`\n${value}`}</textarea>`;

// The end tag is optional. A form of many rules has thousands of options.
// prettier-ignore
export const option = (value: string, label: string, chosen: string): Html =>
  html`<option value="${value}"!${value === chosen ? ' selected' : ''}>${label}`;

export type Choice = readonly [value: string, label: string];

export type Choices = readonly Choice[] | Readonly<Record<string, string>>;

const pairsOf = (choices: Choices): readonly Choice[] => (Array.isArray(choices) ? choices : Object.entries(choices));

/**
 * Returns a select element. Adds the chosen value as a choice if it is not among them.
 * @param own choices that are the customer's own fields
 */
export function select(attributes: Html, choices: Choices, chosen: string, own: readonly Choice[] = []): Html {
  const pairs = pairsOf(choices);
  const isKnown = chosen === '' || [...pairs, ...own].some(([value]) => value === chosen);
  const options = own.map(([value, label]) => option(value, label, chosen));
  return html`<select !${attributes}>
    !${pairs.map(([value, label]) => option(value, label, chosen))}
    !${isKnown ? '' : option(chosen, 'as it is now', chosen)}
    !${when(own.length > 0, html`<optgroup label="Your own fields">!${options}</optgroup>`)}
  </select>`;
}

type InputOptions = { hint?: string; type?: string; more?: Html };

/**
 * Returns functions that draw the fields of a form.
 * @param values texts of the fields by name
 * @param theirs texts by field name that another user has stored since the form was opened. They are shown below the
 * fields
 * @param required names of the fields that must not be empty
 */
export function controlsFor(
  values: Fields,
  faults: Faults,
  theirs: Readonly<Record<string, string>> = {},
  required: readonly string[] = [],
) {
  const draw = (
    name: string,
    label: string,
    hint: string,
    control: (attributes: Html, value: string) => Html,
    choices: Choices = [],
  ): Html => {
    const chosen = pairsOf(choices).find(([value]) => value === theirs[name])?.[1];
    const stored = chosen ?? theirs[name]?.replaceAll('\n', ', ');
    const shown = stored === undefined ? hint : `Stored now: ${stored || 'nothing'}`;
    const described = [shown && `${name}-hint`, faults[name] && `${name}-fault`].filter(Boolean).join(' ');
    const about = described && html`aria-describedby="${described}"`;
    const isRequired = required.includes(name);
    const isInvalid = faults[name] && 'aria-invalid="true"';
    const named = [html`id="${name}" name="${name}"`, about, isInvalid, isRequired && 'required'];
    const attributes = named.filter(Boolean).join(' ');
    return html`<div>
      <label for="${name}">${label}${when(isRequired, ' *')}</label>
      !${control(attributes, text(values, name))} !${faultText(name, faults)}
      !${shown ? html`<small id="${name}-hint">${shown}</small>` : ''}
    </div>`;
  };
  return {
    draw,
    input: (name: string, label: string, options: InputOptions = {}): Html => {
      const { hint = '', type = 'text', more = 'maxlength="255" autocomplete="off"' } = options;
      return draw(name, label, hint, (attributes, value) => textInput(html`!${attributes} !${more}`, value, type));
    },
    area: (name: string, label: string, hint = '', more: Html = 'maxlength="5000"'): Html =>
      draw(name, label, hint, (attributes, value) => textArea(html`!${attributes} !${more}`, value)),
    choice: (name: string, label: string, choices: Choices, hint = ''): Html =>
      draw(name, label, hint, (attributes, value) => select(attributes, choices, value), choices),
  };
}

/** Returns the stored texts that differ from those of a form. Leaves out lists of values. */
export const differing = (stored: Fields, sent: Fields): Record<string, string> =>
  Object.fromEntries(
    Object.entries(stored).flatMap(([name, value]) =>
      typeof value === 'string' && linesIn(sent, name) !== asSentBack(value) ? [[name, value] as const] : [],
    ),
  );

/** Button that sends filters. Only browsers without scripts show it: a script sends the filters at each choice. */
export const showButton: Html = '<noscript><button class="secondary outline">Show</button></noscript>';

export const filters = (path: string, controls: Html, button = showButton): Html =>
  html`<form class="filters" method="get" action="${path}">!${controls} !${button}</form>`;

export const labelled = (label: string, control: Html): Html => html`<label>${label} !${control}</label>`;

export const filterChoice = (name: string, label: string, choices: Choices, chosen: string): Html =>
  labelled(label, select(html`name="${name}" data-submit`, choices, chosen));

/** Comes first, so browsers press it when a user presses Enter in a field. Otherwise Enter would press another button. */
export const enterButton = (label: string): Html =>
  html`<button name="do" value="save" class="skip" tabindex="-1" aria-hidden="true">${label}</button>`;

interface RowEditor<Row> {
  label: string;
  noun: string;
  columns: readonly Column<Row>[];
  rows: readonly Row[];
  blank: Row;
  most: number;
  /** Returns true for a row that stays behind new ones if it is at the end. Without it, users cannot move rows. */
  isLast?: (row: Row) => boolean;
  /** Returns what stands for a row that was taken out. Default: nothing. */
  takenOut?: (row: Row) => Row | undefined;
}

/** Returns which button of `rowEditor` was pressed, such as `up 2` for row 2. Empty: none of them. */
export const rowAct = (request: FastifyRequest): string => /^row (.+)/.exec(sentText(request, 'do'))?.[1] ?? '';

/** Returns a table of rows of controls, with buttons that add a row, remove one, and move one up or down. */
export function rowEditor<Row>(request: FastifyRequest, editor: RowEditor<Row>): Html {
  const { label, noun, columns, blank, most, isLast, takenOut } = editor;
  const [act, place] = rowAct(request).split(' ');
  const at = Number(place);
  const rows = editor.rows.flatMap((row, i) => (act === 'out' && i === at ? (takenOut?.(row) ?? []) : [row]));
  const to = act === 'up' ? at - 1 : act === 'down' ? at + 1 : -1;
  if (to >= 0) rows.splice(to, 0, ...rows.splice(at, 1));
  const end = isLast ? rows.findLastIndex((row) => !isLast(row)) + 1 : rows.length;
  const isAdded = act === 'add' && rows.length < most;
  if (isAdded || rows.length === 0) rows.splice(end, 0, blank);
  // The first or last row has only one of the buttons that move it: the first one.
  const mover = to === 0 || to === rows.length - 1 ? 'button' : `[value^="row ${act}"]`;
  const focused = isAdded ? ([end, ':is(select, input:not([type="hidden"]))'] as const) : ([to, mover] as const);
  const button = (what: string, words: string, spoken = words): Html =>
    html`<button class="link" name="do" value="row ${what}" formaction="#rows" formnovalidate aria-label="${spoken}">
      ${words}
    </button>`;
  const acts = (_row: Row, i: number): Html =>
    html`!${when(isLast && i > 0, button(`up ${i}`, '↑', `Move ${noun} ${i + 1} up`))}
    !${when(isLast && i + 1 < rows.length, button(`down ${i}`, '↓', `Move ${noun} ${i + 1} down`))}
    !${button(`out ${i}`, 'Remove', `Remove ${noun} ${i + 1}`)}`;
  return html`!${enterButton('Save')}
    <div id="rows" !${when(focused[0] >= 0, html`data-focus="tr:nth-child(${focused[0] + 1}) ${focused[1]}"`)}>
      !${table(label, [...columns, ['', acts, 'acts']], rows)}
      !${when(rows.length < most, html`<p>!${button('add', `Add a ${noun}`)}</p>`)}
    </div>`;
}

export const tick = (
  type: 'checkbox' | 'radio',
  [name, value]: readonly [name: string, value: string],
  label: Html,
  isTicked: boolean,
  more: Html = '',
): Html =>
  html`<label>
    <input type="${type}" name="${name}" value="${value}" !${isTicked ? 'checked' : ''} !${more} /> !${label}
  </label>`;

export const hidden = (fields: Readonly<Record<string, string | readonly string[]>>): Html =>
  html`!${Object.entries(fields).flatMap(([name, value]) =>
    [value].flat().map((one) => html`<input type="hidden" name="${name}" value="${one}" />`),
  )}`;
