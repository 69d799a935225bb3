import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { findCompanies } from '../../queries/crm/companies.ts';
import { findContacts } from '../../queries/crm/contacts.ts';
import { listOpportunities, updateOpportunity } from '../../queries/sales/opportunities.ts';
import { listPipelinesWithStages } from '../../queries/sales/pipelines.ts';
import { selectStages } from '../../queries/sales/stages.ts';
import { OpportunityPatch, type Opportunity } from '../../schemas/opportunities.ts';
import type { Pipeline, StageListItem } from '../../schemas/pipelines.ts';
import { canonicalId } from '../../text/ids.ts';
import { compile } from '../../validation/validator.ts';
import { forMembers } from '../base/access.ts';
import {
  doneNotice,
  fieldsOf,
  filterChoice,
  hidden,
  idOf,
  queryOf,
  requireValid,
  select,
  text,
} from '../base/forms.ts';
import { badge, buttons, count, day, empty, facts, html, linkButton, moment, table, type Html } from '../base/html.ts';
import { form, goTo, sendForm, sendPage } from '../base/layout.ts';
import { money } from '../base/values.ts';
import { opportunityWords, priorityWords } from '../base/words.ts';
import { nameOfContact } from '../records/contact-kind.ts';
import { editLinks } from '../records/editor.ts';
import { opportunityEdit, requireOpportunity } from './opportunity-edit.ts';
import { usersOf } from '../records/record-edit.ts';

const section = '/app/opportunities';

/** Of each stage. */
const newest = 25;

/** The board of opportunities, a column for each stage, and the page of one. */
export async function opportunities(app: FastifyInstance): Promise<void> {
  const check = compile(OpportunityPatch);

  app.get('/opportunities', forMembers, async (request, reply) => {
    const { db, caller } = request;
    const pipelines = await db.search((sql) => listPipelinesWithStages(sql, caller.customerId));
    const chosen = pipelines.find(({ id }) => id === text(queryOf(request), 'pipeline')) ?? pipelines[0];
    if (!chosen)
      return sendPage(request, reply, {
        title: 'Opportunities',
        section,
        body: empty(
          'No pipeline yet',
          'Whoever runs this service creates pipelines with the command line.',
          '',
          'deal',
        ),
      });
    const columns = await columnsOf(request, chosen);
    return sendPage(request, reply, {
      title: 'Opportunities',
      section,
      actions: linkButton('New opportunity', `${section}/new`),
      body: html`!${doneNotice(request)}!${pipelines.length > 1 ? chooser(pipelines, chosen) : ''}
        <div class="board" role="region" aria-label="Stages" tabindex="0">
          !${columns.map((column) => columnOf(chosen, column))}
        </div>`,
    });
  });

  opportunityEdit(app);

  app.get('/opportunities/:id', forMembers, async (request, reply) => showOne(request, reply));

  app.get('/opportunities/:id/move', forMembers, async (request, reply) => {
    const found = await requireOpportunity(request);
    const { stages, id } = await pipelineOf(request, found);
    return sendForm(request, reply, {
      title: `Move ${found.name}`,
      section,
      action: `${section}/${found.id}/move`,
      body: html`!${hidden({ pipeline: id })}
        <label>${opportunityWords.stage_id} !${stageChoice(stages, found)}</label>
        !${buttons('Move', boardOf(id), 'Leave it there')}`,
      isNarrow: true,
    });
  });

  app.post('/opportunities/:id/move', forMembers, async (request, reply) => {
    const { db, caller } = request;
    const id = idOf(request, 'opportunity');
    const fields = fieldsOf(request);
    const given = text(fields, 'stage_id');
    const patch = { stage_id: canonicalId(given) ?? given };
    requireValid(check, patch);
    await db.transaction((sql) => updateOpportunity(sql, caller.customerId, id, patch));
    const pipeline = text(fields, 'pipeline');
    return goTo(reply, pipeline === '' ? `${section}/${id}` : boardOf(pipeline));
  });
}

const boardOf = (pipeline: string): string => `${section}?pipeline=${encodeURIComponent(pipeline)}`;

interface Column {
  stage: StageListItem;
  rows: Opportunity[];
}

const columnsOf = async ({ db, caller }: FastifyRequest, { id }: Pipeline): Promise<Column[]> =>
  db.search(async (sql) => {
    const stages = await selectStages(sql, caller.customerId, id, { limit: 100 });
    const query = (stage_id: string) => ({ filters: { stage_id }, paginate: { limit: newest } });
    return Promise.all(
      stages.map(async (stage) => ({ stage, rows: await listOpportunities(sql, caller.customerId, query(stage.id)) })),
    );
  });

const chooser = (pipelines: readonly Pipeline[], chosen: Pipeline): Html =>
  html`<form class="filters" method="get" action="${section}">
    !${filterChoice(
      'pipeline',
      'Pipeline',
      pipelines.map(({ id, name }) => [id, name] as const),
      chosen.id,
    )}
    <div class="filter-buttons"><button class="secondary">Show</button></div>
  </form>`;

