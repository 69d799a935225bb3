import type { FastifyRequest } from 'fastify';
import { memberDeletes, withUndo, jobPath } from '../base/layout.ts';
import { doneNotice, controlsFor, undoButton } from '../base/forms.ts';
import { once, payerOf, fieldsOf, text, isAdmin, queryOf, queryText, requireValid, invalid } from '../base/requests.ts';
import { required } from '../base/requests.ts';
import type { Fields, Faults } from '../base/requests.ts';
import { notice, html, type Html, count, counted } from '../base/html.ts';
import { priceOf } from '../base/words.ts';
import type { Transaction } from '../../database/db.ts';
import { DomainError, forbidden } from '../../errors.ts';
import { estimateOf, startJob } from '../../jobs/start-job.ts';
import { planEmailVerification } from '../../jobs/verify-emails.ts';
import { spenderOf } from '../../access/credentials.ts';
import { createList } from '../../queries/crm/lists.ts';
import { addMembers } from '../../queries/crm/list-members.ts';
import type { Batch } from '../../queries/records/batches.ts';
import { withDeferredWrites } from '../../queries/records/deferred-writes.ts';
import type { ContactDetail } from '../../schemas/contacts.ts';
import { ListCreate } from '../../schemas/lists.ts';
import { canonicalId } from '../../text/ids.ts';
import { userChoices, usersOf } from './record-form.ts';
import { listChoices, type RecordKind, type ShownRecord } from './record-kind.ts';

export interface Act<Row extends ShownRecord = ShownRecord> {
  title: string;
  verb: string;
  tone: '' | 'danger';
  controls(request: FastifyRequest, rows: readonly Row[], faults: Faults): Promise<Html>;
  run(request: FastifyRequest, rows: readonly Row[]): Promise<string>;
}

/**
 * Returns the action with this name for chosen records.
 * @throws DomainError `not_found` if these records have no such action; `forbidden` if it spends credits and the user
 * is not an admin
 */
export function actNamed(request: FastifyRequest, kind: RecordKind, name: string): Act {
  if (name === 'delete') return deletion(kind);
  if (kind.object === 'contacts' && name === 'list') return listing;
  if (kind.object === 'contacts' && name === 'assign') return assignment(kind);
  if (kind.object !== 'contacts' || name !== 'verify') throw new DomainError('not_found', 'There is no such page');
  if (!isAdmin(request)) throw forbidden();
  return verifying;
}

/** Writes all of these items, or none. Returns undefined if the form was sent before. */
function writeAll(request: FastifyRequest, kind: RecordKind, operation: 'update' | 'delete', items: Batch['items']) {
  const { customerId } = request.caller;
  const batch = { operation, match: 'id', isAtomic: true, items } as const;
  const write = (sql: Transaction) =>
    withDeferredWrites(sql, customerId, (deferred) => kind.write(sql, customerId, batch, deferred));
  return once(request, write);
}

const assignment = (kind: RecordKind): Act => ({
  title: 'Assign',
  verb: 'Assign',
  tone: '',
  controls: async (request, _rows, faults) => {
    const sent: Fields = { assigned_to: request.caller.userId, ...fieldsOf(request) };
    const { choice } = controlsFor(sent, faults);
    return choice('assigned_to', 'Assigned to', userChoices(await usersOf(request), text(sent, 'assigned_to')));
  },
  run: async (request, rows) => {
    const chosen = text(fieldsOf(request), 'assigned_to');
    const assigned_to = chosen === '' ? null : required(canonicalId(chosen), 'user');
    const items = rows.map(({ id }) => ({ id, assigned_to }));
    const done = await writeAll(request, kind, 'update', items);
    if (done === undefined) return `${kind.path}?done=sent`;
    const told = `${kind.path}?done=assigned&n=${rows.length}`;
    return done.some(({ status }) => status === 'updated') ? withUndo(request, told) : told;
  },
});

const deletion = (kind: RecordKind): Act => ({
  title: 'Delete',
  verb: 'Delete',
  tone: 'danger',
  controls: async () =>
    kind.object === 'contacts'
      ? html`<p>They are deleted, and leave their lists and opportunities. This can be undone.</p>`
      : html`<p>They are deleted. Their contacts and opportunities stay, without a company. This can be undone.</p>`,
  run: async (request, rows) => {
    if (rows.length > memberDeletes && !isAdmin(request))
      throw invalid(`only an admin deletes more than ${memberDeletes} at once`);
    const items = rows.map(({ id }) => ({ id }));
    const done = await writeAll(request, kind, 'delete', items);
    return done === undefined ? deletedPage : withUndo(request, `${kind.path}?done=deleted&n=${rows.length}`);
  },
});

