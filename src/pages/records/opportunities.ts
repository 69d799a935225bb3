import type { FastifyInstance, FastifyRequest } from 'fastify';
import { findCompanies } from '../../queries/crm/companies.ts';
import { findContacts } from '../../queries/crm/contacts.ts';
import { listOpportunities, sumByStage, opportunityWrites } from '../../queries/crm/opportunities.ts';
import { listPipelinesWithStages } from '../../queries/crm/pipelines.ts';
import { OpportunityPatch, type Opportunity, type Pipeline } from '../../schemas/opportunities.ts';
import type { User } from '../../schemas/accounts.ts';
import { etagOf, canonicalId } from '../../text/ids.ts';
import { forMembers, addPage, withUndo, formRoutes, type Page, type FormPage } from '../base/layout.ts';
import { form, select, filters, filterChoice, showButton, hidden, undoButton, type Choice } from '../base/forms.ts';
import { lookUp, search, write, fieldsOf, text, queryText, ask, requireValid, type Refused } from '../base/requests.ts';
import { when, badge, notice, empty, quiet, panel, plainList, workplace, pathWith } from '../base/html.ts';
import { linkButton, dialogLink, buttons, html, link, day, count, type Html } from '../base/html.ts';
import { isAmount, opportunityWords, priorityWords, money } from '../base/words.ts';
import { wordOf } from '../changes.ts';
import { recordPage, workplaceOf } from './activities.ts';
import { closingField } from './deals.ts';
import { companyLink, nameOfContact } from './kinds.ts';
import { viewLinks } from './record-list.ts';
import { editLinks, usersOf, userChoices } from './editor.ts';
import { pipelinesFor } from './pipelines.ts';
import { closing, opportunityEdit, requireOpportunity } from './opportunity-form.ts';

const section = '/app/opportunities';

const shownPerStage = 25;

const noDeals = 'No opportunities yet. Write down what you hope to sell, to whom and by when.';

export async function opportunities(app: FastifyInstance): Promise<void> {
  addPage(app, '/opportunities', forMembers, async (request) => {
    const { caller } = request;
    const pipelines = await pipelinesFor(request);
    const [asked, by] = [queryText(request, 'pipeline'), queryText(request, 'owner')];
    const chosen = pipelines.find(({ id }) => id === asked) ?? pipelines[0];
    const none = 'An admin makes one, with the stages through which your opportunities pass.';
    if (!chosen) return { title: 'Opportunities', body: empty('No pipeline yet', none, 'deal') };
    const users = await usersOf(request);
    const owner = users.find(({ id }) => id === by)?.id ?? '';
    const columns = await columnsOf(request, chosen, owner);
    const ids = columns.flatMap(({ rows }) => rows.flatMap(({ company_id }) => company_id ?? []));
    const companies = await lookUp(request, findCompanies, [...new Set(ids)]);
    const names = new Map(companies.map(({ id, company_name }) => [id, company_name]));
    const board = { pipeline: chosen, owner, users, companies: names };
    const [open, closed] = [true, false].map((isOpen) =>
      columns.filter(({ stage }) => (stage.status === 'OPEN') === isOpen).map((column) => columnOf(board, column)),
    );
    const given = pipelines.length > 1 && canonicalId(asked) === chosen.id ? { pipeline: chosen.id } : {};
    const shown = new URLSearchParams({ ...given, ...(owner === '' ? {} : { owner }) });
    const choices = pipelines.map(({ id, name }) => [id, name] as const);
    const owners: Choice[] = [['', 'everybody'], ...userChoices(users, owner).slice(1)];
    const mine = linkButton('Mine', boardOf(chosen.id, caller.userId), 'secondary outline');
    return {
      title: 'Opportunities',
      lead: totalsOf(chosen, columns),
      actions: linkButton('New opportunity', pathWith(`${section}/new`, given)),
      body: html`!${movedNotice(request, pipelines)} !${await viewLinks(request, 'opportunities', shown)}
        !${filters(
          section,
          html`!${when(choices.length > 1, filterChoice('pipeline', 'Pipeline', choices, chosen.id))}
          !${filterChoice('owner', 'Owner', owners, owner)}`,
          html`!${showButton} !${when(owner !== caller.userId, mine)}`,
        )}
        !${when(!columns.some(({ total }) => total > 0), notice(owner === '' ? noDeals : 'None of this owner.', 'plain'))}
        <nav class="row jump" aria-label="Stages">
          !${columns.map(({ stage, total }) => html`<a href="#${stage.id}">${stage.name} ${count(total)}</a>`)}
        </nav>
        <div class="board" role="region" aria-label="Stages" tabindex="0" data-board>
          !${open}
          <div>!${closed}</div>
        </div>
        !${form(section, hidden({ pipeline: chosen.id, owner, from: '', stage_id: '' }), 'data-moving hidden')}`,
    };
  });

  opportunityEdit(app);

  recordPage(app, '/opportunities/:id', showOne);

  formRoutes(app, '/opportunities/:id/move', forMembers, { show: showMove, act: move });

  async function showMove(request: FastifyRequest): Promise<FormPage> {
    const found = await requireOpportunity(request);
    const { stages, id } = pipelineOf(await search(request, listPipelinesWithStages), found);
    return {
      title: `Move ${found.name}`,
      body: html`!${hidden({ pipeline: id, owner: queryText(request, 'owner'), from: found.stage_id })}
        <label>${opportunityWords.stage_id} !${stageChoice(stages, found)}</label>
        !${buttons('Move', boardOf(id, queryText(request, 'owner')), 'Leave it there')}`,
      isNarrow: true,
    };
  }

  async function move(request: FastifyRequest): Promise<string> {
    const found = await requireOpportunity(request);
    const fields = fieldsOf(request);
    const [given, from, pipeline] = [text(fields, 'stage_id'), text(fields, 'from'), text(fields, 'pipeline')];
    const stage_id = canonicalId(given) ?? given;
    const pipelines = await search(request, listPipelinesWithStages);
    const patch = { stage_id, ...closing(pipelines, stage_id, found.close_date) };
    requireValid(OpportunityPatch, patch);
    const back = pipeline === '' ? `${section}/${found.id}` : boardOf(pipeline, text(fields, 'owner'));
    if (patch.stage_id === found.stage_id) return back;
    if (from !== '' && from !== found.stage_id) return pathWith(back, { elsewhere: found.stage_id });
    await write(request, opportunityWrites.update, found.id, patch, etagOf(found));
    return withUndo(request, pathWith(back, { done: stage_id }));
  }
}

