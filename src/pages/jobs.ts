import type { FastifyInstance, FastifyRequest } from 'fastify';
import { cancelJob } from '../jobs/start-job.ts';
import { countOutcomes, listItems, listJobs, requireJobView } from '../queries/jobs/jobs.ts';
import { finalStatuses, jobStatuses, allJobs, jobTypes, pools } from '../schemas/jobs.ts';
import type { FinalStatus, Job, JobItem, Credits, EntryKind, LedgerEntry, Pool } from '../schemas/jobs.ts';
import { defaultLimit } from '../schemas/wire.ts';
import { canonicalId } from '../text/ids.ts';
import { forMembers, forAdmins, addPage, backPath, question, type Page } from './base/layout.ts';
import { cursorPager, numberedPager, doneNotice, filterChoice, showButton } from './base/forms.ts';
import { lookUp, search, write, idOf, isAdmin, queryText, pageNumberOf } from './base/requests.ts';
import { when, badge, empty, table, facts, linkButton, html } from './base/html.ts';
import type { Html, Tone, Column } from './base/html.ts';
import { moment, count } from './base/values.ts';
import {
  fieldWord,
  verificationWords,
  jobWords,
  plain,
  poolWords,
  verification,
  statusBadge,
  progressBar,
} from './base/words.ts';
import { nameOf as nameOfRecord, plurals, recordPaths, undoOf } from './changes.ts';
import { findRecords, findSubjects } from '../queries/history/history.ts';
import type { EventNoun } from '../schemas/events.ts';
import { findCredits, listDailyCharges, listEntries, type DailyCharge } from '../queries/jobs/credits.ts';

const section = '/app/jobs';

export async function jobs(app: FastifyInstance): Promise<void> {
  addPage(app, '/jobs', forMembers, async (request) => {
    const page = pageNumberOf(request);
    const filters = filtersOf(request);
    const rows = await search(request, listJobs, { filters, paginate: { page } }, allJobs);
    const noJobs = 'Jobs unlock prospects and verify e-mail addresses. Start one from prospects, contacts or a list.';
    const none =
      Object.keys(filters).length > 0 || page > 1
        ? empty('No such jobs', 'No job matches. Choose another status or type.')
        : empty('No jobs yet', noJobs, 'job');
    return {
      title: 'Jobs',
      body: html`!${doneNotice(request)} !${filterForm(filters)} !${table('Jobs', jobColumns, rows, none)}
      !${numberedPager(request, rows.length === defaultLimit)}`,
    };
  });

  addPage(app, '/jobs/:id', forMembers, showJob);

  question(app, '/jobs/:id/cancel', forAdmins, {
    about: requireJob,
    title: 'Cancel the job',
    text: ({ type, processed, total }) =>
      html`${jobWords[type]}: ${count(processed)} of ${count(total)} items are done. Their results stay and were
      charged. The other items are skipped, and the credits that are reserved for them come back.`,
    back: ({ id }) => `${section}/${id}`,
    refusal: 'Let it run',
    act: async (request) => {
      const id = idOf(request, 'job');
      await write(request, cancelJob, id, allJobs);
      return `${section}/${id}`;
    },
  });
}

const waitLabels: Record<NonNullable<Job['waiting_for']>, string> = {
  name_server: 'the name server, which knows no domain at present',
};

type Filters = Partial<Pick<Job, 'status' | 'type'>>;

function filtersOf(request: FastifyRequest): Filters {
  const status = jobStatuses.find((one) => one === queryText(request, 'status'));
  const type = jobTypes.find((one) => one === queryText(request, 'type'));
  return { ...(status && { status }), ...(type && { type }) };
}

const filterForm = ({ status = '' as never, type = '' as never }: Filters): Html =>
  html`<form class="filters" method="get" action="${section}">
    !${filterChoice('status', 'Status', [['', 'any'], ...jobStatuses.map((one) => [one, one.toLowerCase()] as const)], status)}
    !${filterChoice('type', 'Type', [['', 'any'], ...jobTypes.map((one) => [one, jobWords[one]] as const)], type)}
    !${showButton}
  </form>`;

const jobColumns: readonly Column<Job>[] = [
  ['Job', ({ id, type }) => html`<a href="${section}/${id}">${jobWords[type]}</a>`],
  ['Status', ({ status }) => statusBadge(status)],
  ['Progress', ({ processed, total }) => `${count(processed)} of ${count(total)}`, 'number'],
  ['Started', ({ created_at }) => moment(created_at)],
  ['Credits', ({ credits }) => count(credits.charged), 'number'],
];

const requireJob = (request: FastifyRequest): Promise<Job> =>
  lookUp(request, requireJobView, idOf(request, 'job'), allJobs);

