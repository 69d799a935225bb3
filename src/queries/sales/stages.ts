import type { Queryable, Sql } from '../../database/db.ts';
import { notFound } from '../../errors.ts';
import type { StageListItem, StageQuery } from '../../schemas/pipelines.ts';
import { limitAndOffset } from '../records/paging.ts';

/** As the API returns it, both alone and inside a pipeline. */
export const stageProjection = (sql: Queryable) => sql`
  s.id,
  s.name,
  s.position as "order",
  s.pipeline_id,
  s.probability_percentage,
  s.status`;

/**
 * In their order, each with its number of opportunities.
 * @throws DomainError `not_found` if the customer has no such pipeline
 */
export async function listStages(
  sql: Sql,
  customerId: string,
  { pipeline_id, paginate }: StageQuery,
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