function columnOf(pipeline: Pipeline, { stage, rows }: Column): Html {
  const { total_opportunities: total, name, probability_percentage } = stage;
  return html`<section class="column">
    <h2>${name} <span class="quiet">${count(total)}</span></h2>
    <p class="quiet">${probability_percentage} %</p>
    !${rows.map((row) => cardOf(pipeline, row))}
    !${total > rows.length ? html`<p class="quiet">and ${count(total - rows.length)} older ones</p>` : ''}
  </section>`;
}

/** Moving has a page of its own: a choice in each card made the board three times as large. */
function cardOf({ currency }: Pipeline, { id, name, price, priority, estimated_closing_date }: Opportunity): Html {
  return html`<article class="deal">
    <h3><a href="${section}/${id}">${name}</a></h3>
    <p>
      <strong>${money(price, currency)}</strong>
      !${priority === 'NONE' ? '' : badge(priorityWords[priority].word, priorityWords[priority].tone)}
    </p>
    <p class="below">
      <span class="quiet">!${day(estimated_closing_date)}</span>
      <a href="${section}/${id}/move" data-dialog aria-label="Move ${name}">Move</a>
    </p>
  </article>`;
}

const stageChoice = (stages: Pipeline['stages'], { name, stage_id }: Opportunity): Html =>
  select(
    html`name="stage_id" aria-label="Stage of ${name}"`,
    stages.map((stage) => [stage.id, stage.name] as const),
    stage_id,
  );

/** Returns a form that moves an opportunity to another stage, and leads back to its page. */
function moveForm(request: FastifyRequest, reply: FastifyReply, { stages }: Pipeline, one: Opportunity): Html {
  const body = html`!${stageChoice(stages, one)}
    <button class="secondary outline" aria-label="Move ${one.name}">Move</button>`;
  return form(request, reply, { action: `${section}/${one.id}/move`, body, attributes: 'class="inline-form move"' });
}

async function pipelineOf({ db, caller }: FastifyRequest, { stage_id }: Opportunity): Promise<Pipeline> {
  const pipelines = await db.search((sql) => listPipelinesWithStages(sql, caller.customerId));
  return pipelines.find(({ stages }) => stages.some(({ id }) => id === stage_id))!;
}

async function showOne(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
  const { db, caller } = request;
  const found = await requireOpportunity(request);
  const { contacts_ids, company_id, details, description, priority } = found;
  const [pipeline, contacts, companies, users] = await Promise.all([
    pipelineOf(request, found),
    db.search((sql) => findContacts(sql, caller.customerId, contacts_ids.slice(0, 100))),
    company_id === null ? [] : db.lookup((sql) => findCompanies(sql, caller.customerId, [company_id])),
    usersOf(request),
  ]);
  const [company] = companies;
  const lines = details.map(
    ({ name, price, quantity, total }) =>
      html`<tr>
        <td>${name}</td>
        <td class="number">${money(price, pipeline.currency)}</td>
        <td class="number">${count(quantity)}</td>
        <td class="number">${money(total, pipeline.currency)}</td>
      </tr>`,
  );
  return sendPage(request, reply, {
    title: found.name,
    section,
    actions: editLinks(`${section}/${found.id}`),
    body: html`!${description === '' ? '' : html`<p class="lead">${description}</p>`}
      <div class="card">
        !${facts([
          [opportunityWords.price, html`<strong>${money(found.price, pipeline.currency)}</strong>`],
          [opportunityWords.stage_id, moveForm(request, reply, pipeline, found)],
          [opportunityWords.priority, badge(priorityWords[priority].word, priorityWords[priority].tone)],
          [
            opportunityWords.company_id,
            company ? html`<a href="/app/companies/${company.id}">${company.company_name}</a>` : '–',
          ],
          [
            opportunityWords.user_id_assigned,
            html`${users.find(({ id }) => id === found.user_id_assigned)?.name ?? '–'}`,
          ],
          [opportunityWords.estimated_closing_date, day(found.estimated_closing_date)],
          [opportunityWords.close_date, day(found.close_date)],
          [opportunityWords.source_id, html`${found.source_id ?? '–'}`],
          [opportunityWords.created_at, moment(found.created_at)],
          [opportunityWords.updated_at, moment(found.updated_at)],
        ])}
      </div>
      <h2>${opportunityWords.contacts_ids}</h2>
      !${
        contacts.length === 0
          ? html`<p class="quiet">None.</p>`
          : html`<ul>
              !${contacts.map((one) => html`<li><a href="/app/contacts/${one.id}">${nameOfContact(one)}</a></li>`)}
            </ul>`
      }
      <h2>${opportunityWords.details}</h2>
      !${lines.length === 0 ? html`<p class="quiet">None.</p>` : table('Products', ['Product', 'Price', 'Quantity', 'Total'], lines)}`,
  });
}
