import type { Queryable, Sql, Transaction } from '../../database/db.ts';
import { findByIds, type FindRecords } from '../records/finders.ts';
import type { Pipeline, PipelineListItem, StageStatus, Visibility } from '../../schemas/pipelines.ts';
import { stageProjection } from './stages.ts';

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
  /** In the order in which an opportunity passes through them. */
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
    values (${customerId}, ${given.name}, ${given.description}, ${given.currency}, ${given.visibility})
    returning id`;
  const stages = given.stages.map((stage, index) => ({ ...stage, position: index + 1 }));
  await sql`
    insert into stages (customer_id, pipeline_id, position, name, probability_percentage, status)
    select ${customerId}, ${pipeline.id}, position, name, probability_percentage, status
    from jsonb_to_recordset(${sql.json(stages)})
      as given (position integer, name text, probability_percentage integer, status text)`;
  return pipeline.id;
}

/** Newest first, without visibility, stages and times. */
export const listPipelines = (sql: Sql, customerId: string): Promise<PipelineListItem[]> =>
  sql<PipelineListItem[]>`
    select ${listProjection(sql)}
    from pipelines p
    where p.customer_id = ${customerId}
    order by p.id desc`;

/** In any order, without unknown ids. */
export const findPipelines: FindRecords<Pipeline> = (sql, customerId, ids) =>
  findByIds(
    sql,
    ids,
    sql`
      select ${projection(sql, customerId)}
      from pipelines p
      where p.customer_id = ${customerId}
        and p.id = wanted.id`,
  );

export const listPipelinesWithStages = (sql: Queryable, customerId: string): Promise<Pipeline[]> =>
  sql<Pipeline[]>`
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
