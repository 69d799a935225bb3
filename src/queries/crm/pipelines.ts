import type { Database, Queryable, Sql, Transaction } from '../../database/db.ts';
import { conflict, notFound } from '../../errors.ts';
import type {
  StageListItem,
  StageQuery,
  Pipeline,
  PipelineListItem,
  PipelinePatch,
  StageStatus,
  Visibility,
} from '../../schemas/opportunities.ts';
import type { Column } from '../../filters/columns.ts';
import { limitAndOffset, readPage, finderOf } from '../records/finders.ts';
import type { RecordPage, PageOrCursor, UpdateRecord } from '../records/finders.ts';
import { requireMatch } from '../../text/ids.ts';
import { countOpportunities } from './opportunities.ts';

const stageProjection = (sql: Queryable) => sql`
  s.id,
  s.name,
  s.position as "order",
  s.pipeline_id,
  s.probability_percentage,
  s.status`;

const position: Column = { type: 'integer', value: 'position', raw: 'position', required: true };

export const listStages = (
  db: Database,
  customerId: string,
  { pipeline_id, paginate }: StageQuery,
): Promise<RecordPage<StageListItem>> =>
  readPage(
    {
      list: ['stages', pipeline_id],
      customerId,
      columns: [position],
      positionOf: (stage) => ({ id: stage.id, values: [stage.order] }),
    },
    paginate,
    (after) =>
      db.search((sql) => selectStages(sql, customerId, pipeline_id, paginate, after?.values[0] as number | undefined)),
  );

async function selectStages(
  sql: Sql,
  customerId: string,
  pipeline_id: string,
  paginate: PageOrCursor = {},
  after = -1,
): Promise<StageListItem[]> {
  const [[pipeline], stages] = await Promise.all([
    sql`
      select id
      from pipelines
      where customer_id = ${customerId}
        and id = ${pipeline_id}`,
    // One pass over the opportunities: counted for each stage alone, PostgreSQL may scan all of them for each.
    sql<StageListItem[]>`
      with page as materialized (
        select ${stageProjection(sql)}
        from stages s
        where s.customer_id = ${customerId}
          and s.pipeline_id = ${pipeline_id}
          and s.position > ${after}
        order by s.position
        ${limitAndOffset(sql, paginate)}
      ),
      used as materialized (
        select o.stage_id, count(*) as opportunities
        from opportunities o
        where o.customer_id = ${customerId}
          and o.stage_id = any(array(select id from page))
        group by o.stage_id
      )
      select page.*, coalesce(used.opportunities, 0) as total_opportunities
      from page
      left join used on used.stage_id = page.id
      order by page."order"`,
  ]);
  if (!pipeline) throw notFound('pipeline', ['/pipeline_id']);
  return stages;
}

export interface NewStage {
  name: string;
  probability_percentage: number;
  status: StageStatus;
}

interface NewPipeline {
  name: string;
  description: string;
  currency: string;
  visibility: Visibility;
  stages: readonly NewStage[];
}

export const salesStages: readonly NewStage[] = [
  { name: 'Lead', probability_percentage: 10, status: 'OPEN' },
  { name: 'Qualified', probability_percentage: 25, status: 'OPEN' },
  { name: 'Proposal', probability_percentage: 50, status: 'OPEN' },
  { name: 'Negotiation', probability_percentage: 75, status: 'OPEN' },
  { name: 'Won', probability_percentage: 100, status: 'WON' },
  { name: 'Lost', probability_percentage: 0, status: 'LOST' },
];

export async function createPipeline(sql: Transaction, customerId: string, given: NewPipeline): Promise<string> {
  const [pipeline] = await sql<[{ id: string }]>`
    insert into pipelines (customer_id, name, description, currency, visibility)
    values (${customerId}, ${given.name}, ${given.description}, upper(${given.currency}), ${given.visibility})
    returning id`;
  await insertStages(sql, customerId, pipeline.id, withPositions(given.stages));
  return pipeline.id;
}

const withPositions = <Stage extends NewStage>(stages: readonly Stage[]): (Stage & { position: number })[] =>
  stages.map((stage, index) => ({ ...stage, name: stage.name.trim(), position: index + 1 }));

