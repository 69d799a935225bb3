import type { FastifyInstance, FastifyRequest } from 'fastify';
import { countCompanies } from '../../queries/crm/companies.ts';
import { countContacts } from '../../queries/crm/contacts.ts';
import { allImports, listImports } from '../../queries/imports/imports.ts';
import { findCredits, listDailyCharges } from '../../queries/jobs/credits.ts';
import { listJobs } from '../../queries/jobs/job-views.ts';
import { pools, type Pool } from '../../schemas/credits.ts';
import type { Import } from '../../schemas/imports.ts';
import { finalStatuses, allJobs, type Job } from '../../schemas/jobs.ts';
import { forMembers } from '../base/access.ts';
import { count, html, moment, type Html } from '../base/html.ts';
import { sendPage } from '../base/layout.ts';
import { picture } from '../base/pictures.ts';
import { jobWords, poolWords } from '../base/words.ts';
import { progressBar, statusBadge } from '../base/progress.ts';
import { concernsOf } from './attention.ts';

/** The first page after the login: how many records and credits there are, which work runs, and what a user must look at. */
export async function start(app: FastifyInstance): Promise<void> {
  app.get('/', forMembers, async (request, reply) => {
    const [figures, running, concerns] = await Promise.all([
      figuresOf(request),
      runningOf(request),
      concernsOf(request),
    ]);
    return sendPage(request, reply, {
      title: 'Start',
      section: '/app',
      isLive: running !== '',
      body: html`!${figures} !${attention(concerns)}
        <h2>Under way</h2>
        !${
          running === ''
            ? html`<p class="quiet">No job and no import is running.</p>`
            : html`<div data-live>!${running}</div>`
        }`,
    });
  });
}

async function figuresOf({ db, caller: { customerId } }: FastifyRequest): Promise<Html> {
  const [contacts, companies, credits, spent] = await Promise.all([
    countContacts(db, customerId, {}),
    countCompanies(db, customerId, {}),
    db.lookup((sql) => findCredits(sql, customerId)),
    db.search((sql) => spentThisMonth(sql, customerId)),
  ]);
  const records = [
    { name: 'Contacts', path: '/app/contacts', number: contacts.pagination.total_records },
    { name: 'Companies', path: '/app/companies', number: companies.pagination.total_records },
  ];
  return html`<div class="figures">
    !${records.map(({ name, path, number }) => figure(name, path, number, ''))}
    !${pools.map((pool) => {
      const note = `left; ${count(spent.get(pool) ?? 0)} spent this month`;
      return figure(`Credits for ${poolWords[pool].word.toLowerCase()}`, '/app/credits', credits[pool].balance, note);
    })}
  </div>`;
}

const figure = (name: string, path: string, number: number, note: string): Html =>
  html`<section class="card">
    <h2><a href="${path}">${name}</a></h2>
    <p class="figure">${count(number)}</p>
    !${note === '' ? '' : html`<p class="quiet">${note}</p>`}
  </section>`;

/** Returns the credits spent since the first day of the month (UTC), by pool. */
async function spentThisMonth(sql: Parameters<typeof listDailyCharges>[0], customerId: string) {
  const charges = await listDailyCharges(sql, customerId, new Date().getUTCDate());
  const spent = new Map<Pool, number>();
  for (const { pool, amount } of charges) spent.set(pool, (spent.get(pool) ?? 0) + amount);
  return spent;
}

const attention = (concerns: readonly Html[]): Html =>
  html`<h2>Needs a look</h2>
    !${
      concerns.length === 0
        ? html`<p class="all-well">!${picture('done')} Nothing. All is well.</p>`
        : html`<ul class="concerns">
            !${concerns.map((concern) => html`<li>!${concern}</li>`)}
          </ul>`
    }`;

/** Returns the jobs and imports that have not ended, or an empty string. */
async function runningOf({ db, caller: { customerId } }: FastifyRequest): Promise<Html> {
  const [processing, pending, imports] = await db.search((sql) => {
    const unfinished = (status: Job['status']) =>
      listJobs(sql, customerId, { filters: { status }, paginate: { limit: 5 } }, allJobs);
    return Promise.all([unfinished('PROCESSING'), unfinished('PENDING'), listImports(sql, customerId, {}, allImports)]);
  });
  const isFinal = ({ status }: Import) => (finalStatuses as readonly string[]).includes(status);
  const cards = [
    ...imports
      .filter((one) => !isFinal(one))
      .map((one) => card(`/app/imports/${one.id}`, one.name || `Import of ${one.object}`, one, 'records')),
    ...[...processing, ...pending].map((job) => card(`/app/jobs/${job.id}`, jobWords[job.type], job, 'items')),
  ];
  return cards.length === 0 ? '' : html`<div class="running">!${cards}</div>`;
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
