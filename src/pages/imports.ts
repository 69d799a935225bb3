import type { FastifyInstance, FastifyRequest } from 'fastify';
import { columnNames } from '../files/header.ts';
import type { CsvLayout } from '../files/layout.ts';
import { ImportPatch, type Import, type ImportFailure, type ImportPreview } from '../schemas/imports.ts';
import { forMembers, addPage, addAction, question, listPage, type Answer } from './base/layout.ts';
import { cursorPager, form, numberedPager, formFaults } from './base/forms.ts';
import { lookUp, search, write, fieldsOf, text, idOf, sentText, pageNumberOf, type Fields } from './base/requests.ts';
import {
  isAdmin,
  ask,
  placeIn,
  notSent,
  requireValid,
  refusalOf,
  sentence,
  invalid,
  textsIn,
} from './base/requests.ts';
import { when, notice, table, pathWith, linkButton, html, quiet, link, twoLines, card, moment } from './base/html.ts';
import { count, counted, someNames, dialogLink, type Html, type Column } from './base/html.ts';
import { fieldWord, statusBadge, progressBar } from './base/words.ts';
import { inWords, shortened, columnsAtOnce, columnsToDecide, mappingForm } from './mapping.ts';
import { modeOf, modesFor, modeWord, namesContacts, changesOf, obstaclesTo, sourceChangesOf } from './mapping.ts';
import type { Transaction } from '../database/db.ts';
import { fieldsText, namedRecords, nounOf, recordLink, undoOf, whoOf } from './changes.ts';
import { stagesById } from './records/deals.ts';
import { usersOf } from './records/editor.ts';
import { openErrorsFile, readFailures } from '../jobs/errors-file.ts';
import { previewImport, type DetailedPreview } from '../jobs/preview-import.ts';
import { cancelImport, changeImport, createLacking, reopenChecked, startUploaded } from '../jobs/start-import.ts';
import { sendFile } from '../plugins/responses.ts';
import { allImports, listImportedFiles } from '../queries/jobs/imports.ts';
import { requireImport, requireImportState, type ImportState, type ListedImport } from '../queries/jobs/imports.ts';
import { countLacking, findRepeated, lackingPattern } from '../queries/jobs/import-rows.ts';
import { listDeclared } from '../queries/records/custom-fields.ts';
import { findListNames } from '../queries/crm/lists.ts';
import { defaultLimit } from '../schemas/wire.ts';
import { customKey } from '../schemas/filters.ts';
import { decideByFile, importUpload, section, titleOf } from './import-upload.ts';
import { chosenList, chosenListId, listControls, namesList } from './records/records.ts';

type Telling = (message: string) => string;

function failureTable(found: Import, state: ImportState, failures: readonly ImportFailure[], wordsOf: Telling): Html {
  const layout = state.layout as CsvLayout | null;
  const [would, what] = found.dry_run ? ['would be ', 'What would happen'] : ['', 'What happened'];
  const headers = layout ? columnNames(layout.headers).filter((_, i) => layout.columns[i]) : ['Record'];
  const since = state.second?.created ? html`, then !${link('created as new', pathOf(state.second))}` : '';
  const isCreatable = new RegExp(lackingPattern(found.match ?? ''));
  const happened = ({ error = '', warning = error }: ImportFailure): Html =>
    twoLines(
      html`${would}${error ? 'left out' : 'written, with a value left out'}!${when(isCreatable.test(error), since)}`,
      html`${wordsOf(warning).replaceAll(': is missing', ' is missing')}`,
    );
  const valueOf =
    (header: string) =>
    ({ record }: ImportFailure) =>
      html`${shortened((typeof record === 'string' ? record : record[header]) ?? '', 200)}`;
  const columns: readonly Column<ImportFailure>[] = [
    ['Line', ({ line }) => String(line), 'number'],
    [what, happened, 'long'],
    ...headers.slice(0, 30).map((header): Column<ImportFailure> => [header, valueOf(header)]),
  ];
  return html`<div class="rows">!${table('Records to look at', columns, failures)}</div>`;
}

