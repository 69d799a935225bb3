import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { cancelJob } from '../../jobs/cancel-job.ts';
import { sessionOf } from '../../plugins/credentials/auth.ts';
import { countOutcomes, listItems, listJobs, requireJobView } from '../../queries/jobs/job-views.ts';
import {
  finalStatuses,
  jobStatuses,
  allJobs,
  jobTypes,
  type FinalStatus,
  type Job,
  type JobItem,
} from '../../schemas/jobs.ts';
import { defaultLimit } from '../../schemas/base/wire.ts';
import { canonicalId } from '../../text/ids.ts';
import { forAdmins, forMembers, questionRoutes, sendPage } from '../base/layout.ts';
import { doneNotice, filterChoice, idOf, numberedPager, pageNumberOf, queryOf, text } from '../base/forms.ts';
import {
  count,
  cursorPager,
  empty,
  facts,
  html,
  linkButton,
  moment,
  table,
  type Column,
  type Html,
} from '../base/html.ts';
import { undoOf } from './changes.ts';
import { progressBar, statusBadge, verification } from '../base/values.ts';
import { fieldWord, jobWords, verificationWords } from '../base/words.ts';

const section = '/app/jobs';

export async function jobs(app: FastifyInstance): Promise<void> {
  app.get('/jobs', forMembers, async (request, reply) => {
    const page = pageNumberOf(request);
    const filters = filtersOf(request);
    const query = { filters, paginate: { page } };
    const rows = await request.db.search((sql) => listJobs(sql, request.caller.customerId, query, allJobs));
    const isFiltered = Object.keys(filters).length > 0;
    const body = html`!${doneNotice(request)} !${filterForm(filters)}
    !${table(
      'Jobs',
      jobColumns,
      rows,
      isFiltered || page > 1
        ? empty('No such jobs', 'No job matches. Choose another status or type.', '', 'search')
        : empty(
            'No jobs yet',
            'Jobs unlock prospects and verify e-mail addresses. Start one from prospects, contacts or a list.',
            '',
            'job',
          ),
    )}
    !${numberedPager(page, rows.length === defaultLimit, (number) => pageUrl(filters, number))}`;
    return sendPage(request, reply, { title: 'Jobs', body });
  });

  app.get('/jobs/:id', forMembers, async (request, reply) => showJob(request, reply));

  questionRoutes(app, '/jobs/:id/cancel', forAdmins, {
    ask: async (request) => {
      const job = await requireJob(request);
      return {
        title: 'Cancel the job',
        text: html`${jobWords[job.type]}: ${count(job.processed)} of ${count(job.total)} items are done. Their results
        stay and were charged. The other items are skipped, and the credits that are reserved for them come back.`,
        back: `${section}/${job.id}`,
        refusal: 'Let it run',
      };
    },
    act: async (request) => {
      const id = idOf(request, 'job');
      await request.db.transaction((sql) => cancelJob(sql, request.caller.customerId, id, allJobs));
      return `${section}/${id}`;
    },
  });
}

const waitLabels: Record<NonNullable<Job['waiting_for']>, string> = {
  name_server: 'the name server, which knows no domain at present',
};

type Filters = Partial<Pick<Job, 'status' | 'type'>>;

/** Ignores unknown values of query parameters. */
function filtersOf(request: FastifyRequest): Filters {
  const query = queryOf(request);
  const status = jobStatuses.find((one) => one === text(query, 'status'));
  const type = jobTypes.find((one) => one === text(query, 'type'));
  return { ...(status && { status }), ...(type && { type }) };
}

const pageUrl = (filters: Filters, page: number): string =>
  `${section}?${new URLSearchParams({ ...filters, page: String(page) }).toString()}`;

const filterForm = ({ status = '' as never, type = '' as never }: Filters): Html =>
  html`<form class="filters" method="get" action="${section}">
    !${filterChoice('status', 'Status', [['', 'any'], ...jobStatuses.map((one) => [one, one.toLowerCase()] as const)], status)}
    !${filterChoice('type', 'Type', [['', 'any'], ...jobTypes.map((one) => [one, jobWords[one]] as const)], type)}
    <div class="filter-buttons"><button class="secondary">Show</button></div>
  </form>`;

const jobColumns: readonly Column<Job>[] = [
  ['Job', ({ id, type }) => html`<a href="${section}/${id}">${jobWords[type]}</a>`],
  ['Status', ({ status }) => statusBadge(status)],
  ['Progress', ({ processed, total }) => `${count(processed)} of ${count(total)}`, 'number'],
  ['Started', ({ created_at }) => moment(created_at)],
  ['Credits', ({ credits }) => count(credits.charged), 'number'],
];

