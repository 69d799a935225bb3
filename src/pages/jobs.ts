import type { FastifyInstance, FastifyRequest } from 'fastify';
import { cancelJob } from '../jobs/start-job.ts';
import { countOutcomes, findJobViews, findStarts, listItems, listJobs, requireJobView } from '../queries/jobs/jobs.ts';
import { itemStatuses, jobStatuses, allJobs, jobTable, jobTypes, pools } from '../schemas/jobs.ts';
import type { ItemStatus, Job, JobItem, JobType, Credits, EntryKind, LedgerEntry, Pool } from '../schemas/jobs.ts';
import { defaultLimit } from '../schemas/wire.ts';
import { canonicalId } from '../text/ids.ts';
import { forMembers, forAdmins, addPage, backPath, question, listPage, type Page } from './base/layout.ts';
import { cursorPager, numberedPager, filterChoice, filters } from './base/forms.ts';
import { findChange, findSubjects } from '../queries/history/history.ts';
import { eventNouns } from '../schemas/events.ts';
import { lookUp, search, write, idOf, isAdmin, queryText, pageNumberOf, ask, placeIn } from './base/requests.ts';
import { when, badge, empty, table, linkButton, html, quiet, line, link, panel, sideBySide } from './base/html.ts';
import { moment, twoLines, count, counted, type Html, type Tone, type Column } from './base/html.ts';
import { fieldWord, verificationWords, jobWords, poolWords, reasonWord, verification, plain } from './base/words.ts';
import { searchText, statusBadge, progressBar } from './base/words.ts';
import { nameOf, namedRecords, recordLink, undoneTexts, undoOf, whoOf, wordOf } from './changes.ts';
import type { User } from '../schemas/accounts.ts';
import { usersOf } from './records/editor.ts';
import { findCredits, listEntries, sumCharges } from '../queries/jobs/credits.ts';

const section = '/app/jobs';

export async function jobs(app: FastifyInstance): Promise<void> {
  addPage(app, '/jobs', forMembers, async (request) => {
    const page = pageNumberOf(request);
    const status = jobStatuses.find((one) => one === queryText(request, 'status'));
    const type = jobTypes.find((one) => one === queryText(request, 'type'));
    const isMine = queryText(request, 'by') === 'me';
    const given = {
      ...(status && { status }),
      ...(type && { type }),
      ...(isMine && { actor_id: request.caller.userId }),
    };
    const rows = await search(request, listJobs, { filters: given, paginate: { page } }, allJobs);
    const [ids, users] = [rows.map(({ id }) => id), await usersOf(request)];
    const starts = await search(request, findStarts, ids);
    const undone = await undoneTexts(request, rows);
    const name = (job: Job): Html =>
      twoLines(link(titleOf(job, undone), `${section}/${job.id}`), html`${searchText(starts.get(job.id)?.filters)}`);
    const by: Column<Job> = ['Started by', ({ id }) => whoOf(starts.get(id)?.actor ?? null, users)];
    const noJobs = 'Jobs unlock prospects and verify e-mail addresses. Start one from prospects, contacts or a list.';
    const statuses = jobStatuses.map((one) => [one, one.toLowerCase()] as const);
    const isSome = Object.keys(given).length > 0 || page > 1;
    return listPage({
      title: 'Jobs',
      above: filters(
        section,
        html`!${filterChoice('status', 'Status', [['', 'any'], ...statuses], status ?? '')}
        !${filterChoice('type', 'Type', { '': 'any', ...jobWords }, type ?? '')}
        !${filterChoice('by', 'Started by', { '': 'anybody', me: 'me' }, isMine ? 'me' : '')}`,
      ),
      columns: [['Job', name, 'long'], ...jobColumns.toSpliced(3, 0, by)],
      rows,
      none: isSome
        ? ['No such jobs', 'No job matches. Choose another status or type.']
        : ['No jobs yet', noJobs, 'job'],
      below: numberedPager(request, rows.length === defaultLimit),
    });
  });

  addPage(app, '/jobs/:id', forMembers, showJob);

  question(app, '/jobs/:id/cancel', forAdmins, {
    about: requireJob,
    title: 'Cancel the job',
    text: ({ type, processed, total }) =>
      html`${jobWords[type]}: ${count(processed)} of ${count(total)} items are done. Their results stay and were
      charged. The other items are skipped, and the credits held for them come back.`,
    back: ({ id }) => `${section}/${id}`,
    act: async (request, { id }) => {
      await write(request, cancelJob, id, allJobs);
      return `${section}/${id}`;
    },
  });
}

