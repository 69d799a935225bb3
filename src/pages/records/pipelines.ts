import type { FastifyInstance, FastifyRequest } from 'fastify';
import { createPipeline, findPipelines, listPipelinesWithStages, salesStages } from '../../queries/crm/pipelines.ts';
import { updatePipeline, type NewStage } from '../../queries/crm/pipelines.ts';
import { usualCurrency } from '../../queries/crm/products.ts';
import { maxStages, PipelineCreate, PipelinePatch } from '../../schemas/opportunities.ts';
import type { Pipeline, StageStatus, Visibility } from '../../schemas/opportunities.ts';
import { statuses } from '../../plugins/error-handler.ts';
import { canonicalId } from '../../text/ids.ts';
import { fold } from '../../text/fold.ts';
import { forAdmins, addPage, listPage } from '../base/layout.ts';
import { differing, faultMark, faultText, textInput, select, controlsFor, hidden, rowAct } from '../base/forms.ts';
import { rowEditor } from '../base/forms.ts';
import { search, lookUp, fieldsOf, textsIn, values, rowsIn, integer, isAdmin, queryText } from '../base/requests.ts';
import type { Fields, Faults } from '../base/requests.ts';
import { currencyChoices } from '../base/words.ts';
import { card, sideBySide, pathWith, linkButton, html, link, type Html, type Column } from '../base/html.ts';
import { editor, nameTaken, requireRecord, type Draft, type EditForm } from './editor.ts';

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
    doubt: async (request, { name }: PipelinePatch, id) => {
      const all = await search(request, listPipelinesWithStages);
      const same = all.filter((one) => fold(one.name) === fold(name));
      return nameTaken('pipeline', section, same.some((one) => one.id === id) ? undefined : same[0]);
    },
    create: (sql, customerId, body: PipelineCreate) => createPipeline(sql, customerId, { ...body, description: '' }),
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

const members = ['id', 'name', 'probability_percentage', 'status'] as const;

type StageRow = Record<(typeof members)[number], string>;

const maxStageRows = 500;

const rowsOf = (fields: Fields): StageRow[] => rowsIn(fields, members, maxStageRows, 'stage_');

const hasPercent = (row: StageRow): boolean => /^(\d{1,2}|100)$/.test(row.probability_percentage);

const isFilled = (row: StageRow): boolean => row.id + row.name + row.probability_percentage !== '';

/** Returns the pipeline that a form describes, not validated yet. */
function pipelineOf(fields: Fields, stored: Pipeline | undefined): Draft {
  const rows = rowsOf(fields).filter(isFilled);
  // References by name ignore case and accents.
  const isRepeated =
    (member: 'id' | 'name') =>
    (row: StageRow, i: number): boolean =>
      row[member] !== '' && rows.findIndex((other) => fold(other[member]) === fold(row[member])) < i;
  const wrong = (member: keyof StageRow, message: string, isWrong: (row: StageRow, i: number) => boolean) =>
    rows.flatMap((row, i) => (isWrong(row, i) ? [{ path: `/stages/${i}/${member}`, message }] : []));
  const faults = [
    ...(rows.length === 0 ? [{ path: '/stages', message: 'a pipeline needs at least one stage' }] : []),
    ...wrong('name', 'give the stage a name, or remove it', ({ name }) => name === ''),
    ...wrong('name', 'another stage has this name: choose a different one, or remove it', isRepeated('name')),
    ...wrong('name', 'this stage stands twice: remove one of them', isRepeated('id')),
    ...wrong('probability_percentage', 'write a whole number from 0 to 100', (row) => !hasPercent(row)),
  ];
  const stages = rows.map(({ id, ...row }) => ({
    ...row,
    ...(canonicalId(id) === undefined ? {} : { id: canonicalId(id) }),
    probability_percentage: integer(row, 'probability_percentage'),
  }));
  const names = ['name', 'visibility', ...(stored ? [] : ['currency'])];
  return { body: { ...textsIn(fields, ...names), stages }, faults };
}

const draftOf = (stages: readonly (NewStage & { id?: string })[]): StageRow[] =>
  stages.map((stage) => ({ id: '', ...stage, probability_percentage: String(stage.probability_percentage) }));

/**
 * Returns the stages of a form that is shown again. Removes empty rows, because the indexes in faults skip them.
 * Keeps them while the user edits rows. After a conflict with `stored`, adds stages that others have added meanwhile or that cannot go, each in its
 * place, and leaves out those that others have deleted.
 */
function currentRows(sent: Fields, stored: Pipeline | undefined, isEdited: boolean): StageRow[] {
  const rows = rowsOf(sent).filter((row) => isEdited || isFilled(row));
  if (!stored) return rows;
  const known = values(sent, 'stage_id', maxStageRows);
  const kept = rows.filter(({ id }) => id === '' || stored.stages.some((stage) => stage.id === id));
  for (const [i, row] of draftOf(stored.stages).entries()) if (!known.includes(row.id)) kept.splice(i, 0, row);
  return kept;
}

async function controls(form: EditForm<Pipeline>, request: FastifyRequest): Promise<Html> {
  const { stored, sent, faults, status, doubt, isConflict } = form;
  const usual = stored ? '' : await lookUp(request, usualCurrency);
  const draft: Fields = sent ?? { name: stored?.name, visibility: stored?.visibility, currency: usual };
  const theirs =
    isConflict && stored && sent ? differing({ name: stored.name, visibility: stored.visibility }, sent) : {};
  const { input, choice } = controlsFor(draft, faults, theirs, ['name']);
  const current = isConflict || (status === statuses.conflict && !doubt) ? stored : undefined;
  const rows = sent ? currentRows(sent, current, rowAct(request) !== '') : draftOf(stored?.stages ?? salesStages);
  const blank: StageRow = { id: '', name: '', probability_percentage: '', status: 'OPEN' };
  const board = choice('visibility', 'Who sees its board', visibilityWords, stored && `In ${stored.currency}.`);
  const currency = stored ? '' : choice('currency', 'Currency', currencyChoices, 'Cannot be changed later.');
  return html`!${card(sideBySide(input('name', 'Name'), board, currency))}
    <h2>Stages</h2>
    <p class="quiet">
      Opportunities move through the stages from top to bottom. The board weights each value by the chance to win. A
      stage can be removed while no opportunity is in it.
    </p>
    !${faultText('stages', faults)}
    !${rowEditor(request, { label: 'Stages', noun: 'stage', columns: stageColumns(faults), rows, blank, most: maxStages, isLast: ({ status }) => status !== 'OPEN' })}`;
}

function stageColumns(faults: Faults): Column<StageRow>[] {
  const input =
    (member: 'name' | 'probability_percentage', label: string, more: Html) =>
    (row: StageRow, i: number): Html => {
      const fault = `stages-${i}-${member}`;
      const about = html`aria-label="${label} of stage ${i + 1}" !${more} !${faultMark(fault, faults)}`;
      return html`!${textInput(html`!${about} name="stage_${member}"`, row[member])} !${faultText(fault, faults)}`;
    };
  const isNow = (i: number): Html => html`name="stage_status" aria-label="Opportunities in stage ${i + 1} are"`;
  return [
    ['Order', ({ id }, i) => html`Stage ${i + 1} !${hidden({ stage_id: id })}`, 'row'],
    ['Name', input('name', 'Name', 'maxlength="255"'), 'long'],
    ['Chance to win, %', input('probability_percentage', 'Chance to win', 'inputmode="numeric"')],
    ['Opportunities here are', ({ status }, i) => select(isNow(i), statusWords, status)],
  ];
}