/** Returns the message after a move. It names the stage, in which somebody else may have put it meanwhile. */
function movedNotice(request: FastifyRequest, pipelines: readonly Pipeline[]): Html {
  const names = new Map(pipelines.flatMap(({ stages }) => stages.map(({ id, name }) => [id, name] as const)));
  const nameIn = (parameter: string): string | undefined => names.get(queryText(request, parameter));
  const [moved, elsewhere] = [nameIn('done'), nameIn('elsewhere')];
  if (moved) return notice(`It is moved to ${moved}.`, 'good', undoButton(request));
  return elsewhere ? notice(`Somebody else has moved it to ${elsewhere} meanwhile. It was left there.`, 'warning') : '';
}

const boardOf = (pipeline: string, owner = ''): string => pathWith(section, { pipeline, owner });

/** Board of a pipeline. It shows the opportunities of one owner, or of everybody if `owner` is empty. */
type Board = { pipeline: Pipeline; owner: string; users: readonly User[]; companies: ReadonlyMap<string, string> };

type Column = { stage: Pipeline['stages'][number]; total: number; price: number; rows: Opportunity[] };

async function columnsOf(request: FastifyRequest, { stages }: Pipeline, owner: string): Promise<Column[]> {
  const of = (stage_id: string | string[]) => ({ stage_id, ...(owner === '' ? {} : { user_id_assigned: owner }) });
  const sums = await search(request, sumByStage, of(stages.map(({ id }) => id)));
  return Promise.all(
    stages.map(async (stage) => {
      const { total, price } = sums.find(({ stage_id }) => stage_id === stage.id) ?? { total: 0, price: 0 };
      if (total === 0) return { stage, total, price, rows: [] };
      const query = { filters: of(stage.id), paginate: { limit: shownPerStage } };
      const { rows } = await ask(request, listOpportunities, query);
      return { stage, total, price, rows };
    }),
  );
}

const weighted = ({ stage, price }: Column): number => (price * stage.probability_percentage) / 100;

const sum = (values: readonly number[]): number => values.reduce((all, one) => all + one, 0);

function totalsOf({ currency }: Pipeline, columns: readonly Column[]): Html {
  const open = columns.filter(({ stage }) => stage.status === 'OPEN');
  return html`Open: <strong>${whole(sum(open.map(({ price }) => price)), currency)}</strong> ·
    ${whole(sum(open.map(weighted)), currency)} by likelihood`;
}

const whole = (amount: number, currency: string): string => money(Math.round(amount), currency).replace(/\.00$/, '');

function columnOf(board: Board, column: Column): Html {
  const { stage, total, price, rows } = column;
  const { currency } = board.pipeline;
  const head = html`<h2>${stage.name} <span class="quiet">${count(total)}</span></h2>`;
  const sums = html`<p class="quiet">
    ${whole(price, currency)}
    !${when(stage.status === 'OPEN', html`<br />${whole(weighted(column), currency)} at ${stage.probability_percentage} %`)}
  </p>`;
  const cards = html`!${rows.map((row) => cardOf(board, stage, row))}
  !${when(total > rows.length, quiet(`and ${count(total - rows.length)} older ones`))}`;
  return stage.status === 'OPEN'
    ? html`<section class="column" id="${stage.id}" data-stage="${stage.id}">!${head} !${sums} !${cards}</section>`
    : html`<details class="column" id="${stage.id}" data-stage="${stage.id}">
        <summary class="row apart"><div>!${head} !${sums}</div></summary>
        !${cards}
      </details>`;
}