/** @param undone what undos have taken back, by the ids of their jobs */
const titleOf = ({ id, type }: Job, undone: ReadonlyMap<string, string>): string =>
  undone.has(id) ? `Undo: ${undone.get(id)!}` : jobWords[type];

const jobColumns: readonly Column<Job>[] = [
  ['Status', ({ status }) => statusBadge(status)],
  ['Progress', ({ processed, total }) => line(`${count(processed)} of ${count(total)}`), 'number'],
  ['Started', ({ created_at }) => moment(created_at)],
  ['Credits', ({ credits }) => count(credits.charged), 'number'],
];

const requireJob = (request: FastifyRequest): Promise<Job> =>
  lookUp(request, requireJobView, idOf(request, 'job'), allJobs);

async function showJob(request: FastifyRequest): Promise<Page> {
  const job = await requireJob(request);
  const isVerification = jobTable[job.type].pool === 'verification';
  const outcome = itemStatuses.find((one) => one === queryText(request, 'outcome'));
  const [results, outcomes, starts, users] = await Promise.all([
    ask(request, listItems, job.id, placeIn(request), allJobs, outcome),
    isVerification ? search(request, countOutcomes, job.id) : [],
    search(request, findStarts, [job.id]),
    usersOf(request),
  ]);
  const counts = outcomes.map(({ status, number }) => html`<span>${count(number)} !${verification(status)}</span>`);
  const columns = job.type === 'undo' ? await undoColumns(request, results.rows, users) : resultColumnsOf(job);
  const start = starts.get(job.id);
  const list = canonicalId(queryText(request, 'list'));
  const back = backPath(request, '');
  const isRunning = job.finished_at === null;
  const cancel = linkButton('Cancel the job', `${section}/${job.id}/cancel`, 'danger outline', 'data-dialog');
  const undone = await undoneTexts(request, [job]);
  const none = isRunning ? 'They appear here while the job runs.' : 'Results are kept for 30 days.';
  return {
    title: titleOf(job, undone),
    lead: html`!${statusBadge(job.status)} started by !${whoOf(start?.actor ?? null, users)}, !${moment(job.created_at)}`,
    isLive: isRunning,
    actions: html`!${when(back !== '', linkButton('Go back', back, 'secondary outline'))}
    !${isRunning ? when(isAdmin(request), cancel) : await undoOf(request, job.id, 'Undo what it wrote')}`,
    body: html`<div !${when(isRunning, 'data-live')}>
      <div class="card">
        !${when(start?.filters, quiet(searchText(start?.filters)))} !${progressOf(job)}
        !${when(outcomes.length > 0, html`<p class="row">!${counts}</p>`)}
        !${when(isRunning, quiet('It goes on when you leave this page.'))}
        !${list || job.succeeded > 0 ? await nextOf(request, job, list) : ''}
      </div>
      <h2>Results</h2>
      !${outcome ? html`<p>Only those that are !${statusBadge(outcome)} <a href="${section}/${job.id}">Show all</a></p>` : ''}
      !${table('Results', columns, results.rows, empty('No results', none, 'job'))}
      !${cursorPager(request, results.nextCursor)}
    </div>`,
  };
}