function repeatedText({ object, match }: Import, repeated: number, groups: readonly (readonly number[])[]): string {
  if (repeated === 0 || match === null) return '';
  const lines = groups.map((some) => some.join('/'));
  return `The same ${matchWord({ object, match })} stands in several records, of which the last counts: lines ${someNames(lines, 10, repeated)}.`;
}

type Changes = ImportPreview['changes'];

async function foundChanges(request: FastifyRequest, { object }: Import, changes: Changes): Promise<Html> {
  if (changes.length === 0) return '';
  const wanted = changes.map(({ id }) => [nounOf(object)!, id] as const);
  const [users, records] = await Promise.all([usersOf(request), namedRecords(request, wanted)]);
  const declared = await lookUp(request, listDeclared, object);
  const stages = new Map([...(await stagesById(request))].map(([id, { name }]) => [id, name]));
  const telling = { wordOf: (field: string) => fieldWord(object, field, declared), users, stages };
  const columns: readonly Column<Changes[number]>[] = [
    ['Line', ({ line }) => String(line), 'number'],
    ['Record', ({ id }) => recordLink(records.get(id), 'deleted meanwhile')],
    ['What', (one) => fieldsText(one, telling), 'long'],
  ];
  return html`<h2>What would change</h2>
    !${table('What would change', columns, changes)}`;
}

export async function imports(app: FastifyInstance): Promise<void> {
  await app.register(importUpload);

  addPage(app, '/imports', forMembers, async (request) => {
    const rows = await search(request, listImportedFiles, { page: pageNumberOf(request) });
    const users = await usersOf(request);
    const columns: Column<ListedImport>[] = [
      ['Import', (one) => twoLines(link(titleOf(one), pathOf(one)), modeWord(one.object, modeOf(one)))],
      ['Status', ({ status, dry_run: isCheck }) => statusBadge(status, isCheck)],
      ['What it did', (one) => twoLines(countsText(one), secondText(one)), 'long'],
      ['Begun', (one) => twoLines(moment(one.created_at), html`by !${whoOf(one.actor, users)}!${originOf(one)}`)],
    ];
    const add = linkButton('New import', `${section}/new`);
    const none =
      'An import writes contacts, companies, products or opportunities from an Excel, CSV or NDJSON file. You see what it would do before it starts.';
    const below = numberedPager(request, rows.length === defaultLimit);
    return listPage({ title: 'Imports', columns, rows, none: ['No imports yet', none, 'file'], add, below });
  });

  addPage(app, '/imports/:id', forMembers, (request) => showImport(request));

  addAction(app, '/imports/:id', long, async (request) => {
    const id = idOf(request, 'import');
    const fields = fieldsOf(request);
    // A button can choose a mode, too.
    const [action = '', ...mode] = text(fields, 'do').split(' ');
    if (mode.length > 0) fields['mode'] = mode.join(' ');
    try {
      if (action === 'again') return await reopen(request, id);
      if (action === 'anew') return await createLeftOut(request, id);
      if (!['import', 'start', 'check', 'save'].includes(action)) throw invalid('press one of the buttons');
      await (action === 'import' ? importChecked(request, id) : change(request, id, action));
    } catch (error) {
      return showImport(request, refusalOf(error));
    }
    return `${section}/${id}${action === 'import' ? '' : nextView(fields)}`;
  });

  async function change(request: FastifyRequest, id: string, action: string): Promise<void> {
    const fields = fieldsOf(request);
    const { found, state, preview } = await readWaiting(request, id);
    const source = sourceChangesOf(found, state, fields);
    // The columns of another sheet are others: they are shown first.
    const isOther = Object.keys(source).length > 0;
    const starts = ['start', 'check'].includes(action) && !isOther;
    const patch = isOther ? source : changesOf(preview, fields);
    requireValid(ImportPatch, patch);
    const isByFile = ['', modeOf(found)].includes(text(fields, 'mode'));
    const changes = {
      ...patch,
      ...(await listsOf(request, state)),
      ...(!isByFile && chosenMode(found, fields)),
      dry_run: action === 'check',
    };
    await write(request, changeImport, refTo(id), changes);
    // Otherwise people whose addresses are recognized only now would be created again.
    if (isByFile && byFileModes.has(modeOf(found))) {
      fields['mode'] = ''; // a form that is shown again shows what was decided
      await decideByFile(request, id, namesContacts(preview.mapping ?? {}));
    }
    if (starts) await startImport(request, id, changes);
  }

  question(app, '/imports/:id/cancel', forMembers, {
    about: findImport,
    title: 'Cancel the import',
    text: (found) => html`${titleOf(found)}: what is written stays. The file is removed.`,
    back: pathOf,
    act: async (request) => {
      const ref = refTo(idOf(request, 'import'));
      await write(request, cancelImport, ref);
      return pathOf(ref);
    },
  });

  app.get('/imports/:id/errors.csv', long, async (request, reply) => {
    const file = await openErrorsFile(request.db, request.requester, refTo(idOf(request, 'import')));
    void reply.header('cache-control', 'no-store');
    return sendFile(request, reply, { ...file, name: 'errors.csv', noun: 'errors file' });
  });
}

