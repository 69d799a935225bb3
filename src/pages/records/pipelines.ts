import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Fault } from '../../errors.ts';
import { sessionOf } from '../../plugins/auth.ts';
import {
  createPipeline,
  findPipelines,
  listPipelinesWithStages,
  salesStages,
  updatePipeline,
} from '../../queries/crm/pipelines.ts';
import { maxStages, PipelineCreate, PipelinePatch, stageStatuses, visibilities } from '../../schemas/opportunities.ts';
import type { Pipeline, StageStatus, Visibility } from '../../schemas/opportunities.ts';
import { etagOf, canonicalId } from '../../text/ids.ts';
import { fold } from '../../text/fold.ts';
import { forAdmins, goTo, sendPage } from '../base/layout.ts';
import { faultText, fieldsOf, hidden, inputField, integer, select, selectField, text, values } from '../base/forms.ts';
import type { Choice, Fields } from '../base/forms.ts';
import { html, linkButton, table, type Html } from '../base/html.ts';
import { editor, requireRecord, savedNotice, type EditForm } from './editor.ts';

const section = '/app/pipelines';

const visibilityWords: Readonly<Record<Visibility, string>> = { PUBLIC: 'everybody', PRIVATE: 'admins only' };

const statusWords: Readonly<Record<StageStatus, string>> = { OPEN: 'open', WON: 'won', LOST: 'lost' };

/**
 * Returns the pipelines that this user may choose.
 * @param stage id of a stage whose pipeline is always included
 */
export async function pipelinesFor(request: FastifyRequest, stage = ''): Promise<Pipeline[]> {
  const { db, caller } = request;
  const isAdmin = sessionOf(request).role === 'admin';
  const all = await db.search((sql) => listPipelinesWithStages(sql, caller.customerId));
  const isShown = ({ visibility, stages }: Pipeline): boolean =>
    isAdmin || visibility === 'PUBLIC' || stages.some(({ id }) => id === stage);
  return all.filter(isShown);
}

export async function pipelines(app: FastifyInstance): Promise<void> {
  app.get('/pipelines', forAdmins, async (request, reply) => {
    const rows = await pipelinesFor(request);
    return sendPage(request, reply, {
      title: 'Pipelines',
      actions: linkButton('New pipeline', `${section}/new`),
      body: html`!${savedNotice(request, 'pipeline')}
        <p class="lead">The stages through which opportunities pass, one board for each pipeline.</p>
        !${table<Pipeline>(
          'Pipelines',
          [
            ['Pipeline', ({ id, name }) => html`<a href="${section}/${id}/edit">${name}</a>`],
            ['Stages', ({ stages }) => html`${stages.map(({ name }) => name).join(' → ')}`, 'long'],
            ['Currency', ({ currency }) => html`${currency}`],
            ['Board of', ({ visibility }) => visibilityWords[visibility]],
          ],
          rows,
        )}`,
    });
  });

  app.get('/pipelines/:id', forAdmins, async (request, reply) =>
    goTo(reply, `${section}?done=${encodeURIComponent(text(request.query as Fields, 'done'))}`),
  );

  editor<Pipeline>(app, {
    path: section,
    noun: 'pipeline',
    access: forAdmins,
    schemas: { create: PipelineCreate, patch: PipelinePatch },
    require: (request) => requireRecord(request, 'pipeline', findPipelines),
    nameOf: ({ name }) => name,
    tagOf: etagOf,
    bodyOf: async (request, stored) => pipelineOf(fieldsOf(request), stored),
    controls,
    verb: 'Save',
    create: (sql, { customerId }, body: PipelineCreate) =>
      createPipeline(sql, customerId, { ...body, name: body.name.trim(), description: '' }),
    update: updatePipeline,
    showsNotice: true,
    back: () => section,
  });
}

interface StageRow {
  id: string;
  name: string;
  percent: string;
  status: string;
  place: string;
}

const emptyRows = 3;

/**
 * Maximum number of rows read from a form. The command line creates pipelines with more stages than a form may save.
 */
const maxRows = 500;

const members = ['id', 'name', 'percent', 'status', 'place'] as const;

function rowsOf(fields: Fields): StageRow[] {
  const given = members.map((member) => values(fields, `stage_${member}`, maxRows));
  return given[1]!
    .map((_, i) => Object.fromEntries(members.map((member, m) => [member, given[m]![i]?.trim() ?? ''])) as never)
    .filter(({ name }: StageRow) => name !== '');
}