function progressOf(job: Job): Html {
  const [, noun, nouns, done] = jobTable[job.type].words;
  const { pool, charged, reserved } = job.credits;
  const others = Object.entries({ failed: 'failed', skipped: 'left out' } as const).flatMap(([status, word]) => {
    const number = job[status as ItemStatus];
    return number === 0 ? [] : link(`${count(number)} ${word}`, `${section}/${job.id}?outcome=${status}`);
  });
  const free = job.succeeded > charged ? ` · ${count(job.succeeded - charged)} free` : '';
  const spent = `${counted(charged, 'credit')} spent of at most ${count(reserved)}${free}`;
  return html`!${when(job.finished_at === null, progressBar(job, nouns))}
    <p class="figure">${counted(job.succeeded, noun, nouns)} ${done}</p>
    <p>!${[...others, ...(pool === null ? [] : [spent])].join(' · ')}</p>
    !${when(job.waiting_for, quiet('It waits for the name server, which knows no domain at present.'))}
    !${when(job.error, html`<p class="fault">${job.error}</p>`)}`;
}

async function nextOf(request: FastifyRequest, { id, type }: Job, list: string | undefined): Promise<Html> {
  if (type === 'undo') return html`<p>!${link('See what it took back', `/app/changes/${id}`)}</p>`;
  if (list) return html`<p>!${link('See the list', `/app/lists/${list}`)}</p>`;
  const change = await ask(request, findChange, eventNouns, id);
  return html`<p>!${link('See the contacts', change ? `/app/changes/${id}` : '/app/contacts')}</p>`;
}

function itemName({ item, contact_id, result }: JobItem): Html {
  const person = result !== null && '_id' in result ? `${result.first_name} ${result.last_name}`.trim() : '';
  const name = person || (canonicalId(item) === undefined ? item : contact_id === null ? 'Prospect' : 'Contact');
  return contact_id === null ? html`${name}` : link(name, `/app/contacts/${contact_id}`);
}

const outcomeColumn: Column<JobItem> = [
  'Outcome',
  (one) => freeBadge(one) || html`!${statusBadge(one.status)} ${one.reason ? reasonWord(one.reason) : ''}`,
];

const resultColumnsOf = ({ type }: Job): Column<JobItem>[] => [
  [plain(jobTable[type].words[1]), itemName],
  outcomeColumn,
  ['What was found', ({ result }) => html`${foundBy(result)}`, 'long'],
  ['Credits', ({ charged }) => count(charged), 'number'],
];

/** Returns why an item that succeeded cost nothing, or an empty text. */
function freeBadge({ charged, status, result }: JobItem): Html {
  if (charged > 0 || status !== 'succeeded' || result === null || 'kept' in result) return '';
  if ('_id' in result) return badge('no valid e-mail, free', 'plain');
  if ('changed' in result) return badge('filled in, free', 'good');
  return badge(`${result.reused ? 'checked before' : 'no clear answer'}, free`, 'plain');
}

async function undoColumns(request: FastifyRequest, rows: readonly JobItem[], users: readonly User[]) {
  const ids = rows.map(({ item }) => item);
  const subjects = new Map((await lookUp(request, findSubjects, ids)).map((one) => [one.id, one]));
  const wanted = [...subjects.values()].map(({ id, noun }) => [noun, id] as const);
  const records = await namedRecords(request, wanted);
  const nameOfItem = ({ item }: JobItem): Html => {
    const subject = subjects.get(item);
    const name = subject ? nameOf(subject.noun, subject.deleted ?? {}) : 'an older record';
    return recordLink(records.get(item), html`${name}`);
  };
  const word = ({ item }: JobItem, field: string): string => wordOf(subjects.get(item)?.noun ?? 'list', field);
  const resultOf = ({ result }: JobItem) => (result !== null && 'kept' in result ? result : { restored: [], kept: [] });
  const restored = (one: JobItem): Html[] => resultOf(one).restored.map((field) => html`${word(one, field)}`);
  const kept = (one: JobItem): Html[] =>
    resultOf(one).kept.map(({ field, actor }) => html`${word(one, field)} (!${whoOf(actor, users)})`);
  const columns: readonly Column<JobItem>[] = [
    ['Record', nameOfItem],
    outcomeColumn,
    ['Restored', (one) => restored(one).join(', '), 'long'],
    ['Kept, as changed since', (one) => kept(one).join(', '), 'long'],
  ];
  return columns.filter(([, cell], i) => i === 0 || rows.some((row, j) => cell(row, j) !== ''));
}