async function showJob(request: FastifyRequest): Promise<Page> {
  const job = await requireJob(request);
  const cursor = queryText(request, 'cursor');
  const isVerification = job.type === 'verify_email' || job.type === 'verify_list';
  const [results, outcomes] = await Promise.all([
    listItems(request.db, request.caller.customerId, job.id, cursor ? { cursor } : {}, allJobs),
    isVerification ? search(request, countOutcomes, job.id) : [],
  ]);
  const undone = job.type === 'undo' ? await undoneOf(request, results.rows) : undefined;
  const list = canonicalId(queryText(request, 'list'));
  const back = backPath(request, '');
  const isRunning = !finalStatuses.includes(job.status as FinalStatus);
  const cancel = linkButton('Cancel the job', `${section}/${job.id}/cancel`, 'danger outline', 'data-dialog');
  const none = isRunning ? 'They appear here while the job runs.' : 'Results are kept for 30 days.';
  return {
    title: jobWords[job.type],
    isLive: isRunning,
    actions: html`!${when(back !== '', linkButton('Go back', back, 'secondary outline'))}
    !${isRunning ? when(isAdmin(request), cancel) : await undoOf(request, job.id, 'Undo what it wrote')}`,
    body: html`<div !${when(isRunning, 'data-live')}>
      <div class="card">
        !${progressOf(job)} !${when(outcomes.length > 0, outcomesOf(outcomes))}
        !${when(list, html`<p>${isVerification ? 'What is found stands in' : 'The contacts go into'} <a href="/app/lists/${list}">the list</a>.</p>`)}
      </div>
      <h2>Results</h2>
      !${table('Results', undone ? undoColumns(undone) : resultColumns, results.rows, empty('No results', none, 'job'))}
      !${cursorPager(request, results.nextCursor)}
    </div>`,
  };
}

const progressOf = (job: Job): Html =>
  html`!${progressBar(job, 'items')}
  !${facts([
    ['Status', statusBadge(job.status)],
    ['Waits for', job.waiting_for === null ? undefined : waitLabels[job.waiting_for]],
    ['Succeeded', count(job.succeeded)],
    ['Failed', count(job.failed)],
    ['Skipped', count(job.skipped)],
    ['Credits spent', job.credits.pool !== null && `${count(job.credits.charged)} of ${count(job.credits.reserved)}`],
    ['Started', moment(job.created_at)],
    ['Ended', moment(job.finished_at, 'Not yet')],
  ])}
  !${when(job.error, html`<p class="fault">${job.error}</p>`)}`;

const outcomesOf = (outcomes: Awaited<ReturnType<typeof countOutcomes>>): Html =>
  html`<p class="row">
    !${outcomes.map(({ status, number }) => html`<span>${count(number)} !${verification(status)}</span>`)}
  </p>`;

function nameOf({ item, contact_id, result }: JobItem): Html {
  const person = result !== null && '_id' in result ? `${result.first_name} ${result.last_name}`.trim() : '';
  const name = person || (canonicalId(item) === undefined ? item : contact_id === null ? 'Prospect' : 'Contact');
  return contact_id === null ? html`${name}` : html`<a href="/app/contacts/${contact_id}">${name}</a>`;
}

const outcomeColumn: Column<JobItem> = [
  'Outcome',
  ({ status, reason }) => html`!${statusBadge(status)} ${reason?.replaceAll('_', ' ') ?? ''}`,
];
const endColumn: Column<JobItem> = ['When', ({ finished_at }) => moment(finished_at)];

const resultColumns: readonly Column<JobItem>[] = [
  ['Item', nameOf],
  outcomeColumn,
  ['What was found', ({ result }) => html`${foundBy(result)}`, 'long'],
  ['Credits', ({ charged }) => count(charged), 'number'],
  endColumn,
];

interface Undone {
  noun: EventNoun;
  name: Html;
}

/** Returns the records of an undo by id. Those that exist are links. */
async function undoneOf(request: FastifyRequest, rows: readonly JobItem[]): Promise<ReadonlyMap<string, Undone>> {
  const { db, caller } = request;
  const ids = rows.map(({ item }) => item);
  const subjects = await lookUp(request, findSubjects, ids);
  const nouns = [...new Set(subjects.map(({ noun }) => noun))];
  const found = await Promise.all(nouns.map((noun) => findRecords(db, caller.customerId, noun, ids)));
  const records = new Map(found.flat().map((record) => [record.id, record]));
  return new Map(
    subjects.map(({ id, noun, deleted }) => {
      const record = records.get(id);
      const name = html`${nameOfRecord(noun, record ?? deleted ?? {})}`;
      return [id, { noun, name: record ? html`<a href="${recordPaths[noun]}/${id}">!${name}</a>` : name }];
    }),
  );
}

const undoColumns = (undone: ReadonlyMap<string, Undone>): readonly Column<JobItem>[] => [
  ['Record', ({ item }) => html`!${undone.get(item)?.name ?? 'an older record'}`],
  outcomeColumn,
  ['Restored', ({ item, result }) => html`${restoredBy(result, undone.get(item)?.noun)}`, 'long'],
  endColumn,
];