/** Returns the body of a form, not validated yet. Sorts stages by their places. New stages without a place are last. */
function pipelineOf(fields: Fields, stored: Pipeline | undefined): { body: object; faults: Fault[] } {
  const rows = rowsOf(fields);
  const isPlace = ({ place }: StageRow): boolean => /^\d{0,4}$/.test(place);
  const placed = rows.toSorted((a, b) => Number(a.place || 1e4) - Number(b.place || 1e4));
  const faults = [
    ...(rows.length === 0 ? ['a pipeline needs a stage'] : []),
    // References by name ignore case and accents.
    ...rows
      .filter(({ name }, i) => rows.findIndex((other) => fold(other.name) === fold(name)) < i)
      .map(({ name }) => `${name}: another stage has this name`),
    ...rows.filter((row) => !isPlace(row)).map(({ name }) => `${name}: the order must be a whole number`),
    ...rows
      .filter(({ percent }) => !/^(\d{1,2}|100)$/.test(percent))
      .map(({ name }) => `${name}: give 0 to 100 per cent`),
  ].map((message) => ({ path: '/stages', message }));
  const stages = placed.map(({ id, name, percent, status }) => ({
    ...(canonicalId(id) === undefined ? {} : { id: canonicalId(id) }),
    name,
    probability_percentage: integer({ percent }, 'percent'),
    status,
  }));
  const body = {
    name: text(fields, 'name'),
    visibility: text(fields, 'visibility'),
    ...(stored ? {} : { currency: text(fields, 'currency').trim() }),
    stages,
  };
  return { body, faults };
}

const draftOf = (stages: readonly { id?: string; name: string; probability_percentage: number; status: string }[]) =>
  stages.map(({ id = '', name, probability_percentage, status }, i): StageRow => ({
    id,
    name,
    percent: String(probability_percentage),
    status,
    place: String(i + 1),
  }));

/**
 * Returns the stages of a form that is shown again. Adds the stages that others have added, and drops those that others
 * have removed.
 */
function currentRows(sent: Fields, stored: Pipeline | undefined): StageRow[] {
  const rows = rowsOf(sent);
  if (!stored) return rows;
  const known = values(sent, 'stage_id', maxRows);
  const kept = rows.filter(({ id }) => id === '' || stored.stages.some((stage) => stage.id === id));
  return [...kept, ...draftOf(stored.stages).filter(({ id }) => !known.includes(id))];
}

async function controls(
  _request: FastifyRequest,
  { stored, sent, refused: { faults } }: EditForm<Pipeline>,
): Promise<Html> {
  const draft: Fields = sent ?? (stored ? { name: stored.name, visibility: stored.visibility } : { currency: 'USD' });
  const rows = sent ? currentRows(sent, stored) : draftOf(stored?.stages ?? salesStages);
  const blank: StageRow = { id: '', name: '', percent: '50', status: 'OPEN', place: '' };
  const blanks = Math.max(0, Math.min(emptyRows, maxStages - rows.length));
  const shown = [...rows, ...Array.from({ length: blanks }, () => blank)];
  return html`<div class="card narrow">
      !${inputField({ name: 'name', label: 'Name', faults }, text(draft, 'name'))}
      !${
        stored
          ? html`<p class="quiet">Its prices are in ${stored.currency}.</p>`
          : inputField(
              { name: 'currency', label: 'Currency', hint: 'Such as EUR. It stays as it is.', faults },
              text(draft, 'currency'),
            )
      }
      !${selectField(
        { name: 'visibility', label: 'On the board of', faults },
        visibilities.map((one) => [one, visibilityWords[one]] as const),
        text(draft, 'visibility'),
      )}
    </div>
    <fieldset class="card">
      <legend>Stages</legend>
      <p class="quiet">
        In the order of their numbers. Empty a name to take a stage out: only one without opportunities can go. Whether
        a stage is won or lost holds for the opportunities that are in it, too.
      </p>
      !${faultText('stages', faults)}
      <div class="stage-row quiet" aria-hidden="true">
        <span>Order</span><span>Name</span><span>Likely, %</span><span>Means</span>
      </div>
      !${shown.map(stageRow)}
    </fieldset>`;
}

const statusChoices: readonly Choice[] = stageStatuses.map((one) => [one, statusWords[one]]);

const stageRow = ({ id, name, percent, status, place }: StageRow, i: number): Html =>
  html`<div class="stage-row">
    !${hidden({ stage_id: id })}
    <input type="text" name="stage_place" value="${place}" aria-label="Order of stage ${i + 1}" inputmode="numeric" />
    <input type="text" name="stage_name" value="${name}" aria-label="Name of stage ${i + 1}" maxlength="255" />
    <input
      type="text"
      name="stage_percent"
      value="${percent}"
      aria-label="Likelihood of stage ${i + 1}"
      inputmode="numeric"
    />
    !${select(html`name="stage_status" aria-label="What stage ${i + 1} means"`, statusChoices, status)}
  </div>`;