function foundBy(result: JobItem['result']): string {
  if (result === null || 'kept' in result) return '';
  if ('checks' in result) return `${verificationWords[result.status].word}${result.reused ? ' (earlier result)' : ''}`;
  if ('changed' in result) return result.changed.map((name) => fieldWord('contacts', name)).join(', ');
  return [result.job_title, result.job_company_name, result.work_email].filter(Boolean).join(' · ');
}

const shownDays = 30;

export async function credits(app: FastifyInstance): Promise<void> {
  addPage(app, '/credits', forMembers, async (request) => {
    const isAll = queryText(request, 'show') === 'all';
    const ledger = await ask(request, listEntries, placeIn(request), isAll ? [] : ['reserve', 'release']);
    const [balances, charges] = [await lookUp(request, findCredits), await search(request, sumCharges, shownDays)];
    const ids = [...new Set(ledger.rows.flatMap(({ job_id }) => job_id ?? []))];
    const types = new Map((await lookUp(request, findJobViews, ids, allJobs)).map(({ id, type }) => [id, type]));
    const spent = new Map(charges.map(({ pool, amount }) => [pool, amount]));
    const cards = pools.map((pool) => poolCard(pool, balances, spent.get(pool) ?? 0));
    const which = { '': 'added and spent', all: 'held for jobs, too' };
    return listPage({
      title: 'Credits',
      label: 'Credits added and spent',
      above: html`!${when(queryText(request, 'cursor') === '', sideBySide(...cards))}
      !${filters('/app/credits', filterChoice('show', 'Show', which, isAll ? 'all' : ''))}`,
      columns: ledgerColumns(types),
      rows: ledger.rows,
      none: ['Nothing yet', 'What is added to your credits, and what your jobs spend, is listed here.', 'coins'],
      below: cursorPager(request, ledger.nextCursor),
    });
  });
}

const ledgerColumns = (types: ReadonlyMap<string, JobType>): Column<LedgerEntry>[] => [
  ['When', (one) => moment(one.created_at)],
  ['What', ({ kind }) => badge(kinds[kind].word, kinds[kind].tone)],
  [
    'About',
    ({ job_id: id, note }) => (id === null ? html`${note ?? ''}` : link(jobWords[types.get(id)!], `${section}/${id}`)),
  ],
  ['Credits for', ({ pool }) => poolWords[pool].word],
  ['Number', ({ kind, amount }) => `${kinds[kind].sign}${count(amount)}`, 'number'],
  // Credits that are held for a job are left until it spends them.
  ['Left', (one) => count(one.balance_after + one.reserved_after), 'number'],
];

const kinds: Record<EntryKind, { word: string; tone: Tone; sign: string }> = {
  grant: { word: 'added', tone: 'good', sign: '+' },
  reserve: { word: 'held', tone: 'busy', sign: '' },
  charge: { word: 'spent', tone: 'plain', sign: '−' },
  release: { word: 'came back', tone: 'plain', sign: '' },
  adjust: { word: 'corrected', tone: 'warning', sign: '' },
};

const poolActs: Record<Pool, Html> = {
  subscription: link('Search prospects', '/app/prospects'),
  verification: link('Choose a list', '/app/lists'),
};

function poolCard(pool: Pool, balances: Credits, spent: number): Html {
  const { word: title, purpose } = poolWords[pool];
  const { balance, reserved } = balances[pool];
  const more = reserved > 0 ? `; ${count(reserved)} more are held for jobs` : '';
  const body = html`<p class="figure">${count(balance)}</p>
    !${quiet(`available ${purpose}${more}`)} !${quiet(`${count(spent)} spent in the last ${shownDays} days`)}`;
  return panel(title, body, poolActs[pool]);
}