function restoredBy(result: JobItem['result'], noun: EventNoun = 'list'): string {
  const wordOf = (name: string): string =>
    noun === 'list' || noun === 'activity' ? plain(name) : fieldWord(plurals[noun], name);
  return result && 'restored' in result ? result.restored.map(wordOf).join(', ') : '';
}

function foundBy(result: JobItem['result']): string {
  if (result === null) return '';
  if ('checks' in result) return `${verificationWords[result.status].word}${result.reused ? ' (earlier result)' : ''}`;
  if ('changed' in result) return result.changed.map((name) => fieldWord('contacts', name)).join(', ');
  if ('restored' in result) return '';
  return [result.job_title, result.job_company_name, result.work_email].filter(Boolean).join(' · ');
}

const shownDays = 30;

export async function credits(app: FastifyInstance): Promise<void> {
  addPage(app, '/credits', forMembers, async (request) => {
    const cursor = queryText(request, 'cursor');
    const ledger = await listEntries(request.db, request.caller.customerId, cursor === '' ? {} : { cursor });
    const [balances, charges] = await Promise.all([
      lookUp(request, findCredits),
      search(request, listDailyCharges, shownDays),
    ]);
    const cards = html`<div class="columns">!${pools.map((pool) => poolCard(pool, balances, charges))}</div>`;
    const none = 'Each change of your credits is listed here: grants, and what jobs reserve and spend.';
    return {
      title: 'Credits',
      body: html`!${when(cursor === '', cards)}
        <h2>Ledger</h2>
        !${table('Ledger', ledgerColumns, ledger.rows, empty('Nothing yet', none, 'coins'))}
        !${cursorPager(request, ledger.nextCursor)}`,
    };
  });
}

const ledgerColumns: readonly Column<LedgerEntry>[] = [
  ['When', (one) => moment(one.created_at)],
  ['Credits', (one) => poolWords[one.pool].word],
  ['What', ({ kind }) => badge(...kinds[kind])],
  ['Amount', (one) => count(one.amount), 'number'],
  ['Available after', (one) => count(one.balance_after), 'number'],
  ['Reserved after', (one) => count(one.reserved_after), 'number'],
  [
    'About',
    ({ job_id, note }) => (job_id === null ? html`${note ?? ''}` : html`<a href="/app/jobs/${job_id}">Job</a>`),
  ],
];

const kinds: Record<EntryKind, readonly [name: string, tone: Tone]> = {
  grant: ['granted', 'good'],
  reserve: ['reserved', 'busy'],
  charge: ['spent', 'plain'],
  release: ['released', 'plain'],
  adjust: ['corrected', 'warning'],
};

const days = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', timeZone: 'UTC' });

function poolCard(pool: Pool, balances: Credits, charges: readonly DailyCharge[]): Html {
  const { word: title, purpose } = poolWords[pool];
  const { balance, reserved } = balances[pool];
  const bars = charges
    .filter((charge) => charge.pool === pool)
    .map(({ day, amount }) => ({ name: days.format(new Date(day)), value: amount }));
  const spent = bars.reduce((sum, { value }) => sum + value, 0);
  return html`<section class="card">
    <h2>${title}</h2>
    <p class="figure">${count(balance)}</p>
    <p class="quiet">available ${purpose}${reserved > 0 ? `; ${count(reserved)} more are reserved for jobs` : ''}</p>
    !${spent > 0 ? barChart(`${title}: ${count(spent)} credits spent in the last ${shownDays} days`, bars) : ''}
    <p class="quiet">${count(spent)} spent in the last ${shownDays} days</p>
    !${spent > 0 ? daily(bars) : ''}
  </section>`;
}

const daily = (bars: readonly Bar[]): Html =>
  html`<details>
    <summary>The numbers</summary>
    <ul>
      !${bars.filter(({ value }) => value > 0).map(({ name, value }) => html`<li>${name}: ${count(value)}</li>`)}
    </ul>
  </details>`;

interface Bar {
  name: string;
  value: number;
}

const [barWidth, chartHeight] = [14, 110];

/** Draws a bar for each day, whose heights show how the days differ. The numbers stand below the chart. */
function barChart(label: string, bars: readonly Bar[]): Html {
  const most = Math.max(...bars.map(({ value }) => value));
  const barOf = ({ name, value }: Bar, i: number): Html => {
    const size = value === 0 ? 1 : Math.max(3, Math.round((value / most) * chartHeight));
    return html`<rect x="${i * barWidth}" y="${chartHeight - size}" width="${barWidth - 4}" height="${size}" rx="2">
      <title>${name}: ${count(value)}</title>
    </rect>`;
  };
  return html`<svg
    class="chart"
    viewBox="0 0 ${bars.length * barWidth} ${chartHeight}"
    role="img"
    aria-label="${label}"
  >
    !${bars.map(barOf)}
  </svg>`;
}
