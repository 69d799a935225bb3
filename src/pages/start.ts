import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { createHash } from 'node:crypto';
import { listActivities } from '../queries/crm/activities.ts';
import { countCompanies } from '../queries/crm/companies.ts';
import { countContacts } from '../queries/crm/contacts.ts';
import { listChanges, findRecords } from '../queries/history/history.ts';
import { findListNames } from '../queries/crm/lists.ts';
import { allImports, listImports } from '../queries/jobs/imports.ts';
import { findCredits, findLastGrants } from '../queries/jobs/credits.ts';
import { listJobs } from '../queries/jobs/jobs.ts';
import { listOpportunities } from '../queries/crm/opportunities.ts';
import { listPipelinesWithStages } from '../queries/crm/pipelines.ts';
import { type Change, eventNouns } from '../schemas/events.ts';
import type { Condition } from '../schemas/filters.ts';
import type { Import } from '../schemas/imports.ts';
import { finalStatuses, allJobs, type Job, pools } from '../schemas/jobs.ts';
import { activityNotices, subjectsOf, taskList } from './records/activities.ts';
import { forMembers, form, goTo, sendPage } from './base/layout.ts';
import { dayOf, endOf, count, counted, day, html, linkButton, moment, picture, date, workplace } from './base/html.ts';
import type { Html, PictureName } from './base/html.ts';
import { doneNotice, hidden, fieldsOf, text } from './base/forms.ts';
import { progressBar, statusBadge, money, jobWords, poolWords } from './base/words.ts';
import { usersOf } from './records/record-form.ts';
import { nameOf, oldNameOf, plurals, recordPaths, whoOf } from './changes.ts';
import { sessionOf, isHttps, sessionCookies } from '../plugins/auth.ts';
import { listApiKeys } from '../queries/accounts/api-keys.ts';
import { listApprovals } from '../queries/accounts/approvals.ts';
import { listEndpoints } from '../queries/accounts/webhook-endpoints.ts';
import { pathOf, troubleOf } from './webhooks.ts';

/**
 * Adds the first page after the login. It shows what a person has to do, what colleagues and programs did, and
 * problems. For a new customer, it shows first steps.
 */
export async function start(app: FastifyInstance): Promise<void> {
  app.get('/', forMembers, async (request, reply) => {
    const { db, caller } = request;
    const [contacts, companies, credits] = await Promise.all([
      countContacts(db, caller.customerId, {}),
      countCompanies(db, caller.customerId, {}),
      db.lookup((sql) => findCredits(sql, caller.customerId)),
    ]);
    const [people, firms] = [contacts.pagination.total_records, companies.pagination.total_records];
    const [concerns, running] = await Promise.all([concernsOf(request), runningOf(request)]);
    const isNew = people + firms === 0;
    const [tasks, deals, latest] = isNew
      ? [firstSteps, '', '']
      : await Promise.all([tasksOf(request, reply), dealsOf(request), latestOf(request)]);
    const underWay = html`<h2>Under way</h2>
      <div class="running" !${running.isLive ? 'data-live' : ''}>!${running.cards}</div>`;
    return sendPage(request, reply, {
      title: 'Today',
      lead: html`<a href="/app/contacts">${counted(people, 'contact')}</a> ·
        <a href="/app/companies">${counted(firms, 'company', 'companies')}</a> ·
        <a href="/app/credits">${count(credits.subscription.balance)} credits</a> to unlock prospects,
        ${count(credits.verification.balance)} to verify`,
      isLive: running.isLive,
      body: html`!${doneNotice(request, activityNotices)}
      !${workplace(
        html`!${tasks} !${deals}`,
        'What happened',
        html`!${concerns.length === 0 ? '' : attention(request, reply, concerns)}
        !${running.cards.length === 0 ? '' : underWay} !${latest}`,
      )}`,
    });
  });

  app.post('/dismiss', forMembers, async (request, reply) => {
    dismiss(request, reply);
    return goTo(reply, '/app');
  });
}

const step = (title: string, text: string, path: string, label: string, drawing: PictureName): Html =>
  html`<li class="card">
    !${picture(drawing)}
    <div>
      <h2>${title}</h2>
      <p>${text}</p>
      !${linkButton(label, path)}
    </div>
  </li>`;

