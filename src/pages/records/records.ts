import type { FastifyInstance, FastifyRequest, FastifyReply } from 'fastify';
import { createHash } from 'node:crypto';
import { forMembers, sendPage, goTo, sendForm } from '../base/layout.ts';
import { count, counted, facts, html, moment, panel, workplace, type Html, linkButton, notice } from '../base/html.ts';
import {
  queryOf,
  readForm,
  text,
  fieldsOf,
  idOf,
  hidden,
  notSent,
  refusalOf,
  sentEarlier,
  values,
} from '../base/forms.ts';
import type { Fields } from '../base/forms.ts';
import { requestOf, viewOf, viewOfRequest, addressOf, parametersOf } from './record-kind.ts';
import type { FormField, RecordKind, ShownRecord } from './record-kind.ts';
import { pageRows, recordList } from './record-list.ts';
import { editLinks, requireRecord, savedNotice } from './editor.ts';
import { declaredFor, usersOf, formText, recordEdit } from './record-form.ts';
import { countryName, customValue, mailLink, phoneLink, webLink, fieldWord } from '../base/words.ts';
import { activityNotices, workplaceOf } from './activities.ts';
import type { DeclaredField } from '../../schemas/wire.ts';
import type { User } from '../../schemas/accounts.ts';
import { sendExport } from '../../plugins/responses.ts';
import { addMembers, removeMembers } from '../../queries/crm/list-members.ts';
import { notFound } from '../../errors.ts';
import type { ExportFormat } from '../../schemas/files.ts';
import { canonicalId } from '../../text/ids.ts';
import { companyKind, contactKind } from './kinds.ts';
import { statuses } from '../../plugins/error-handler.ts';
import { maxBatchItems } from '../../schemas/batches.ts';
import { actNamed, deletedPage, type Act } from './chosen.ts';