const priorityBadge = (priority: Opportunity['priority']): Html =>
  when(priority !== 'NONE', badge(priorityWords[priority].word, priorityWords[priority].tone));

/**
 * Returns the card of an opportunity. Moving it has a page of its own, because a select in each card tripled the size
 * of the board.
 */
function cardOf({ pipeline, owner, users, companies }: Board, stage: Column['stage'], one: Opportunity): Html {
  const { id, name, price, priority, company_id, user_id_assigned } = one;
  const person = owner === '' ? users.find((user) => user.id === user_id_assigned)?.name : undefined;
  const letters = person?.split(' ').map(([letter]) => letter) ?? [];
  const company = companies.get(company_id ?? '');
  return html`<section class="deal" draggable="true" data-id="${id}">
    <h3><a href="${section}/${id}">${name}</a></h3>
    !${when(company, quiet(company!))}
    <p class="row apart"><strong>${whole(price, pipeline.currency)}</strong> !${priorityBadge(priority)}</p>
    <p class="row apart">
      <span class="quiet" title="${person ?? ''}">
        !${day(one[closingField(stage)])} ${when(letters.length > 0, '· ')}${letters.join('')}
      </span>
      !${dialogLink('Move', pathWith(`${section}/${id}/move`, { owner }), `Move ${name}`)}
    </p>
  </section>`;
}

const stageChoice = (stages: Pipeline['stages'], { name, stage_id }: Opportunity): Html =>
  select(
    html`name="stage_id" aria-label="Stage of ${name}"`,
    stages.map((stage) => [stage.id, stage.name] as const),
    stage_id,
  );

function moveForm({ stages }: Pipeline, one: Opportunity): Html {
  const body = html`!${hidden({ from: one.stage_id })}
    <div role="group">
      !${stageChoice(stages, one)} <button class="secondary outline" aria-label="Move ${one.name}">Move</button>
    </div>`;
  return form(`${section}/${one.id}/move`, body);
}

const pipelineOf = (pipelines: readonly Pipeline[], { stage_id }: Opportunity): Pipeline =>
  pipelines.find(({ stages }) => stages.some(({ id }) => id === stage_id))!;

const outcomes = { OPEN: 'expected to close', WON: badge('won', 'good'), LOST: badge('lost', 'bad') };

async function showOne(request: FastifyRequest, refused: Refused): Promise<Page> {
  const found = await requireOpportunity(request);
  const { contacts_ids, company_id, details, description, priority } = found;
  const [pipelines, contacts, [company], users] = await Promise.all([
    pipelinesFor(request, found.stage_id),
    search(request, findContacts, contacts_ids.slice(0, 100)),
    company_id === null ? [] : lookUp(request, findCompanies, [company_id]),
    usersOf(request),
  ]);
  const pipeline = pipelineOf(pipelines, found);
  const stage = pipeline.stages.find(({ id }) => id === found.stage_id)!;
  const stageNames = pipelines.flatMap(({ id, name, stages }) =>
    stages.map((one) => [one.id, id === pipeline.id ? one.name : `${one.name} (${name})`] as const),
  );
  const [first, ...others] = contacts_ids;
  const here = `${section}/${found.id}`;
  const happened = await workplaceOf(request, {
    id: found.id,
    path: here,
    refused,
    filters: { opportunity_id: found.id },
    about: { opportunity_id: found.id, company_id, contact_id: others.length === 0 ? (first ?? null) : null },
    telling: { wordOf: (name) => wordOf('opportunity', name), users, stages: new Map(stageNames) },
  });
  const people = contacts.map((one) => link(nameOfContact(one), `/app/contacts/${one.id}`));
  const lines = details.map((line) => {
    const sum = html`<span class="quiet">${count(line.quantity)} × ${money(line.price, pipeline.currency)} =</span>`;
    return html`${line.name} !${when(!isAmount(line), sum)} <strong>${money(line.total, pipeline.currency)}</strong>`;
  });
  if (lines.length > 1) lines.push(html`Total: <strong>${money(found.price, pipeline.currency)}</strong>`);
  const chance = html`${stage.name}, ${stage.probability_percentage} % likely`;
  const lead = [
    html`<strong>${money(found.price, pipeline.currency)}</strong>`,
    companyLink({ company }),
    when(stage.status === 'OPEN', chance),
    html`!${outcomes[stage.status]} !${day(found[closingField(stage)])}`,
    html`${users.find(({ id }) => id === found.user_id_assigned)?.name ?? ''}`,
    priorityBadge(priority),
  ];
  const beside = html`!${when(description, panel(opportunityWords.description, html`<p class="text">${description}</p>`))}
  !${panel(opportunityWords.contacts_ids, plainList(people, 'None.'))}
  !${panel(opportunityWords.details, plainList(lines, 'None.'))}`;
  return {
    status: refused.status,
    title: found.name,
    lead: lead.filter((part) => part !== '').join(' · '),
    actions: html`!${moveForm(pipeline, found)} !${editLinks(here)}`,
    body: html`!${movedNotice(request, [pipeline])} !${workplace(happened, 'About this opportunity', beside)}`,
  };
}
