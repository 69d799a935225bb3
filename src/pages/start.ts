import type { FastifyInstance, FastifyRequest } from 'fastify';
import { createHash } from 'node:crypto';
import { countCompanies } from '../queries/crm/companies.ts';
import { countContacts } from '../queries/crm/contacts.ts';
import { listChangesByOthers } from '../queries/history/timeline.ts';
import { allImports, listImportedFiles, listImports } from '../queries/jobs/imports.ts';
import { findCredits, findLastGrants } from '../queries/jobs/credits.ts';
import { listJobs } from '../queries/jobs/jobs.ts';
import { listOpportunities } from '../queries/crm/opportunities.ts';
import type { Change } from '../schemas/events.ts';
import type { Import } from '../schemas/imports.ts';
import { allJobs, pools, type Job } from '../schemas/jobs.ts';
import { titleOf } from './import-upload.ts';
import { newTask, tasksNotice, taskSections } from './records/activities.ts';
import { forMembers, addPage, addAction } from './base/layout.ts';
import { form, hidden } from './base/forms.ts';
import { lookUp, search, isAdmin, sentText, ask } from './base/requests.ts';
import { when, empty, plainList, workplace, linkButton, html, moment, date, dayIn, dayMs } from './base/html.ts';
import { startOf, count, counted, link, sideBySide, someNames, type Html } from './base/html.ts';
import { amountName, jobWords, poolWords, statusBadge, progressBar } from './base/words.ts';
import { namedRecords, oldNameOf, plurals, recordLink, verbs, whoOf, wordOf } from './changes.ts';
import { dealText, stagesById } from './records/deals.ts';
import { usersOf } from './records/editor.ts';
import { isHttps, sessionCookies } from '../plugins/auth.ts';
import { listApiKeys } from '../queries/accounts/api-keys.ts';
import { listApprovals } from '../queries/accounts/approvals.ts';
import { listEndpoints } from '../queries/accounts/webhook-endpoints.ts';
import { warningDays } from './keys.ts';
import { pathOf, troubleOf } from './webhooks.ts';

/**
 * Adds the start page. It shows the user's tasks, the latest changes by others, and problems. A new customer sees first
 * steps instead.
 */
export async function start(app: FastifyInstance): Promise<void> {
  addPage(app, '/', forMembers, async (request) => {
    const [contacts, companies, credits] = await Promise.all([
      ask(request, countContacts, {}),
      ask(request, countCompanies, {}),
      lookUp(request, findCredits),
    ]);
    const [people, firms] = [contacts, companies].map(({ pagination }) => pagination.total_records) as [number, number];
    const [concerns, running] = await Promise.all([concernsOf(request), runningOf(request)]);
    const isNew = people + firms === 0;
    const [tasks, deals, latest] = isNew
      ? [html`!${firstSteps} !${concerns}`, '', '']
      : await Promise.all([
          taskSections(request, shownParts, { who: request.caller.userId, users: [], back: '/app', below: concerns }),
          dealsOf(request),
          latestOf(request),
        ]);
    const underWay = html`<h2>Under way</h2>
      <div !${when(running.isLive, 'data-live')}>!${running.cards}</div>`;
    return {
      title: 'Today',
      lead: html`<a href="/app/contacts">${counted(people, 'contact')}</a> ·
        <a href="/app/companies">${counted(firms, 'company', 'companies')}</a> ·
        <a href="/app/credits">${count(credits.subscription.balance)} credits</a> to unlock prospects,
        ${count(credits.verification.balance)} to verify`,
      actions: when(!isNew, newTask('/app')),
      done: await tasksNotice(request),
      isLive: running.isLive,
      body: workplace(
        html`!${tasks} !${deals}`,
        'What happened',
        html`!${when(running.cards.length > 0, underWay)} !${latest}`,
      ),
    };
  });

  addAction(app, '/dismiss', forMembers, (request, reply) => {
    const { name, attributes } = cookieOf(request);
    const kept = [...dismissedBy(request), sentText(request, 'concern')].slice(-maxDismissed);
    void reply.setCookie(name, kept.join('.'), attributes);
    return '/app';
  });
}

const [ofImport, ofSearch, ofNote] = [
  'An Excel or CSV file, as it is. You see what is read before anything is stored.',
  'Search the catalog, and unlock those whom you want to reach.',
  'Create a contact, note your last call, and set a task.',
] as const;

const firstSteps: Html = html`<h2>First steps</h2>
  !${sideBySide(
    empty('Bring your contacts in', ofImport, 'file', linkButton('Import a file', '/app/imports/new')),
    empty('Find new people', ofSearch, 'search', linkButton('Search prospects', '/app/prospects')),
    empty('Write down what you know', ofNote, 'people', linkButton('New contact', '/app/contacts/new')),
  )}`;