const long = { ...forMembers, config: { ...forMembers.config, isLong: true } } as const;

const byFileModes = new Set(['create', 'upsert work_email']);

function chosenMode({ object }: Import, fields: Fields) {
  const chosen = text(fields, 'mode');
  if (modesFor(object).every(([value]) => value !== chosen)) throw invalid('choose what to do with the records');
  const [mode, match = null] = chosen.split(' ') as [Import['mode'], Import['match']?];
  return { mode, match };
}

const refTo = (id: string) => ({ id, visible: allImports });

const pathOf = ({ id }: Pick<Import, 'id'>): string => `${section}/${id}`;

/**
 * Returns true if the form can show the lists of an import. The form shows at most one list, and leaves several lists
 * unchanged.
 */
const showsLists = ({ object, list_ids }: Pick<ImportState, 'object' | 'list_ids'>): boolean =>
  object === 'contacts' && list_ids.length <= 1;

/**
 * Returns the list that a submitted form chooses, if the form offers lists. Creates a new list only if `sql` is given.
 */
async function listsOf(request: FastifyRequest, state: ImportState, sql?: Transaction): Promise<ImportPatch> {
  const fields = fieldsOf(request);
  if (!showsLists(state) || !('list_id' in fields)) return {};
  if (!namesList(fields)) return { list_ids: [] };
  const id = sql ? await chosenList(request, sql) : chosenListId(fields);
  return { list_ids: id === undefined ? [] : [id] };
}

/**
 * Returns the query string with which the form is shown again. It contains the page of the table of columns, and the
 * name of the list that the import will create.
 */
function nextView(fields: Fields): string {
  const { name, page } = textsIn(fields, 'name', 'page');
  return pathWith('', { list_id: name && 'new', name, page: page === '1' ? '' : page });
}

const findImport = (request: FastifyRequest): Promise<Import> =>
  lookUp(request, requireImport, idOf(request, 'import'), allImports);

async function readWaiting(request: FastifyRequest, id: string, isTried = false) {
  const preview: DetailedPreview = await previewImport(request.db, request.requester, { ...refTo(id), isTried });
  return { found: await findImport(request), state: await stateOf(request, id), preview };
}

/**
 * Changes an import's settings and starts it.
 * @throws DomainError `validation_failed` if the import would certainly fail
 */
async function startImport(request: FastifyRequest, id: string, changes: ImportPatch): Promise<void> {
  const { customerId } = request.caller;
  const { found, state, preview } = await readWaiting(request, id);
  if (obstaclesTo(found, preview).length > 0) throw invalid('the import is not started: see below why it would fail');
  await request.db.transaction(async (sql) => {
    const lists = changes.dry_run ? {} : await listsOf(request, state, sql);
    // Again, because somebody else can have changed the settings, `dry_run` too.
    await changeImport(sql, customerId, refTo(id), { ...changes, ...lists });
    await startUploaded(sql, customerId, refTo(id));
  });
}

