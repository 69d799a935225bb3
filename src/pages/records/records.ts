import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { sendExport } from '../../plugins/answers/send-export.ts';
import { addMembers, removeMembers } from '../../queries/memberships/list-members.ts';
import { notFound } from '../../errors.ts';
import type { ExportFormat } from '../../schemas/files.ts';
import { canonicalId } from '../../text/ids.ts';
import { forMembers, goTo, sendForm } from '../base/layout.ts';
import { fieldsOf, idOf, queryOf, text, hidden, notSent, refusalOf, values, type Fields } from '../base/forms.ts';
import { companyKind, contactKind } from './kinds.ts';
import { requestOf, viewOfRequest, addressOf, parametersOf, viewOf } from './record-address.ts';
import { recordEdit } from './record-form.ts';
import type { RecordKind, ShownRecord } from './record-kind.ts';
import { recordList } from './record-list.ts';
import { recordView } from './record-view.ts';
import { createHash } from 'node:crypto';
import { statuses } from '../../plugins/answers/error-handler.ts';
import { maxBatchItems } from '../../schemas/batches.ts';
import { count, counted, html, linkButton, notice, type Html } from '../base/html.ts';
import { actNamed, type Act } from './chosen-acts.ts';

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

/** Sends what matches a view as a file. */
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

/** The records that a form names, by their ids or as all that match a view's filters. */
interface Chosen<Row> {
  rows: Row[];
  /** True if more match than can be changed at once. */
  isTooMany: boolean;
  /** Hash of their ids: says whether they are still those that the user saw. */
  digest: string;
}

/**
 * Acts on chosen records of a list. The page with the question shows their number. The form then acts on exactly these:
 * if others match now, it shows the new number and asks again.
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
    if (found.rows.length === 0) return goTo(reply, `${path}?done=none`);
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

/** @throws DomainError `validation_failed` if there are too many */
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

/** Returns what the form is about: the act, and the chosen records. */
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
