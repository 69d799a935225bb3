import type { FastifyInstance, FastifyRequest } from 'fastify';
import { createPipeline, findPipelines, listPipelinesWithStages, salesStages } from '../../queries/crm/pipelines.ts';
import { updatePipeline } from '../../queries/crm/pipelines.ts';
import { maxStages, PipelineCreate, PipelinePatch } from '../../schemas/opportunities.ts';
import type { Pipeline, StageStatus, Visibility } from '../../schemas/opportunities.ts';
import { canonicalId } from '../../text/ids.ts';
import { fold } from '../../text/fold.ts';
import { forAdmins, addPage, listPage } from '../base/layout.ts';
import { faultText, textInput, select, controlsFor, hidden, withBlanks } from '../base/forms.ts';
import { search, fieldsOf, text, values, rowsIn, integer, isAdmin, queryText, type Fields } from '../base/requests.ts';
import { table, card, sideBySide, pathWith, linkButton, html, link, type Html, type Column } from '../base/html.ts';
import { editor, requireRecord, savedTexts, type Draft, type EditForm } from './editor.ts';

const section = '/app/pipelines';

const visibilityWords: Readonly<Record<Visibility, string>> = { PUBLIC: 'everybody', PRIVATE: 'admins only' };

const statusWords: Readonly<Record<StageStatus, string>> = { OPEN: 'open', WON: 'won', LOST: 'lost' };

/**
 * Returns the pipelines that this user may choose, the oldest first.
 * @param stage id of a stage whose pipeline is always included
 */
export async function pipelinesFor(request: FastifyRequest, stage = ''): Promise<Pipeline[]> {
  const isShown = ({ visibility, stages }: Pipeline): boolean =>
    isAdmin(request) || visibility === 'PUBLIC' || stages.some(({ id }) => id === stage);
  return (await search(request, listPipelinesWithStages)).filter(isShown).toReversed();
}

export async function pipelines(app: FastifyInstance): Promise<void> {
  addPage(app, '/pipelines', forAdmins, async (request) =>
    listPage({
      title: 'Pipelines',
      done: savedTexts('pipeline'),
      add: linkButton('New pipeline', `${section}/new`),
      above: '<p class="lead">The stages through which opportunities pass, one board for each pipeline.</p>',
      columns,
      rows: await pipelinesFor(request),
    }),
  );

  addPage(app, '/pipelines/:id', forAdmins, (request) => pathWith(section, { done: queryText(request, 'done') }));

  editor<Pipeline>(app, {
    path: section,
    noun: 'pipeline',
    access: forAdmins,
    schemas: { create: PipelineCreate, patch: PipelinePatch },
    about: (request) => requireRecord(request, 'pipeline', findPipelines),
    nameOf: ({ name }) => name,
    bodyOf: (request, stored) => pipelineOf(fieldsOf(request), stored),
    controls,
    create: (sql, customerId, body: PipelineCreate) =>
      createPipeline(sql, customerId, { ...body, name: body.name.trim(), description: '' }),
    update: updatePipeline,
    back: () => section,
  });
}

const columns: readonly Column<Pipeline>[] = [
  ['Pipeline', ({ id, name }) => link(name, `${section}/${id}/edit`)],
  ['Stages', ({ stages }) => html`${stages.map(({ name }) => name).join(' → ')}`, 'long'],
  ['Currency', ({ currency }) => html`${currency}`],
  ['Board of', ({ visibility }) => visibilityWords[visibility]],
];

const members = ['id', 'name', 'percent', 'status', 'place'] as const;

type StageRow = Record<(typeof members)[number], string>;

const maxStageRows = 500;

const rowsOf = (fields: Fields): StageRow[] =>
  rowsIn(fields, members, maxStageRows, 'stage_').filter(({ name }) => name !== '');

/**
 * Returns the pipeline that a form describes, not validated yet. Sorts stages by their place. New stages without a
 * place come last.
 */
function pipelineOf(fields: Fields, stored: Pipeline | undefined): Draft {
  const rows = rowsOf(fields);
  const isPlace = ({ place }: StageRow): boolean => /^\d{0,4}$/.test(place);
  const placed = rows.toSorted((a, b) => Number(a.place || 1e4) - Number(b.place || 1e4));
  const isTaken = ({ name }: StageRow, i: number): boolean =>
    rows.findIndex((other) => fold(other.name) === fold(name)) < i; // references by name ignore case and accents
  const wrong = (message: string, isWrong: (row: StageRow, i: number) => boolean) =>
    rows.filter(isWrong).map(({ name }) => `${name}: ${message}`);
  const faults = [
    ...(rows.length === 0 ? ['a pipeline needs a stage'] : []),
    ...wrong('another stage has this name', isTaken),
    ...wrong('the order must be a whole number', (row) => !isPlace(row)),
    ...wrong('give 0 to 100 per cent', ({ percent }) => !/^(\d{1,2}|100)$/.test(percent)),
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
 * Returns the stages of a form that is shown again. Adds stages that others have added meanwhile, and leaves out those
 * that others have deleted.
 */
function currentRows(sent: Fields, stored: Pipeline | undefined): StageRow[] {
  const rows = rowsOf(sent);
  if (!stored) return rows;
  const known = values(sent, 'stage_id', maxStageRows);
  const kept = rows.filter(({ id }) => id === '' || stored.stages.some((stage) => stage.id === id));
  return [...kept, ...draftOf(stored.stages).filter(({ id }) => !known.includes(id))];
}

function controls({ stored, sent, faults }: EditForm<Pipeline>): Html {
  const draft: Fields = sent ?? (stored ? { name: stored.name, visibility: stored.visibility } : { currency: 'USD' });
  const { input, choice } = controlsFor(draft, faults);
  const rows = sent ? currentRows(sent, stored) : draftOf(stored?.stages ?? salesStages);
  const currency = input('currency', 'Currency', { hint: 'Such as EUR. It stays as it is.' });
  const blank: StageRow = { id: '', name: '', percent: '50', status: 'OPEN', place: '' };
  const board = choice('visibility', 'On the board of', visibilityWords, stored && `In ${stored.currency}.`);
  return html`!${card(sideBySide(input('name', 'Name'), board, stored ? '' : currency))}
    <p class="quiet">
      Stages stand in the order of their numbers. Empty a name to take a stage out: only one without opportunities can
      go. Whether a stage is won or lost holds for the opportunities that are in it, too.
    </p>
    !${faultText('stages', faults)} !${table('Stages', stageColumns, withBlanks(rows, blank, maxStages))}`;
}

const stageInput =
  (member: 'place' | 'name' | 'percent', label: string, more: Html = 'inputmode="numeric"') =>
  (row: StageRow, i: number): Html =>
    textInput(html`aria-label="${label} of stage ${i + 1}" !${more} name="stage_${member}"`, row[member]);

const stageColumns: readonly Column<StageRow>[] = [
  ['Name', stageInput('name', 'Name', 'maxlength="255"'), 'long'],
  ['Order', stageInput('place', 'Order')],
  ['Likely, %', stageInput('percent', 'Likelihood')],
  [
    'Means',
    ({ id, status }, i) =>
      html`!${hidden({ stage_id: id })}
      !${select(html`name="stage_status" aria-label="What stage ${i + 1} means"`, statusWords, status)}`,
  ],
];