async function importChecked(request: FastifyRequest, id: string): Promise<void> {
  const state = await stateOf(request, id);
  await request.db.transaction(async (sql) => {
    const lists = await listsOf(request, state, sql);
    const seen = { ...refTo(id), isSeen: true };
    await startUploaded(sql, request.caller.customerId, seen, { dry_run: false, ...lists });
  });
}

/** Lets the settings of a checked import change. Returns the path of its form. */
async function reopen(request: FastifyRequest, id: string): Promise<string> {
  const lists = await listsOf(request, await stateOf(request, id));
  await request.db.transaction(async (sql) => {
    await reopenChecked(sql, request.caller.customerId, refTo(id));
    await changeImport(sql, request.caller.customerId, refTo(id), lists);
  });
  return `${section}/${id}${nextView(fieldsOf(request))}`;
}

/** Starts an import that creates the records which this one has left out for want of a match value. Returns its path. */
async function createLeftOut(request: FastifyRequest, id: string): Promise<string> {
  const [found, state] = [await findImport(request), await stateOf(request, id)];
  const stored = await ask(request, findListNames, state.list_ids);
  const name = `${titleOf(found).slice(0, 200)}, those without ${matchWord(found)}`;
  const second = await request.db.transaction((sql) =>
    createLacking(sql, request.caller.customerId, { ...refTo(id), name }, async () => {
      const { list_ids = stored.map((list) => list.id) } = await listsOf(request, state, sql);
      return list_ids;
    }),
  );
  return pathOf({ id: second });
}

async function showImport(request: FastifyRequest, { faults, status } = notSent): Promise<Answer> {
  const [found, state] = [await findImport(request), await stateOf(request, idOf(request, 'import'))];
  const isFinal = found.finished_at !== null;
  const waits = found.status === 'UPLOADED';
  const isRunning = !isFinal && !waits;
  const below = waits ? await settings(request, found) : await failuresOf(request, found, state);
  const [list] = await ask(request, findListNames, state.list_ids);
  const several = found.repeated && state.is_kept ? await search(request, findRepeated, found.id) : undefined;
  const untyped = await untypedLinks(request, found, state);
  const repeated = repeatedText(found, several ? found.repeated! : 0, several?.groups ?? []);
  const cancel = linkButton('Cancel the import', `${pathOf(found)}/cancel`, 'danger outline', 'data-dialog');
  return {
    title: titleOf(found),
    status,
    lead: html`!${statusBadge(found.status, found.dry_run)} ${modeWord(found.object, modeOf(found))} ·
    !${moment(found.created_at)}!${originOf(state)}`,
    isLive: isRunning,
    actions: isFinal ? await undoOf(request, found.id, 'Undo this import') : cancel,
    body: html`!${formFaults(faults)}
      <div !${isRunning ? 'data-live' : ''}>
        !${waits ? '' : outcomeOf(found, state, { list: list?.id, repeated, surplus: several?.surplus, untyped })}
        !${isFinal ? await importButton(request, found, state, several?.surplus) : ''}
        !${when(isRunning, card(progressBar(found, 'records')))}
      </div>
      !${below} !${await foundChanges(request, found, found.changes ?? [])}`,
  };
}

async function settings(request: FastifyRequest, { id }: Import): Promise<Html> {
  const { found, state, preview } = await readWaiting(request, id, true);
  const lists = await listsFor(request, state);
  const page = Number(sentText(request, 'page') || pageNumberOf(request));
  const pager = numberedPager(request, columnsToDecide(preview).length > page * columnsAtOnce);
  const repeated = repeatedText(found, preview.repeated, preview.repeatedLines);
  const body = mappingForm(found, preview, { state, lists, page, pager, repeated, sent: fieldsOf(request) });
  return html`!${form(`${section}/${id}`, body, 'data-keep')} !${await foundChanges(request, found, preview.changes)}`;
}

async function listsFor(request: FastifyRequest, state: ImportState): Promise<Html> {
  const [list] = await ask(request, findListNames, state.list_ids);
  return showsLists(state) ? listControls(request, {}, 'no list', list?.id) : '';
}