const shownParts = ['overdue', 'today', 'week', 'undated'];

async function dealsOf(request: FastifyRequest): Promise<Html> {
  const lt = startOf(dayIn(31));
  const stages = await stagesById(request);
  const open = [...stages.values()].flatMap(({ id, status }) => (status === 'OPEN' ? [id] : []));
  const { rows } = await ask(request, listOpportunities, {
    filters: { user_id_assigned: request.caller.userId, stage_id: open, estimated_closing_date: { lt } },
    order_by: { estimated_closing_date: 'ASC' },
    paginate: { limit: dealsShown + 1 },
  });
  const deals = rows.slice(0, dealsShown).map((row) => dealText(row, stages));
  const all = link('All of mine', `/app/opportunities?owner=${request.caller.userId}`);
  return html`<h2>My opportunities that close in the next 30 days</h2>
    !${plainList(deals, 'None.')} !${when(rows.length > dealsShown, html`<p>!${all}</p>`)}`;
}

const dealsShown = 10;

const latestRead = 100;
const latestShown = 12;
async function latestOf(request: FastifyRequest): Promise<Html> {
  const { customerId, userId } = request.caller;
  const [changes, users] = await Promise.all([
    listChangesByOthers(request.db, customerId, userId, latestRead),
    usersOf(request),
  ]);
  // The product of amounts is made by the form of an opportunity, and nobody offers it.
  const others = changes.filter(({ object, fields: { name } }) => object !== 'product' || name?.[1] !== amountName);
  const acts = Map.groupBy(
    others,
    ({ change_id, object, type, position }) => `${change_id ?? position} ${object} ${type}`,
  );
  // What somebody did with one record is one line, however often.
  const groups = Map.groupBy(acts.values(), (act) =>
    act.length > 1 ? act : `${act[0]!.record_id} ${JSON.stringify(act[0]!.actor)}`,
  );
  const shown = [...groups.values()].slice(0, latestShown).map((group) => group.flat());
  const ofOne = shown.filter((act) => act.every(({ record_id }) => record_id === act[0]!.record_id));
  const wanted = ofOne.map(([first]) => [first!.object, first!.record_id] as const);
  const records = await namedRecords(request, wanted);
  const subject = (act: readonly Change[]): Html => {
    const [first] = act as [Change];
    const { object, record_id, change_id } = first;
    const many = act.length === latestRead ? `many ${plurals[object]}` : counted(act.length, object, plurals[object]);
    if (!ofOne.includes(act as Change[])) return html`<a href="/app/changes/${change_id}">${many}</a>`;
    return recordLink(records.get(record_id), html`${first.type === 'deleted' ? oldNameOf(first) : object}`);
  };
  const lines = shown.map((act) => {
    const [{ type, actor, object, occurred_at }] = act as [Change];
    const did = type === 'updated' ? (act.find((one) => one.type === 'created')?.type ?? type) : type;
    const fields = did === 'updated' && ofOne.includes(act) ? act.flatMap((one) => Object.keys(one.fields)) : [];
    const words = [...new Set(fields.map((name) => wordOf(object, name)))];
    return html`<span class="byline"
        ><strong>!${whoOf(actor, users)}</strong> ${verbs[did]}
        !${subject(act)}${when(words.length > 0, ': ')}!${someNames(words, 3)}</span
      >
      <span class="quiet">!${moment(occurred_at)}</span>`;
  });
  return html`<h2>Latest by others</h2>
    !${plainList(lines, 'Nobody else has changed anything lately.')}`;
}

/**
 * Returns the jobs, and the imports not begun by other users, that have not ended. `isLive` is true if one of them
 * makes progress without the user.
 */
async function runningOf({ db, caller }: FastifyRequest): Promise<{ cards: Html[]; isLive: boolean }> {
  const { customerId, userId } = caller;
  const [processing, pending, imports] = await db.search((sql) => {
    const list = (status: Job['status']) =>
      listJobs(sql, customerId, { filters: { status }, paginate: { limit: 5 } }, allJobs);
    return Promise.all([list('PROCESSING'), list('PENDING'), listImports(sql, customerId, {}, allImports, userId)]);
  });
  const jobs = [...processing, ...pending];
  const unfinished = imports.filter(({ finished_at }) => finished_at === null);
  const cards = [
    ...unfinished.map((one) => card(`/app/imports/${one.id}`, titleOf(one), one, 'records')),
    ...jobs.map((job) => card(`/app/jobs/${job.id}`, jobWords[job.type], job, 'items')),
  ];
  return { cards, isLive: jobs.length > 0 || unfinished.some(({ status }) => !status.startsWith('UPLOAD')) };
}