const firstSteps: Html = html`<h2>First steps</h2>
  <ol class="steps">
    !${step('Bring your contacts in', 'An Excel or CSV file, as it is. You see what is read before anything is stored.', '/app/imports/new', 'Import a file', 'file')}
    !${step('Find new people', 'Search the catalog, and unlock those whom you want to reach.', '/app/prospects', 'Search prospects', 'search')}
    !${step('Write down what you know', 'Create a contact, note your last call, and set a task.', '/app/contacts/new', 'New contact', 'people')}
  </ol>`;

const tasksShown = 50;

async function tasksOf(request: FastifyRequest, reply: FastifyReply): Promise<Html> {
  const { db, caller } = request;
  const list = async (due_at: Condition) =>
    (
      await listActivities(db, caller.customerId, {
        filters: { type: 'task', is_done: false, assigned_to: caller.userId, due_at },
        order_by: { due_at: 'ASC' },
        paginate: { limit: tasksShown },
      })
    ).rows;
  const until = endOf(dayOf(new Date().toISOString()));
  const [due, undated, users] = await Promise.all([list({ lte: until }), list(null), usersOf(request)]);
  const names = await subjectsOf(request, [...due, ...undated]);
  // They are all of the same person.
  const shown = { users: users.filter(({ id }) => id !== caller.userId), names, back: '/app' };
  const part = (title: string, tasks: typeof due, none: string) =>
    html`<h2>${title}</h2>
      !${tasks.length === 0 ? html`<p class="quiet">${none}</p>` : taskList(request, reply, tasks, shown)}
      !${tasks.length === tasksShown ? html`<p class="quiet">The first ${tasksShown} are shown.</p>` : ''}`;
  return html`!${part('To do today', due, 'Nothing is due. Set a task on the page of a contact, a company or an opportunity.')}
  !${undated.length === 0 ? '' : part('Without a day', undated, '')}`;
}

async function dealsOf({ db, caller: { customerId, userId } }: FastifyRequest): Promise<Html> {
  const now = new Date();
  const lt = new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1)).toISOString();
  const pipelines = await db.search((sql) => listPipelinesWithStages(sql, customerId));
  const open = pipelines.flatMap(({ currency, stages }) =>
    stages.filter(({ status }) => status === 'OPEN').map((stage) => ({ ...stage, currency })),
  );
  const filters = { user_id_assigned: userId, stage_id: open.map(({ id }) => id), estimated_closing_date: { lt } };
  const order_by = { estimated_closing_date: 'ASC' };
  const found = await listOpportunities(db, customerId, { filters, order_by, paginate: { limit: dealsShown + 1 } });
  const rows = found.rows.map((one) => ({ ...one, stage: open.find(({ id }) => id === one.stage_id)! }));
  const today = dayOf(now.toISOString());
  return html`<h2>My opportunities that close this month</h2>
    !${
      rows.length === 0
        ? html`<p class="quiet">None.</p>`
        : html`<ul class="tasks">
            !${rows.slice(0, dealsShown).map(
              ({ id, name, price, stage, estimated_closing_date: closes }) =>
                html`<li>
                  <div>
                    <a href="/app/opportunities/${id}">${name}</a>
                    <span class="quiet">
                      ${stage.name} · ${money(price, stage.currency)} ·
                      <span class="${dayOf(closes) < today ? 'late' : ''}">closes !${day(closes)}</span>
                    </span>
                  </div>
                </li>`,
            )}
          </ul>`
    }
    !${rows.length > dealsShown ? html`<p><a href="/app/opportunities?owner=${userId}">All of mine</a></p>` : ''}`;
}

const dealsShown = 10;

/** Number of journal entries read for the latest changes. */
const latestRead = 100;
const latestShown = 12;

