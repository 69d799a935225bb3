import type { FastifyRequest } from 'fastify';
import { countOpportunities, listOpportunities } from '../../queries/sales/opportunities.ts';
import { listPipelinesWithStages } from '../../queries/sales/pipelines.ts';
import type { OpportunityFilters } from '../../schemas/opportunities.ts';
import { count, day, html, table, type Html } from '../base/html.ts';
import { money } from '../base/values.ts';
import { opportunityWords } from '../base/words.ts';

const mostShown = 10;

/**
 * Returns the newest opportunities of a contact or company as a table, their number if there are more, and a link to the
 * form of a new one.
 */
export async function opportunitiesOf(
  { db, caller }: FastifyRequest,
  of: { contact: string } | { company: string },
): Promise<Html> {
  const filters: OpportunityFilters = 'contact' in of ? { contact_id: of.contact } : { company_id: of.company };
  const add = html`<p><a href="/app/opportunities/new?${new URLSearchParams(of).toString()}">New opportunity</a></p>`;
  const { customerId } = caller;
  const [rows, total, pipelines] = await db.search((sql) =>
    Promise.all([
      listOpportunities(sql, customerId, { filters, paginate: { limit: mostShown } }),
      countOpportunities(sql, customerId, filters),
      listPipelinesWithStages(sql, customerId),
    ]),
  );
  if (rows.length === 0)
    return html`<p class="quiet">None.</p>
      !${add}`;
  const stages = new Map(
    pipelines.flatMap(({ stages, currency }) => stages.map(({ id, name }) => [id, { name, currency }] as const)),
  );
  const heads = [
    opportunityWords.name,
    opportunityWords.stage_id,
    opportunityWords.price,
    opportunityWords.estimated_closing_date,
  ];
  const shown = rows.map(
    ({ id, name, stage_id, price, estimated_closing_date }) =>
      html`<tr>
        <td><a href="/app/opportunities/${id}">${name}</a></td>
        <td>${stages.get(stage_id)!.name}</td>
        <td class="number">${money(price, stages.get(stage_id)!.currency)}</td>
        <td>!${day(estimated_closing_date)}</td>
      </tr>`,
  );
  return html`!${table('Opportunities', heads, shown)}
  !${total > rows.length ? html`<p class="quiet">The newest ${rows.length} of ${count(total)}.</p>` : ''} !${add}`;
}