const card = (path: string, title: string, one: Import | Job, noun: string): Html =>
  html`<section class="card">
    <p class="row"><a href="${path}">${title}</a> !${statusBadge(one.status)}</p>
    !${one.status === 'UPLOADED' ? html`<p>It waits for you: look at the preview, and start it.</p>` : progressBar(one, noun)}
  </section>`;

/** What needs a look. A dismissed concern stays hidden until its key changes. */
type Concern = readonly [key: string, text: Html];

const inDays = (days: number): string => new Date(Date.now() + days * dayMs).toISOString();

const failedImportDays = 7;

const lowShareOfGrant = 0.1;

const sources = [waitingCalls, failedImports, failingEndpoints, lowCredits, endingKeys];

const maxDismissed = 50;

const cookieOf = ({ server: { config } }: FastifyRequest) => ({
  name: `${isHttps(config.PUBLIC_URL) ? '__Host-' : ''}dismissed`,
  attributes: { ...sessionCookies(config).attributes, maxAge: (90 * dayMs) / 1000 },
});

const dismissedBy = (request: FastifyRequest): string[] =>
  (request.cookies[cookieOf(request).name] ?? '').split('.').filter((one) => /^[\w-]{12}$/.test(one));

/** Returns the concerns that the user has not dismissed, most urgent first. A form names a concern by its hash. */
async function concernsOf(request: FastifyRequest): Promise<Html> {
  const dismissed = new Set(dismissedBy(request));
  const found = (await Promise.all(sources.map((find) => find(request)))).flat();
  const items = found.map(([key, text]) => {
    const hash = createHash('sha256').update(`${request.caller.userId} ${key}`).digest('base64url').slice(0, 12);
    const body = html`!${hidden({ concern: hash })}<button class="link">Dismiss</button>`;
    const item = html`<li class="notice warning apart"><span>!${text}</span> !${form('/app/dismiss', body)}</li>`;
    return when(!dismissed.has(hash), item);
  });
  const list = html`<h2>Needs a look</h2>
    <ul class="items">
      !${items}
    </ul>`;
  return when(items.some(Boolean), list);
}

async function waitingCalls(request: FastifyRequest): Promise<Concern[]> {
  if (!isAdmin(request)) return [];
  const waiting = (await lookUp(request, listApprovals)).filter(({ status }) => status === 'pending');
  if (waiting.length === 0) return [];
  const text = html`<a href="/app/approvals">${counted(waiting.length, 'call')} of API keys</a>
    wait${waiting.length === 1 ? 's' : ''} for your approval.`;
  // A further call is shown again.
  return [[waiting.map(({ id }) => id).join(), text]];
}

async function failedImports(request: FastifyRequest): Promise<Concern[]> {
  const rows = await search(request, listImportedFiles, {}, request.caller.userId);
  const recent = rows.filter((one) => one.created_at >= inDays(-failedImportDays) && !one.dry_run);
  return recent.flatMap((one): Concern[] => {
    const left = one.status === 'COMPLETED' ? Math.max(0, one.failed - (one.second?.created ?? 0)) : 0;
    if (left === 0 && one.status !== 'FAILED') return [];
    const what = left === 0 ? 'could not be read' : `left out ${counted(left, 'record')}`;
    return [[one.id, html`!${link(titleOf(one), `/app/imports/${one.id}`)} ${what}.`]];
  });
}

async function failingEndpoints(request: FastifyRequest): Promise<Concern[]> {
  if (!isAdmin(request)) return [];
  return (await lookUp(request, listEndpoints)).flatMap((one): Concern[] => {
    const trouble = troubleOf(one);
    const text = html`The webhook !${link(one.url, pathOf(one))}: !${trouble}`;
    return trouble === '' ? [] : [[`${one.id} ${trouble}`, text]];
  });
}

async function lowCredits(request: FastifyRequest): Promise<Concern[]> {
  const [balances, grants] = await Promise.all([lookUp(request, findCredits), search(request, findLastGrants)]);
  const isLow = (pool: (typeof pools)[number]) => balances[pool].balance < (grants[pool] ?? 0) * lowShareOfGrant;
  return pools.filter(isLow).map((pool) => {
    const left = count(balances[pool].balance);
    const text = html`Only ${left} <a href="/app/credits">credits</a> are left ${poolWords[pool].purpose}.`;
    return [`${pool} ${grants[pool]}`, text] as const;
  });
}

async function endingKeys(request: FastifyRequest): Promise<Concern[]> {
  const keys = await lookUp(request, listApiKeys);
  const ending = keys.filter(({ status, expires_at }) => status === 'active' && expires_at < inDays(warningDays));
  return ending.map(({ id, name, expires_at }) => {
    return [`${id} ${expires_at}`, html`The key !${link(name, '/app/keys')} ends on !${date(expires_at)}.`] as const;
  });
}
