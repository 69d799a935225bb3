import type { FastifyInstance, FastifyRequest } from 'fastify';
import { forMembers, sendPage } from '../base/layout.ts';
import { count, counted, facts, html, moment, panel, workplace, type Html } from '../base/html.ts';
import { queryOf, readForm, text } from '../base/forms.ts';
import { requestOf, viewOf } from './record-address.ts';
import { pageRows } from './record-list.ts';
import { editLinks, requireRecord, savedNotice } from './editor.ts';
import { declaredFor, usersOf, formText } from './record-form.ts';
import type { FormField, RecordKind, ShownRecord } from './record-kind.ts';
import { countryName, customValue, mailLink, phoneLink, webLink } from '../base/values.ts';
import { fieldWord } from '../base/words.ts';
import { activityNotices, workplaceOf } from '../activities/timeline.ts';
import type { DeclaredField } from '../../schemas/base/declared-fields.ts';
import type { User } from '../../schemas/users.ts';

export function recordView<Row extends ShownRecord>(app: FastifyInstance, kind: RecordKind<Row>): void {
  const { path, noun } = kind;
  app.get(`${path.replace('/app', '')}/:id`, forMembers, async (request, reply) => {
    const found = await requireRecord(request, noun, kind.find);
    const [users, declared] = await Promise.all([usersOf(request), declaredFor(request, kind)]);
    const here = `${path}/${found.id}`;
    const [beside, values, related, happened] = await Promise.all([
      neighboursOf(request, kind, found.id),
      valuesOf(kind, found, users),
      kind.related(request, reply, found),
      workplaceOf(request, reply, {
        id: found.id,
        path: here,
        ...kind.workplace(found),
        telling: { wordOf: (name) => fieldWord(kind.object, name, declared), users },
      }),
    ]);
    return sendPage(request, reply, {
      title: kind.nameOf(found),
      lead: kind.head.flatMap((name) => (values.has(name) ? [values.get(name)!] : [])).join(' · '),
      actions: html`!${beside} !${editLinks(here)}`,
      body: html`!${savedNotice(request, noun, { listed: `The ${noun}'s lists are changed.`, ...activityNotices })}
      !${workplace(
        happened,
        `About this ${noun}`,
        html`!${groupsOf(kind, values, here)} !${ownFields(kind, found, declared)} !${related}
        !${panel(
          'About this record',
          facts([
            ...kind.facts(found),
            ['Created', moment(found.created_at)],
            ['Last changed', moment(found.updated_at)],
          ]),
        )}`,
      )}`,
    });
  });
}

/** Returns links to the records before and after this one in the list from which the user came. */
async function neighboursOf<Row extends ShownRecord>(
  request: FastifyRequest,
  kind: RecordKind<Row>,
  id: string,
): Promise<Html> {
  const { db, caller, headers } = request;
  const from = URL.canParse(headers.referer ?? '') ? new URL(headers.referer!) : undefined;
  const given = text(queryOf(request), 'in') || (from?.pathname === kind.path ? from.search.slice(1) || 'sort=' : '');
  if (given === '') return '';
  const view = viewOf(kind, readForm(given));
  const { rows } = await kind.list(db, caller.customerId, requestOf(kind, view, pageRows));
  const at = rows.findIndex((row) => row.id === id);
  if (at === -1) return '';
  const link = (row: Row | undefined, label: string, rel: string): Html =>
    row === undefined
      ? ''
      : html`<a href="${kind.path}/${row.id}?in=${encodeURIComponent(given)}" rel="${rel}" title="${kind.nameOf(row)}"
          >${label}</a
        >`;
  return html`<nav class="beside" aria-label="In the list">
    !${link(rows[at - 1], '‹ Previous', 'prev')} <span class="quiet">${count(view.from + at)}</span>
    !${link(rows[at + 1], 'Next ›', 'next')}
  </nav>`;
}

/** What is shown of each field that is not empty. */
type Values = ReadonlyMap<string, Html>;

async function valuesOf<Row extends ShownRecord>(
  kind: RecordKind<Row>,
  found: Row,
  users: readonly User[],
): Promise<Values> {
  const shown = kind.fields.map(async (one) => {
    const given = await formText(one, found);
    return given === '' ? [] : [[one.name, valueOf(kind, one, given, found, users)] as const];
  });
  return new Map((await Promise.all(shown)).flat());
}

export function valueOf<Row extends ShownRecord>(
  { links }: RecordKind<Row>,
  { name, control }: FormField,
  given: string,
  found: Row,
  users: readonly User[],
): Html {
  const link = links(found)[name];
  if (link !== undefined) return html`<a href="${link}">${given}</a>`;
  switch (control) {
    case 'country':
      return html`${countryName(given)}`;
    case 'user':
      return html`${users.find(({ id }) => id === given)?.name ?? given}`;
    case 'email':
      return mailLink(given);
    case 'url':
      return webLink(given);
    case 'lines':
    case 'phones':
      return given
        .split('\n')
        .map((line) => html`<span class="line">!${control === 'phones' ? phoneLink(line) : mailLink(line)}</span>`)
        .join('');
    default:
      return name === 'mobile_phone' ? phoneLink(given) : html`${given}`;
  }
}

/** Returns the fields in their groups. Those that are empty are folded away. */
const groupsOf = <Row extends ShownRecord>({ fields }: RecordKind<Row>, values: Values, path: string): Html => {
  const groups = Object.entries(Object.groupBy(fields, ({ group }) => group));
  const empty = fields.filter(({ name }) => !values.has(name));
  return html`!${groups.map(([group, members]) => {
    const filled = members!.flatMap(({ name, label }) =>
      values.has(name) ? [[label, values.get(name)!] as const] : [],
    );
    if (filled.length === 0) return '';
    return html`<section class="card">
      <div class="heading">
        <h2>${group}</h2>
        <a href="${path}/edit?group=${encodeURIComponent(group)}" data-dialog aria-label="Edit: ${group}">Edit</a>
      </div>
      !${facts(filled)}
    </section>`;
  })}
  !${
    empty.length === 0
      ? ''
      : html`<details class="folded">
          <summary>${counted(empty.length, 'empty field')}</summary>
          <p>
            !${empty
              .map(
                ({ label, group }) =>
                  html`<a href="${path}/edit?group=${encodeURIComponent(group)}" data-dialog>${label}</a>`,
              )
              .join(', ')}
          </p>
        </details>`
  }`;
};

const ownFields = (
  { object }: Pick<RecordKind, 'object'>,
  { custom_fields }: ShownRecord,
  declared: readonly DeclaredField[],
): Html => {
  const entries = Object.entries(custom_fields).map(
    ([key, value]) => [fieldWord(object, `custom_fields.${key}`, declared), customValue(value)] as const,
  );
  return entries.length === 0 ? '' : panel('Your own fields', facts(entries));
};
