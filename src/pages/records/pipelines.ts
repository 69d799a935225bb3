import type { FastifyInstance, FastifyRequest } from 'fastify';
import { createPipeline, findPipelines, listPipelinesWithStages, salesStages } from '../../queries/crm/pipelines.ts';
import { updatePipeline } from '../../queries/crm/pipelines.ts';
import { usualCurrency } from '../../queries/crm/products.ts';
import { maxStages, PipelineCreate, PipelinePatch } from '../../schemas/opportunities.ts';
import type { Pipeline, StageStatus, Visibility } from '../../schemas/opportunities.ts';
import { statuses } from '../../plugins/error-handler.ts';
import { canonicalId } from '../../text/ids.ts';
import { fold } from '../../text/fold.ts';
import { forAdmins, addPage, listPage } from '../base/layout.ts';
import { faultText, textInput, select, controlsFor, hidden, rowEditor } from '../base/forms.ts';
import { search, lookUp, fieldsOf, text, values, rowsIn, integer, isAdmin, queryText } from '../base/requests.ts';
import type { Fields } from '../base/requests.ts';
import { currencyChoices } from '../base/words.ts';
import { card, sideBySide, pathWith, linkButton, html, link, type Html, type Column } from '../base/html.ts';
import { editor, requireRecord, type Draft, type EditForm } from './editor.ts';

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
  ['Seen by', ({ visibility }) => visibilityWords[visibility]],
];

const members = ['id', 'name', 'percent', 'status'] as const;

type StageRow = Record<(typeof members)[number], string>;

const maxStageRows = 500;

const rowsOf = (fields: Fields): StageRow[] => rowsIn(fields, members, maxStageRows, 'stage_');

/** Returns the pipeline that a form describes, not validated yet. */
function pipelineOf(fields: Fields, stored: Pipeline | undefined): Draft {
  const rows = rowsOf(fields).filter(({ id, name, percent }) => id + name + percent !== '');
  const isRepeated =
    (member: 'id' | 'name') =>
    (row: StageRow, i: number): boolean =>
      row[member] !== '' && rows.findIndex((other) => fold(other[member]) === fold(row[member])) < i;
  const wrong = (message: string, isWrong: (row: StageRow, i: number) => boolean) =>
    rows.filter(isWrong).map(({ name }) => `${name}: ${message}`);
  const faults = [
    ...(rows.length === 0 ? ['a pipeline needs a stage'] : []),
    ...(rows.some(({ name }) => name === '') ? ['give each stage a name'] : []),
    // References by name ignore case and accents.
    ...wrong('another stage has this name', isRepeated('name')),
    ...wrong('this stage stands twice', isRepeated('id')),
    ...wrong('give 0 to 100 per cent', ({ percent }) => !/^(\d{1,2}|100)$/.test(percent)),
  ].map((message) => ({ path: '/stages', message }));
  const stages = rows.map(({ id, name, percent, status }) => ({
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
  stages.map(({ id = '', probability_percentage, ...row }): StageRow => {
    return { ...row, id, percent: String(probability_percentage) };
  });

/**
 * Returns the stages of a form that is shown again. After a conflict with `stored`, adds stages that others have added
 * meanwhile or that cannot go, each in its place, and leaves out those that others have deleted.
 */
function currentRows(sent: Fields, stored: Pipeline | undefined): StageRow[] {
  const rows = rowsOf(sent);
  if (!stored) return rows;
  const known = values(sent, 'stage_id', maxStageRows);
  const kept = rows.filter(({ id }) => id === '' || stored.stages.some((stage) => stage.id === id));
  for (const [i, row] of draftOf(stored.stages).entries()) if (!known.includes(row.id)) kept.splice(i, 0, row);
  return kept;
}

async function controls(form: EditForm<Pipeline>, request: FastifyRequest): Promise<Html> {
  const { stored, sent, faults, status } = form;
  const draft: Fields =
    sent ??
    (stored
      ? { name: stored.name, visibility: stored.visibility }
      : { currency: await lookUp(request, usualCurrency) });
  const { input, choice } = controlsFor(draft, faults, {}, ['name']);
  const current = status < statuses.conflict ? undefined : stored;
  const rows = sent ? currentRows(sent, current) : draftOf(stored?.stages ?? salesStages);
  const blank: StageRow = { id: '', name: '', percent: '', status: 'OPEN' };
  const board = choice('visibility', 'Who sees its board', visibilityWords, stored && `In ${stored.currency}.`);
  const currency = stored ? '' : choice('currency', 'Currency', currencyChoices, 'A pipeline keeps its currency.');
  return html`!${card(sideBySide(input('name', 'Name'), board, currency))}
    <h2>Stages</h2>
    <p class="quiet">
      Opportunities pass through them from top to bottom. A stage can be removed when no opportunity is in it. All in a
      stage count as open, won or lost with it.
    </p>
    !${faultText('stages', faults)}
    !${rowEditor(request, { label: 'Stages', noun: 'stage', columns: stageColumns, rows, blank, most: maxStages, isLast: ({ status }) => status !== 'OPEN' })}`;
}

const stageInput =
  (member: 'name' | 'percent', label: string, more: Html = 'inputmode="numeric"') =>
  (row: StageRow, i: number): Html =>
    textInput(html`aria-label="${label} of stage ${i + 1}" !${more} name="stage_${member}"`, row[member]);

const stageColumns: readonly Column<StageRow>[] = [
  ['Name', stageInput('name', 'Name', 'maxlength="255"'), 'long'],
  ['Likely, %', stageInput('percent', 'Likelihood', 'inputmode="numeric" pattern="\\d{1,2}|100" title="0 to 100"')],
  [
    'Counts as',
    ({ id, status }, i) =>
      html`!${hidden({ stage_id: id })}
      !${select(html`name="stage_status" aria-label="What stage ${i + 1} counts as"`, statusWords, status)}`,
  ],
];