async function latestOf(request: FastifyRequest): Promise<Html> {
  const { db, caller } = request;
  const [{ changes }, users] = await Promise.all([
    listChanges(db, caller.customerId, eventNouns, { limit: latestRead }),
    usersOf(request),
  ]);
  const others = changes.filter(({ actor }) => !(actor?.type === 'user' && actor.id === caller.userId));
  const acts = Object.values(
    Object.groupBy(others, ({ change_id, object, type, position }) => `${change_id ?? position} ${object} ${type}`),
  ).slice(0, latestShown) as Change[][];
  const single = acts.flatMap((act) => (act.length === 1 && act[0]!.type !== 'deleted' ? act : []));
  const found = await Promise.all(
    eventNouns.map(async (noun) => {
      const ids = [...new Set(single.flatMap(({ object, record_id }) => (object === noun ? [record_id] : [])))];
      if (ids.length === 0) return [];
      return noun === 'list'
        ? findListNames(db, caller.customerId, ids)
        : findRecords(db, caller.customerId, noun, ids);
    }),
  );
  const records = new Map(found.flat().map((record) => [record.id, record]));
  return html`<h2>Latest</h2>
    !${acts.length === 0 ? html`<p class="quiet">Nobody else has changed anything yet.</p>` : ''}
    <ul class="latest">
      !${acts.map((act) => {
        const [{ actor, type, object, record_id, change_id, occurred_at }] = act as [Change];
        const record = records.get(record_id);
        const what =
          act.length > 1
            ? html`<a href="/app/changes/${change_id}"
                >${act.length === latestRead ? `many ${plurals[object]}` : counted(act.length, object, plurals[object])}</a
              >`
            : record === undefined
              ? html`${type === 'deleted' ? oldNameOf(act[0]!) : object}`
              : linkTo(recordPaths[object], record_id, nameOf(object, record));
        return html`<li>
          <span><strong>!${whoOf(actor, users)}</strong> ${type} !${what}</span>
          <span class="quiet">!${moment(occurred_at)}</span>
        </li>`;
      })}
    </ul>`;
}

const linkTo = (path: string | undefined, id: string, name: string): Html =>
  path === undefined ? html`${name}` : html`<a href="${path}/${id}">${name}</a>`;

const attention = (
  request: FastifyRequest,
  reply: FastifyReply,
  concerns: Awaited<ReturnType<typeof concernsOf>>,
): Html =>
  html`<h2>Needs a look</h2>
    <ul class="concerns">
      !${concerns.map(
        ([name, text]) =>
          html`<li>
            <span>!${text}</span>
            !${form(request, reply, {
              action: '/app/dismiss',
              attributes: 'class="inline-form"',
              body: html`!${hidden({ concern: name })}<button class="link">Dismiss</button>`,
            })}
          </li>`,
      )}
    </ul>`;

/** Returns the jobs and imports that have not ended. `isLive` is true if one of them changes without this person. */
async function runningOf({ db, caller: { customerId } }: FastifyRequest): Promise<{ cards: Html[]; isLive: boolean }> {
  const [processing, pending, imports] = await db.search((sql) => {
    const list = (status: Job['status']) =>
      listJobs(sql, customerId, { filters: { status }, paginate: { limit: 5 } }, allJobs);
    return Promise.all([list('PROCESSING'), list('PENDING'), listImports(sql, customerId, {}, allImports)]);
  });
  const jobs = [...processing, ...pending];
  const unfinished = imports.filter(({ status }) => !(finalStatuses as readonly string[]).includes(status));
  const cards = [
    ...unfinished.map((one) => card(`/app/imports/${one.id}`, one.name || `Import of ${one.object}`, one, 'records')),
    ...jobs.map((job) => card(`/app/jobs/${job.id}`, jobWords[job.type], job, 'items')),
  ];
  return { cards, isLive: jobs.length > 0 || unfinished.some(({ status }) => !status.startsWith('UPLOAD')) };
}

const card = (path: string, title: string, one: Import | Job, noun: string): Html =>
  html`<section class="card">
    <div class="heading">
      <h3><a href="${path}">${title}</a></h3>
      !${statusBadge(one.status)}
    </div>
    !${one.status === 'UPLOADED' ? html`<p>It waits for you: look at the preview, and start it.</p>` : progressBar(one, noun)}
    <p class="quiet">Begun !${moment(one.created_at)}</p>
  </section>`;

interface Concern {
  /** Identifies the concern as long as it stays the same. */
  key: string;
  text: Html;
}

const keptConcern = (request: FastifyRequest, { key }: Concern): string =>
  createHash('sha256').update(`${request.caller.userId} ${key}`).digest('base64url').slice(0, 12);

const dayMs = 24 * 60 * 60 * 1000;

/** A warning appears this number of days before an API key expires. */
const keyDays = 14;

/** Number of days for which an import with failures is shown. */
const importDays = 7;

/** Credits are low below this share of the last grant. */
const lowShare = 0.1;

const sources: readonly ((request: FastifyRequest) => Promise<Concern[]>)[] = [
  waitingCalls,
  failedImports,
  failingEndpoints,
  lowCredits,
  endingKeys,
];

const maxDismissed = 50;