const requireJob = (request: FastifyRequest): Promise<Job> => {
  const id = idOf(request, 'job');
  return request.db.lookup((sql) => requireJobView(sql, request.caller.customerId, id, allJobs));
};

async function showJob(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
  const job = await requireJob(request);
  const cursor = text(queryOf(request), 'cursor');
  const { db, caller } = request;
  const isVerification = job.type === 'verify_email' || job.type === 'verify_list';
  const [results, outcomes] = await Promise.all([
    listItems(db, caller.customerId, job.id, cursor ? { cursor } : {}, allJobs),
    isVerification ? db.search((sql) => countOutcomes(sql, caller.customerId, job.id)) : [],
  ]);
  const list = canonicalId(text(queryOf(request), 'list'));
  const isRunning = !finalStatuses.includes(job.status as FinalStatus);
  const isCancellable = isRunning && sessionOf(request).role === 'admin';
  const body = html`<div !${isRunning ? 'data-live' : ''}>
    <div class="card">
      !${progressOf(job)} !${outcomes.length === 0 ? '' : outcomesOf(outcomes)}
      !${list === undefined ? '' : html`<p>${isVerification ? 'What is found stands in' : 'The contacts go into'} <a href="/app/lists/${list}">the list</a>.</p>`}
    </div>
    <h2>Results</h2>
    !${table(
      'Results',
      resultColumns,
      results.rows,
      empty(
        'No results',
        isRunning ? 'They appear here while the job runs.' : 'Results are kept for 30 days.',
        '',
        'job',
      ),
    )}
    !${cursorPager(`${section}/${job.id}`, cursor, results.nextCursor)}
  </div>`;
  return sendPage(request, reply, {
    title: jobWords[job.type],
    isLive: isRunning,
    actions: isCancellable
      ? linkButton('Cancel the job', `${section}/${job.id}/cancel`, 'danger outline', 'data-dialog')
      : isRunning
        ? ''
        : await undoOf(request, job.id, 'Undo what it wrote'),
    body,
  });
}

const progressOf = (job: Job): Html =>
  html`!${progressBar(job, 'items')}
  !${facts([
    ['Status', statusBadge(job.status)],
    ...(job.waiting_for === null ? [] : [['Waits for', waitLabels[job.waiting_for]] as const]),
    ['Succeeded', count(job.succeeded)],
    ['Failed', count(job.failed)],
    ['Skipped', count(job.skipped)],
    ['Credits spent', `${count(job.credits.charged)} of ${count(job.credits.reserved)}`],
    ['Started', moment(job.created_at)],
    ['Ended', moment(job.finished_at, 'Not yet')],
  ])}
  !${job.error === null ? '' : html`<p class="fault">${job.error}</p>`}`;

const outcomesOf = (outcomes: Awaited<ReturnType<typeof countOutcomes>>): Html =>
  html`<p class="outcomes">
    !${outcomes.map(({ status, number }) => html`<span>${count(number)} !${verification(status)}</span>`)}
  </p>`;

function nameOf({ item, contact_id, result }: JobItem): Html {
  const person = result !== null && '_id' in result ? `${result.first_name} ${result.last_name}`.trim() : '';
  const name = person || (contact_id !== null && canonicalId(item) !== undefined ? 'Contact' : item);
  return contact_id === null ? html`${name}` : html`<a href="/app/contacts/${contact_id}">${name}</a>`;
}

const resultColumns: readonly Column<JobItem>[] = [
  ['Item', nameOf],
  ['Outcome', ({ status, reason }) => html`!${statusBadge(status)} ${reason?.replaceAll('_', ' ') ?? ''}`],
  ['What was found', ({ result }) => html`${foundBy(result)}`, 'long'],
  ['Credits', ({ charged }) => count(charged), 'number'],
  ['When', ({ finished_at }) => moment(finished_at)],
];

function foundBy(result: JobItem['result']): string {
  if (result === null) return '';
  if ('checks' in result) return `${verificationWords[result.status].word}${result.reused ? ' (earlier result)' : ''}`;
  if ('changed' in result) return result.changed.map((name) => fieldWord('contacts', name)).join(', ');
  if ('restored' in result) return result.restored.join(', ');
  return [result.job_title, result.job_company_name, result.work_email].filter(Boolean).join(' · ');
}