const insertStages = (
  sql: Transaction,
  customerId: string,
  pipelineId: string,
  stages: readonly (NewStage & { position: number })[],
) => sql`
  insert into stages (customer_id, pipeline_id, position, name, probability_percentage, status)
  select ${customerId}, ${pipelineId}, position, name, probability_percentage, status
  from jsonb_to_recordset(${sql.json(stages as never)})
    as given (position integer, name text, probability_percentage integer, status text)`;

/**
 * Changes a pipeline and its stages.
 * @throws DomainError `not_found`, also for a stage; `precondition_failed` if `ifMatch` is not the current ETag;
 *   `conflict` if a stage to delete has opportunities
 */
export const updatePipeline: UpdateRecord<PipelinePatch> = async (sql, customerId, id, patch, ifMatch) => {
  const [locked] = await sql`
    select id
    from pipelines
    where customer_id = ${customerId}
      and id = ${id}
    for no key update`;
  const [current] = await findPipelines(sql, customerId, [id]);
  if (!locked || !current) throw notFound('pipeline');
  requireMatch(ifMatch, current);
  const stages = withPositions(patch.stages);
  const [kept, added] = [stages.filter((one) => one.id !== undefined), stages.filter((one) => one.id === undefined)];
  if (kept.some((one) => !current.stages.some((stage) => stage.id === one.id))) throw notFound('stage');
  for (const { id: stage_id, name } of current.stages.filter((stage) => kept.every((one) => one.id !== stage.id))) {
    const used = await countOpportunities(sql, customerId, { stage_id });
    // A foreign key refuses those that come meanwhile.
    if (used > 0) throw conflict(`“${name}” has opportunities (${used}). Move them to another stage first`);
  }
  await sql`
    update pipelines
    set name = ${patch.name.trim()}, visibility = ${patch.visibility}, updated_at = (select clock_timestamp())
    where customer_id = ${customerId}
      and id = ${id}`;
  await sql`
    delete from stages
    where customer_id = ${customerId}
      and pipeline_id = ${id}
      and id <> all(${kept.map((stage) => stage.id!)}::uuid[])`;
  // Two stages cannot have one position, not even between the rows of one update.
  await sql`
    update stages
    set position = -position
    where customer_id = ${customerId}
      and pipeline_id = ${id}`;
  await sql`
    update stages s
    set
      position = given.position,
      name = given.name,
      probability_percentage = given.probability_percentage,
      status = given.status,
      updated_at = (select clock_timestamp())
    from jsonb_to_recordset(${sql.json(kept)})
      as given (id uuid, position integer, name text, probability_percentage integer, status text)
    where s.customer_id = ${customerId}
      and s.pipeline_id = ${id}
      and s.id = given.id`;
  await insertStages(sql, customerId, id, added);
};

export const listPipelines = (sql: Sql, customerId: string): Promise<PipelineListItem[]> => sql`
  select ${listProjection(sql)}
  from pipelines p
  where p.customer_id = ${customerId}
  order by p.id desc`;

export const findPipelines = finderOf<Pipeline>(
  (sql, customerId) => sql`
    select ${projection(sql, customerId)}
    from pipelines p
    where p.customer_id = ${customerId}
      and p.id = wanted.id`,
);

export const listPipelinesWithStages = (sql: Queryable, customerId: string): Promise<Pipeline[]> => sql`
  select ${projection(sql, customerId)}
  from pipelines p
  where p.customer_id = ${customerId}
  order by p.id desc`;

const listProjection = (sql: Queryable) => sql`
  p.id,
  p.name,
  p.description,
  p.currency,
  p.active`;

const projection = (sql: Queryable, customerId: string) => sql`
  ${listProjection(sql)},
  p.visibility,
  (
    select coalesce(json_agg(stage order by stage."order"), '[]')
    from (
      select ${stageProjection(sql)}
      from stages s
      where s.customer_id = ${customerId}
        and s.pipeline_id = p.id
    ) stage
  ) as stages,
  p.created_at,
  p.updated_at`;
