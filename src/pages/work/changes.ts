import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { notFound } from '../../errors.ts';
import { cursorFault } from '../../filters/cursor.ts';
import { countUndo, startUndo, undoerOf } from '../../jobs/undo/start-undo.ts';
import { findChange, listChanges } from '../../queries/history/history.ts';
import { isUndoable } from '../../queries/history/undo-jobs.ts';
import { listUsers } from '../../queries/accounts/users.ts';
import type { Change, ChangeSummary } from '../../schemas/events/changes.ts';
import { eventNouns, type EventActor, type EventNoun } from '../../schemas/events/types.ts';
import type { User } from '../../schemas/users.ts';
import { forMembers } from '../base/access.ts';
import { idOf, once, queryOf, text } from '../base/forms.ts';
import { counted, cursorPager, empty, facts, html, linkButton, moment, table, type Html } from '../base/html.ts';
import { goTo, sendConfirmation, sendPage } from '../base/layout.ts';
import { fieldWord, plain } from '../base/words.ts';

const section = '/app/deleted';

const plurals: Readonly<Record<EventNoun, string>> = {
  contact: 'contacts',
  company: 'companies',
  list: 'lists',
  product: 'products',
  opportunity: 'opportunities',
};

/** The pages of what was deleted, and of what one call, form, job or import has changed. */
export async function changes(app: FastifyInstance): Promise<void> {
  app.get('/deleted', forMembers, async (request, reply) => {
    const { db, caller } = request;
    const cursor = text(queryOf(request), 'cursor');
    const signer = await app.feedCursors();
    const place = cursor === '' ? undefined : signer.decode(caller.customerId, cursor);
    if (cursor !== '' && !place) throw cursorFault('is not a cursor of this list');
    const page = await listChanges(db, caller.customerId, eventNouns, {
      verb: 'deleted',
      before: place?.position,
      limit: 50,
    });
    const next =
      page.next === undefined ? undefined : signer.encode(caller.customerId, { position: page.next, id: null });
    const users = await db.lookup((sql) => listUsers(sql, caller.customerId));
    return sendPage(request, reply, {
      title: 'Deleted',
      section,
      body: html`<p>What was deleted in the last 90 days. What was deleted together is restored together.</p>
        !${
          page.changes.length > 0
            ? table(
                'Deleted records',
                ['Record', 'Deleted', 'By', 'Take back'],
                page.changes.map((one) => deletedRow(one, users)),
              )
            : empty('Nothing deleted', 'Records that somebody deletes stand here, and can be restored.')
        }
        !${cursorPager(section, cursor, next)}`,
    });
  });

  app.get('/changes/:id', forMembers, async (request, reply) => {
    const change = await requireChange(request);
    const users = await request.db.lookup((sql) => listUsers(sql, request.caller.customerId));
    return sendPage(request, reply, {
      title: 'What one change has done',
      section,
      actions: undoButton(change),
      body: html`<div class="card">
        !${facts([
          ['When', moment(change.occurred_at)],
          ['By', whoOf(change.actor, users)],
          ['What', html`${countsText(change)}`],
          ...(change.undo_of === undefined
            ? []
            : [['It took back', html`<a href="/app/changes/${change.undo_of}">another change</a>`] as const]),
          ...change.undone_by.map((id) => ['Taken back by', html`<a href="/app/jobs/${id}">a job</a>`] as const),
        ])}
      </div>`,
    });
  });

  app.get('/changes/:id/undo', forMembers, async (request, reply) => {
    const { db, caller } = request;
    const change = await requireChange(request);
    const { records, restored, kept } = await db.search((sql) => countUndo(sql, undoerOf(caller), change.id));
    const rest = kept === 0 ? '' : ` Of ${counted(kept, 'record')}, something was changed since, and that stays.`;
    return sendConfirmation(request, reply, {
      title: 'Undo',
      section,
      text: html`This has ${countsText(change)}. Of ${counted(records, 'record')},
      ${restored === records ? 'all are' : counted(restored, 'record')} taken back.${rest} The undo can itself be
      undone.`,
      action: `/app/changes/${change.id}/undo`,
      back: `/app/changes/${change.id}`,
      refusal: 'Leave it',
      tone: '',
    });
  });

  app.post('/changes/:id/undo', forMembers, async (request, reply) => undoChange(request, reply));
}

async function undoChange(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
  const id = idOf(request, 'change');
  const job = await once(request, (sql) => startUndo(sql, undoerOf(request.caller), id));
  return goTo(reply, job ? `/app/jobs/${job.id}` : '/app/jobs?done=sent');
}

