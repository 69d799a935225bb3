import type { Database, Queryable, Sql } from '../../database/db.ts';
import { notFound } from '../../errors.ts';
import type { StageListItem, StageQuery } from '../../schemas/pipelines.ts';
import type { Column } from '../../filters/columns.ts';
import type { RecordPage } from '../records/paging.ts';
import { limitAndOffset, readPage, type PageOrCursor } from '../records/paging.ts';

/** As the API returns it, both alone and inside a pipeline. */
export const stageProjection = (sql: Queryable) => sql`
  s.id,
  s.name,
  s.position as "order",
  s.pipeline_id,
  s.probability_percentage,
  s.status`;

const position: Column = { type: 'integer', value: 'position', raw: 'position', required: true };

/**
 * In their order, each with its number of opportunities.
 * @throws DomainError `not_found` if the customer has no such pipeline
 */
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

/** @param after the position of the last stage of the previous page */
export async function selectStages(
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