/**
 * Returns the buttons that import a checked file, or lead back to its columns. Returns an empty string if the import is
 * not a finished check.
 */
async function importButton(request: FastifyRequest, found: Import, state: ImportState, surplus = 0): Promise<Html> {
  const { id, object, dry_run: isCheck, status } = found;
  if (!isCheck || status !== 'COMPLETED') return '';
  if (!state.is_kept) return html`<p>The file is no longer kept: !${link('upload it again', `${section}/new`)}.</p>`;
  const written = found.created - surplus + found.updated;
  const label = `Import ${counted(written, nounOf(object)!, object)} now`;
  const body = html`!${written > 0 ? await listsFor(request, state) : quiet('Nothing of the file would be written.')}
    <div class="buttons">
      !${when(written > 0, html`<button name="do" value="import">${label}</button>`)}
      !${when(!state.second, '<button name="do" value="again" class="secondary outline">Change the columns</button>')}
    </div>`;
  return html`<div class="card narrow">!${form(`${section}/${id}`, body, 'data-once')}</div>`;
}

const stateOf = (request: FastifyRequest, id: string): Promise<ImportState> =>
  lookUp(request, requireImportState, id, allImports);

async function failuresOf(request: FastifyRequest, found: Import, state: ImportState): Promise<Html> {
  const { id, total, failed, warnings } = found;
  if (total === null) return '';
  if (state.is_expired) return when(failed + warnings > 0, quiet('The records were kept for 30 days.'));
  const { cursor } = placeIn(request);
  const { failures, nextCursor } = await readFailures(request.db, request.requester, refTo(id), { limit: 25, cursor });
  const hasColumns = !cursor && failures[0]?.line === 1 && failures[0].error === undefined;
  const ofColumns = hasColumns ? failures.shift()!.warning! : '';
  const declared = await lookUp(request, listDeclared, found.object);
  const wordsOf = (message: string): string => inWords(found.object, message, declared);
  const path = `${pathOf(found)}/errors.csv`;
  const download = linkButton('Download these records to correct them', path, 'secondary outline', 'download');
  const records = html`<div class="row apart">
      <h2>Records to look at</h2>
      !${when(failed + warnings > 0, download)}
    </div>
    !${state.second ? '' : await lackingText(request, found, state)} !${failureTable(found, state, failures, wordsOf)}`;
  return html`!${when(ofColumns, notice(sentence(ofColumns), 'busy'))} !${when(failures.length > 0, records)}
  !${cursorPager(request, nextCursor)}`;
}

/** Returns how many records lack the value by which an import finds stored ones, and the button that creates them. */
async function lackingText(request: FastifyRequest, found: Import, state: ImportState): Promise<Html> {
  const { object, mode, match, status, dry_run: isCheck, created, updated } = found;
  if (status !== 'COMPLETED' || mode !== 'upsert' || match === null) return '';
  const number = await search(request, countLacking, found.id, match);
  const text = `${counted(number, 'record')} without a valid ${matchWord(found)}, by which this import finds the ${object} that you have.`;
  const body = html`!${when(isCheck, await listsFor(request, state))}
    <button name="do" value="anew" class="secondary outline">Create as new ${object}</button>`;
  // The list may be new: it is created when the others are imported.
  const isLater = isCheck && state.is_kept && created + updated > 0;
  const later = isLater && 'Import the others first: then one click creates these as new.';
  return when(number > 0, notice(text, 'busy', later || form(pathOf(found), body, 'data-once')));
}

const matchWord = ({ object, match }: Pick<Import, 'object' | 'match'>): string =>
  fieldWord(object, match ?? 'id').toLowerCase();

/** Returns a link to the import that has left out the records of this one. */
const originOf = ({ first_id: id }: Pick<ListedImport, 'first_id'>): Html =>
  id === null ? '' : html` · !${link('left out by another import', pathOf({ id }))}`;

/** Returns what became of the records without the match value that an import left out. */
function secondText({ second }: Pick<ListedImport, 'second'>): Html {
  if (second === null) return '';
  const what =
    second.created > 0 ? `${counted(second.created, 'was', 'were')} created as new` : 'some are in another import';
  return html`Of those left out, !${link(what, pathOf(second))}.`;
}