async function requireChange(request: FastifyRequest): Promise<ChangeSummary> {
  const change = await findChange(request.db, request.caller.customerId, eventNouns, idOf(request, 'change'));
  if (!change) throw notFound('change');
  return change;
}

const undoButton = ({ id, undoable }: Pick<ChangeSummary, 'id' | 'undoable'>, label = 'Undo'): Html =>
  undoable ? linkButton(label, `/app/changes/${id}/undo`, 'secondary outline', 'data-dialog') : '';

/** Returns the button that takes back what a job or import has written; an empty string if there is nothing. */
export async function undoOf(request: FastifyRequest, id: string, label: string): Promise<Html> {
  const undoable = await request.db.lookup((sql) => isUndoable(sql, request.caller.customerId, id));
  return undoButton({ id, undoable }, label);
}

/** Such as “created 3 contacts and 1 company, updated 2 lists”. */
function countsText({ counts }: ChangeSummary): string {
  const verbs = (['created', 'updated', 'deleted'] as const).flatMap((verb) => {
    const parts = eventNouns.flatMap((noun) => {
      const number = counts[noun]?.[verb] ?? 0;
      return number === 0 ? [] : [counted(number, noun, plurals[noun])];
    });
    return parts.length === 0 ? [] : [`${verb} ${parts.join(' and ')}`];
  });
  return verbs.join(', ');
}

const deletedRow = (change: Change, users: readonly User[]): Html =>
  html`<tr>
    <td>
      ${nameOf(change)}
      <span class="quiet">${change.merged_into === undefined ? change.object : `${change.object}, merged`}</span>
    </td>
    <td>!${moment(change.occurred_at)}</td>
    <td>!${whoOf(change.actor, users)}</td>
    <td>
      !${change.change_id === null ? '' : html`<a href="/app/changes/${change.change_id}/undo" data-dialog>Restore</a>`}
    </td>
  </tr>`;

function nameOf({ fields, object, record_id }: Change): string {
  const old = (name: string): string => asText(fields[name]?.[0]);
  const person = `${old('first_name')} ${old('last_name')}`.trim();
  return person || old('name') || old('company_name') || old('work_email') || `${object} ${record_id}`;
}

function whoOf(actor: EventActor | null, users: readonly User[]): Html {
  switch (actor?.type) {
    case 'user':
      return html`${users.find(({ id }) => id === actor.id)?.name ?? actor.name ?? 'a user'}`;
    case 'key':
      return html`an API key`;
    case 'operator':
      return html`the operator`;
    default:
      return html`the service`;
  }
}

/** The latest changes of a record in words, with links that take them back. */
export async function historyOf(
  request: FastifyRequest,
  object: 'contacts' | 'companies',
  id: string,
  users: readonly User[],
): Promise<Html> {
  const { db, caller } = request;
  const page = await listChanges(db, caller.customerId, eventNouns, { filters: { record_id: id }, limit: 20 });
  if (page.changes.length === 0) return '';
  return table(
    'History',
    ['When', 'Who', 'What', 'Take back'],
    page.changes.map(
      (change) =>
        html`<tr>
          <td>!${moment(change.occurred_at)}</td>
          <td>!${whoOf(change.actor, users)}</td>
          <td class="long">
            !${change.type === 'updated' ? fieldsText(object, change, users) : html`${plain(change.type)}`}
          </td>
          <td>
            !${change.change_id === null ? '' : html`<a href="/app/changes/${change.change_id}/undo" data-dialog>Undo</a>`}
          </td>
        </tr>`,
    ),
  );
}

const fieldsText = (object: 'contacts' | 'companies', { fields }: Change, users: readonly User[]): Html =>
  html`!${Object.entries(fields).map(
    ([name, [before, after]]) =>
      html`<span class="line"
        >${fieldWord(object, name)}: !${valueText(name, before, users)} → !${valueText(name, after, users)}</span
      >`,
  )}`;

function valueText(name: string, value: unknown, users: readonly User[]): Html {
  if (value === null || value === '' || (Array.isArray(value) && value.length === 0))
    return html`<span class="quiet">–</span>`;
  if (name === 'company') return html`<a href="/app/companies/${asText(value)}">a company</a>`;
  if (name === 'assigned_to') return html`${users.find(({ id }) => id === value)?.name ?? 'a user'}`;
  return html`${Array.isArray(value) ? value.map(asText).join(', ') : asText(value)}`;
}

/** Returns a value of a field as text. A phone number is an object of texts. */
function asText(value: unknown): string {
  if (value === null || value === undefined) return '';
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  if (typeof value === 'object') return Object.values(value).map(asText).join(' ');
  return typeof value === 'string' || typeof value === 'number' ? String(value) : '';
}