const cookieOf = ({ server: { config } }: FastifyRequest) => ({
  name: `${isHttps(config.PUBLIC_URL) ? '__Host-' : ''}dismissed`,
  attributes: { ...sessionCookies(config).attributes, maxAge: (90 * dayMs) / 1000 },
});

const dismissedBy = (request: FastifyRequest): string[] =>
  (request.cookies[cookieOf(request).name] ?? '').split('.').filter((one) => /^[\w-]{12}$/.test(one));

export function dismiss(request: FastifyRequest, reply: FastifyReply): void {
  const { name, attributes } = cookieOf(request);
  const kept = [...dismissedBy(request), text(fieldsOf(request), 'concern')].slice(-maxDismissed);
  void reply.setCookie(name, kept.join('.'), attributes);
}

/** Returns all concerns that were not dismissed, most urgent first. Each has its name in the form. */
async function concernsOf(request: FastifyRequest): Promise<(readonly [name: string, text: Html])[]> {
  const dismissed = new Set(dismissedBy(request));
  const found = (await Promise.all(sources.map((find) => find(request)))).flat();
  return found
    .map((concern) => [keptConcern(request, concern), concern.text] as const)
    .filter(([name]) => !dismissed.has(name));
}

async function waitingCalls(request: FastifyRequest): Promise<Concern[]> {
  if (sessionOf(request).role !== 'admin') return [];
  const calls = await request.db.lookup((sql) => listApprovals(sql, request.caller.customerId));
  const waiting = calls.filter(({ status }) => status === 'pending');
  if (waiting.length === 0) return [];
  const text = html`<a href="/app/approvals">${counted(waiting.length, 'call')} of API keys</a>
    wait${waiting.length === 1 ? 's' : ''} for your approval.`;
  // A further call is shown again.
  return [{ key: waiting.map(({ id }) => id).join(), text }];
}

async function failedImports({ db, caller }: FastifyRequest): Promise<Concern[]> {
  const rows = await db.search((sql) => listImports(sql, caller.customerId, {}, allImports));
  const since = new Date(Date.now() - importDays * dayMs).toISOString();
  const failed = rows.filter(
    ({ status, failed, dry_run, created_at }) =>
      created_at >= since && !dry_run && (status === 'FAILED' || (status === 'COMPLETED' && failed > 0)),
  );
  return failed.map(({ id, name, object, status, failed }) => {
    const what = status === 'FAILED' ? 'could not be read' : `left out ${counted(failed, 'record')}`;
    return { key: id, text: html`<a href="/app/imports/${id}">${name || `Import of ${object}`}</a> ${what}.` };
  });
}

async function failingEndpoints(request: FastifyRequest): Promise<Concern[]> {
  if (sessionOf(request).role !== 'admin') return [];
  const endpoints = await request.db.lookup((sql) => listEndpoints(sql, request.caller.customerId));
  return endpoints
    .filter((endpoint) => troubleOf(endpoint) !== '')
    .map((endpoint) => ({
      key: `${endpoint.id} ${troubleOf(endpoint)}`,
      text: html`The webhook <a href="${pathOf(endpoint)}">${endpoint.url}</a>: !${troubleOf(endpoint)}`,
    }));
}

async function lowCredits({ db, caller: { customerId } }: FastifyRequest): Promise<Concern[]> {
  const [balances, grants] = await Promise.all([
    db.lookup((sql) => findCredits(sql, customerId)),
    db.search((sql) => findLastGrants(sql, customerId)),
  ]);
  const isLow = (pool: (typeof pools)[number]) => balances[pool].balance < (grants[pool] ?? 0) * lowShare;
  return pools.filter(isLow).map((pool) => {
    const left = count(balances[pool].balance);
    const text = html`Only ${left} <a href="/app/credits">credits</a> are left ${poolWords[pool].purpose}.`;
    return { key: `${pool} ${grants[pool]}`, text };
  });
}

async function endingKeys({ db, caller }: FastifyRequest): Promise<Concern[]> {
  const keys = await db.lookup((sql) => listApiKeys(sql, caller.customerId));
  const until = new Date(Date.now() + keyDays * dayMs).toISOString();
  return keys
    .filter(({ status, expires_at }) => status === 'active' && expires_at < until)
    .map(({ id, name, expires_at }) => ({
      key: `${id} ${expires_at}`,
      text: html`The key <a href="/app/keys">${name}</a> ends on !${date(expires_at)}.`,
    }));
}