interface Outcome {
  untyped: readonly Html[];
  list: string | undefined;
  repeated: string;
  surplus: number | undefined;
}

function outcomeOf(found: Import, state: ImportState, { list, repeated, surplus, untyped }: Outcome): Html {
  const { status, dry_run: isCheck, error, total, warnings } = found;
  const counts = countsText(found, surplus);
  if (status === 'FAILED') return notice(`The import failed: ${inWords(found.object, error ?? '')}. ${counts}`, 'bad');
  if (status !== 'COMPLETED') return when(status === 'CANCELLED', notice(counts, 'plain'));
  const failed = Math.max(0, found.failed - (state.second?.created ?? 0));
  const tone =
    failed === 0 ? (isCheck ? 'busy' : warnings > 0 ? 'warning' : 'good') : failed === total ? 'bad' : 'warning';
  const done = `${isCheck ? 'Checked. Nothing was written.' : 'The import is complete.'} ${counts}.`;
  return html`!${notice(done, tone, html`!${secondText(state)} ${repeated}`)}!${isCheck ? '' : nextSteps(found, untyped, list)}`;
}

/** Returns links that give a type to the fields of an import that have none, and are in no form, table or rule. */
async function untypedLinks(request: FastifyRequest, { object }: Import, { layout }: ImportState): Promise<Html[]> {
  if (!isAdmin(request)) return [];
  const declared = await lookUp(request, listDeclared, object);
  const keys = ((layout as CsvLayout | null)?.columns ?? []).flatMap((name) => customKey(name ?? '') ?? []);
  const untyped = new Set(keys).difference(new Set(declared.map(({ key }) => key)));
  return [...untyped].slice(0, 3).map((key) => {
    return link(
      `set up “${key}” for forms and tables`,
      pathWith(`/app/fields/${object}/new`, { found: key, label: key }),
    );
  });
}

function nextSteps(found: Import, untyped: readonly Html[], list = ''): Html {
  const { id, object, mode, match, created, updated, failed, warnings } = found;
  const again = {
    object,
    mode: mode === 'update' ? mode : 'upsert',
    match: match ?? (object === 'contacts' ? 'work_email' : 'external_id'),
    list_id: list,
  };
  const assign = pathWith('/app/contacts/chosen', { do: 'assign', all: '1', list });
  const path = list ? `/app/lists/${list}` : `/app/changes/${id}`;
  const steps = [
    when(list || created + updated > 0, link(list ? 'see their list' : `see these ${object}`, path)),
    when(list, dialogLink('assign all in it', assign)),
    link('look for duplicates', `/app/duplicates?of=${object}`),
    when(failed + warnings > 0, link('upload the corrected records', pathWith(`${section}/new`, again))),
    ...untyped,
  ];
  return html`<p>Next: !${steps.filter(Boolean).join(' · ')}</p>`;
}

/**
 * Returns how many records of an import were written or left out.
 * @param surplus number of records of a check that come after one with the same value. The import does not create them.
 * Undefined if that is not known any more: then it does not tell which would be new
 */
function countsText(of: Import, surplus?: number): string {
  const { total, created, updated, unchanged, failed, warnings, dry_run: isCheck, repeated } = of;
  if (total === null) return '';
  const isKnown = !isCheck || surplus !== undefined || repeated === 0;
  const written = {
    new: Math.max(0, created - (surplus ?? 0)),
    'repeated in the file': surplus ?? 0,
    changed: updated,
  };
  const all = Object.entries({ ...(isKnown && { ...written, 'the same already': unchanged }), 'left out': failed });
  const texts = all.filter(([, number]) => number > 0).map(([word, number]) => `${count(number)} ${word}`);
  const what = when(texts.length > 0, `: ${isCheck ? 'would be ' : ''}${texts.join(' · ')}`);
  return `${counted(total, 'record')}${what}${when(warnings > 0, `, ${count(warnings)} with a value left out`)}`;
}