/** Path of the page of deleted records. A form that deletes records leads there if it was sent twice. */
export const deletedPage = '/app/deleted';

const listing: Act<ContactDetail> = {
  title: 'Add to a list:',
  verb: 'Add to the list',
  tone: '',
  controls: async (request, _rows, faults) => listControls(request, faults),
  run: async (request, rows) => {
    const contact_ids = rows.map(({ id }) => id);
    const list = await once(request, async (sql) => {
      const list_id = await chosenList(request, sql);
      await addMembers(sql, request.caller.customerId, { list_id, contact_ids });
      return list_id;
    });
    return list === undefined ? '/app/lists?done=sent' : `/app/lists/${list}?done=added`;
  },
};

/** Returns true if a form chooses a list or names a new one. */
export const namesList = (fields: Fields): boolean =>
  text(fields, 'list_id') !== '' || text(fields, 'name').trim() !== '';

/**
 * Returns the controls that choose a list or name a new one.
 * @param none label of the choice of no list. Empty: a list is required
 * @param stored id of the currently chosen list
 */
export async function listControls(request: FastifyRequest, faults: Faults, none = '', stored = ''): Promise<Html> {
  const fields = { ...queryOf(request), ...fieldsOf(request) };
  const chosen = 'list_id' in fields ? text(fields, 'list_id') : stored;
  const lists = await listChoices(request, chosen);
  const label = none === '' ? 'List' : 'Put them into a list';
  const choices = [
    ...(none === '' ? [] : [['', none] as const]),
    ...lists.map(({ id, name }) => [id, name] as const),
    ['new', 'a new list, with this name:'] as const,
  ];
  const hint = none === '' ? '' : 'To put them into a new list.';
  const { input, choice } = controlsFor({ list_id: chosen, name: text(fields, 'name') }, faults);
  return html`!${choice('list_id', label, choices)} !${input('name', 'Name of the new list', { hint })}`;
}

/**
 * Returns the id of the list that a form chooses, or undefined if the form names a new list.
 * @throws DomainError `validation_failed` if the id or the name of a new list is not valid
 */
export function chosenListId(fields: Fields): string | undefined {
  const id = canonicalId(text(fields, 'list_id'));
  if (id === undefined) requireValid(ListCreate, { name: text(fields, 'name') });
  return id;
}

/** Returns the id of the list that a form chooses. Creates the list if the form names a new one. */
export async function chosenList(request: FastifyRequest, sql: Transaction, source?: 'PROSPECT'): Promise<string> {
  const { customerId, userId } = request.caller;
  const fields = fieldsOf(request);
  const body = { name: text(fields, 'name') };
  return chosenListId(fields) ?? (await createList(sql, customerId, userId, body, source)).id;
}

const verifying: Act<ContactDetail> = {
  title: 'Verify',
  verb: 'Verify now',
  tone: '',
  controls: async ({ db, caller, server }, rows) => {
    const spender = spenderOf(caller);
    const price = await db.transaction(async (sql) => {
      const plan = await planEmailVerification(sql, spender, server.config, { emails: emailsOf(rows) });
      return estimateOf(sql, spender, plan);
    });
    return html`<p>
        Checks ${counted(price.matches, 'e-mail address', 'e-mail addresses')}, and stores the outcome with the
        contacts. Those that were checked within the last day are free.
      </p>
      !${priceOf(price)}`;
  },
  run: async (request, rows) => {
    const { server } = request;
    const body = { emails: emailsOf(rows), sync_crm: true };
    const payer = payerOf(request);
    const job = await once(request, async (sql) =>
      startJob(sql, payer, await planEmailVerification(sql, payer, server.config, body)),
    );
    return jobPath(job);
  },
};

const emailsOf = (rows: readonly ContactDetail[]) =>
  rows
    .filter(({ work_email }) => work_email !== '')
    .map(({ work_email, id }) => ({ email: work_email, contact_id: id }));

export function doneText(request: FastifyRequest, { noun, title }: Pick<RecordKind<never>, 'noun' | 'title'>): Html {
  const [done, number] = [queryText(request, 'done'), Number(queryText(request, 'n'))];
  if (done === 'none') return notice('Choose some rows first.', 'warning');
  if (done === 'few') return notice(`Choose two to five ${title.toLowerCase()}, then press Merge.`, 'plain');
  if (done !== 'deleted' && done !== 'assigned') return doneNotice(request);
  if (!Number.isInteger(number) || number < 1) return '';
  const what = `${count(number)} ${number === 1 ? `${noun} is` : `${title.toLowerCase()} are`}`;
  return notice(`${what} ${done}.`, 'good', undoButton(request));
}
