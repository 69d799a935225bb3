import type { Sql, Transaction } from '../db.ts';
import type { Pipeline, PipelineListItem, StageStatus, Visibility } from '../schemas/pipelines.ts';
import { stageProjection } from './stages.ts';

export interface NewStage {
  name: string;
  probability_percentage: number;
  status: StageStatus;
}

export interface NewPipeline {
  name: string;
  description: string;
  /** Upper case. */
  currency: string;
  visibility: Visibility;
  /** In the order they are passed through. */
  stages: readonly NewStage[];
}

/** The stages that a pipeline has when nobody says otherwise. */
export const salesStages: readonly NewStage[] = [
  { name: 'Lead', probability_percentage: 10, status: 'OPEN' },
  { name: 'Qualified', probability_percentage: 25, status: 'OPEN' },
  { name: 'Proposal', probability_percentage: 50, status: 'OPEN' },
  { name: 'Negotiation', probability_percentage: 75, status: 'OPEN' },
  { name: 'Won', probability_percentage: 100, status: 'WON' },
  { name: 'Lost', probability_percentage: 0, status: 'LOST' },
];

/** A pipeline with its stages, numbered from 1. */
export async function insertPipeline(sql: Transaction, customerId: string, given: NewPipeline): Promise<string> {
  const [pipeline] = await sql<[{ id: string }]>`
    insert into pipelines (customer_id, name, description, currency, visibility)
    values (${customerId}, ${given.name}, ${given.description}, ${given.currency}, ${given.visibility})
    returning id`;
  const stages = given.stages.map((stage, index) => ({
    customer_id: customerId,
    pipeline_id: pipeline.id,
    position: index + 1,
    ...stage,
  }));
  if (stages.length > 0) await sql`insert into stages ${sql(stages)}`;
  return pipeline.id;
}

/** All pipelines of the customer, newest first, without what only a single one shows. */
export const listPipelines = (sql: Sql, customerId: string): Promise<PipelineListItem[]> =>
  sql<PipelineListItem[]>`
    select ${listProjection(sql)}
    from pipelines p
    where p.customer_id = ${customerId}
    order by p.id desc`;

/** One pipeline, if the customer has it. */
export async function findPipeline(
  sql: Sql | Transaction,
  customerId: string,
  id: string,
): Promise<Pipeline | undefined> {
  const [pipeline] = await sql<Pipeline[]>`
    select ${projection(sql)}
    from pipelines p
    where p.customer_id = ${customerId}
      and p.id = ${id}`;
  return pipeline;
}

/** All pipelines of the customer in full, newest first. */
export const listPipelinesWithStages = (sql: Sql | Transaction, customerId: string): Promise<Pipeline[]> =>
  sql<Pipeline[]>`
    select ${projection(sql)}
    from pipelines p
    where p.customer_id = ${customerId}
    order by p.id desc`;

const listProjection = (sql: Sql | Transaction) => sql`
  p.id,
  p.name,
  p.description,
  p.currency,
  p.active`;

const projection = (sql: Sql | Transaction) => sql`
  ${listProjection(sql)},
  p.visibility,
  (
    select coalesce(json_agg(stage order by stage."order"), '[]')
    from (
      select ${stageProjection(sql)}
      from stages s
      where s.customer_id = p.customer_id
        and s.pipeline_id = p.id
    ) stage
  ) as stages,
  p.created_at,
  p.updated_at`;