function recordView<Row extends ShownRecord>(app: FastifyInstance, kind: RecordKind<Row>): void {
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

/** Returns links to the neighbours of this record in the list from which the user came. */
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
  if (at === -1 || rows.length === 1) return '';
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

export async function records(app: FastifyInstance): Promise<void> {
  addPages(app, contactKind);
  addPages(app, companyKind);

  // The lists of a contact: adds it to one by hand, or takes it out.
  app.post('/contacts/:id/lists', forMembers, async (request, reply) => {
    const { db, caller } = request;
    const fields = fieldsOf(request);
    const [id, list_id] = [idOf(request, 'contact'), canonicalId(text(fields, 'list_id'))];
    if (list_id === undefined) throw notFound('list');
    const change = text(fields, 'do') === 'remove' ? removeMembers : addMembers;
    await db.transaction<unknown>((sql) => change(sql, caller.customerId, { list_id, contact_ids: [id] }));
    return goTo(reply, `/app/contacts/${id}?done=listed`);
  });
}

function addPages<Row extends ShownRecord>(app: FastifyInstance, kind: RecordKind<Row>): void {
  recordList(app, kind);
  recordEdit(app, kind);
  recordView(app, kind);
  chosen(app, kind);
  exporting(app, kind);
}

function exporting<Row extends ShownRecord>(app: FastifyInstance, kind: RecordKind<Row>): void {
  const config = { ...forMembers.config, isLong: true, concurrent: 'exports' } as const;
  app.get(`${kind.path.replace('/app', '')}/export`, { ...forMembers, config }, async (request, reply) => {
    const format: ExportFormat = text(queryOf(request), 'format') === 'csv' ? 'csv' : 'xlsx';
    const { filters, order_by } = requestOf(kind, viewOfRequest(kind, request), 1);
    const asked = { ...(filters ? { filters } : {}), ...(order_by ? { order_by } : {}) };
    const found = kind.exported(request.db, request.caller.customerId, asked);
    return sendExport(request, reply.header('cache-control', 'no-store'), found, { format, fields: 'readable' });
  });
}

const namesShown = 12;

interface Chosen<Row> {
  rows: Row[];
  /** True if more records match than can be changed at once. */
  isTooMany: boolean;
  /** Hash of the ids of the records. Shows whether they are still those that the user saw. */
  digest: string;
}

/**
 * Acts on chosen records of a list. The confirmation page shows their number. The form then acts on exactly these
 * records. If others match now, it shows the new number and asks again.
 */
export function chosen<Row extends ShownRecord>(app: FastifyInstance, kind: RecordKind<Row>): void {
  const { path } = kind;
  const route = `${path.replace('/app', '')}/chosen`;

  app.get(route, forMembers, async (request, reply) => {
    const fields = queryOf(request);
    const act = actNamed(request, kind, text(fields, 'do'));
    const found = await findChosen(request, fields);
    if (found.rows.length === 0) return goTo(reply, addressOf(path, viewOf(kind, fields), { done: 'none' }));
    return ask(request, reply, act, fields, found);
  });

  app.post(route, forMembers, async (request, reply) => {
    const fields = fieldsOf(request);
    const act = actNamed(request, kind, text(fields, 'do'));
    const found = await findChosen(request, fields);
    if (found.rows.length === 0)
      return goTo(reply, (await sentEarlier(request)) === 'same' ? deletedPage : `${path}?done=none`);
    if (found.isTooMany || found.digest !== text(fields, 'digest')) {
      const faults = { '': changedText(found.rows.length, kind) };
      return ask(request, reply, act, fields, found, { faults, status: statuses.conflict });
    }
    try {
      return await goTo(reply, await act.run(request, found.rows));
    } catch (error) {
      return ask(request, reply, act, fields, await findChosen(request, fields), refusalOf(error));
    }
  });

  async function findChosen(request: FastifyRequest, fields: Fields): Promise<Chosen<Row>> {
    const { db, caller } = request;
    if (text(fields, 'all') !== '') {
      const query = requestOf(kind, { ...viewOf(kind, fields), cursor: '' }, maxBatchItems + 1);
      const { rows } = await kind.list(db, caller.customerId, query);
      return chosenOf(rows.slice(0, maxBatchItems), rows.length > maxBatchItems);
    }
    const ids = idsIn(fields);
    const rows = ids.length === 0 ? [] : await db.search((sql) => kind.find(sql, caller.customerId, ids));
    const byId = new Map(rows.map((row) => [row.id, row]));
    return chosenOf(
      ids.flatMap((id) => byId.get(id) ?? []),
      false,
    );
  }

  async function ask(
    request: FastifyRequest,
    reply: FastifyReply,
    act: Act<Row>,
    fields: Fields,
    { rows, isTooMany, digest }: Chosen<Row>,
    refused = notSent,
  ): Promise<FastifyReply> {
    const names = [kind.noun, kind.title.toLowerCase()] as const;
    return sendForm(
      request,
      reply,
      {
        title: isTooMany ? `Too many ${names[1]}` : `${act.title} ${counted(rows.length, ...names)}`,
        action: `${path}/chosen`,
        body: html`!${hidden(keptOf(kind, fields, digest))}
          !${
            isTooMany
              ? tooMany(kind)
              : html`!${await act.controls(request, rows, refused.faults)}
                  <p class="quiet">!${someNames(rows.map((row) => kind.nameOf(row)))}</p>`
          }
          <div class="buttons">
            !${isTooMany ? '' : html`<button class="${act.tone}">${act.verb}</button>`}
            !${linkButton('Back', addressOf(path, viewOf(kind, fields)), 'secondary outline')}
          </div>`,
        attributes: 'data-once',
        isNarrow: true,
      },
      refused,
    );
  }
}

const chosenOf = <Row extends ShownRecord>(rows: Row[], isTooMany: boolean): Chosen<Row> => ({
  rows,
  isTooMany,
  digest: createHash('sha256')
    .update(
      rows
        .map(({ id }) => id)
        .toSorted()
        .join(),
    )
    .digest('base64url'),
});

/**
 * Returns the ids in a form.
 * @throws DomainError `validation_failed` if there are too many
 */
const idsIn = (fields: Fields): string[] => [
  ...new Set(values(fields, 'id', maxBatchItems).flatMap((id) => canonicalId(id) ?? [])),
];

const changedText = (number: number, { noun, title }: Pick<RecordKind, 'noun' | 'title'>): string =>
  `Something has changed meanwhile, and nothing is done yet. Now it is ${counted(number, noun, title.toLowerCase())}.`;

const tooMany = ({ title }: Pick<RecordKind, 'title'>): Html =>
  notice(
    `At most ${count(maxBatchItems)} ${title.toLowerCase()} can be changed at once, and more match. Filter them further.`,
    'warning',
  );

const keptOf = (
  kind: Pick<RecordKind<never>, 'controls' | 'columns' | 'schemas'>,
  fields: Fields,
  digest: string,
): Record<string, string | string[]> => ({
  ...Object.fromEntries(parametersOf(viewOf(kind, fields))),
  ...(text(fields, 'all') === '' ? { id: idsIn(fields) } : { all: text(fields, 'all') }),
  do: text(fields, 'do'),
  digest,
});

const someNames = (names: readonly string[]): Html =>
  html`${names.slice(0, namesShown).join(', ')}${names.length > namesShown ? ` and ${count(names.length - namesShown)} more` : ''}`;
