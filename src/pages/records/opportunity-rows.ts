import type { FastifyRequest } from 'fastify';
import { countOpportunities, listOpportunities } from '../../queries/sales/opportunities.ts';
import { listPipelinesWithStages } from '../../queries/sales/pipelines.ts';
import { count, day, html, type Html } from '../base/html.ts';
import { money } from '../base/values.ts';

const mostShown = 10;

/**
 * Returns the newest opportunities of a contact or company with their number if there are more, and a link to the
 * form of a new one.
 */
export async function opportunitiesOf(
  { db, caller }: FastifyRequest,
  of: { contact: string } | { company: string },
): Promise<Html> {
  const filters: Record<string, string> = 'contact' in of ? { contact_id: of.contact } : { company_id: of.company };
  const add = html`<p><a href="/app/opportunities/new?${new URLSearchParams(of).toString()}">New opportunity</a></p>`;
  const { customerId } = caller;
  const [{ rows }, [total, pipelines]] = await Promise.all([
    listOpportunities(db, customerId, { filters, paginate: { limit: mostShown } }),
    db.search((sql) =>
      Promise.all([countOpportunities(sql, customerId, filters), listPipelinesWithStages(sql, customerId)]),
    ),
  ]);
  const stages = new Map(
    pipelines.flatMap(({ stages, currency }) => stages.map(({ id, name }) => [id, { name, currency }] as const)),
  );
  return html`<section class="card">
    <h2>Opportunities</h2>
    <ul class="plain">
      !${rows.map(({ id, name, stage_id, price, estimated_closing_date }) => {
        const { name: stage, currency } = stages.get(stage_id)!;
        return html`<li>
          <a href="/app/opportunities/${id}">${name}</a>
          <span class="quiet">${stage} · ${money(price, currency)} · closes !${day(estimated_closing_date)}</span>
        </li>`;
      })}
    </ul>
    !${total > rows.length ? html`<p class="quiet">The newest ${rows.length} of ${count(total)}.</p>` : ''} !${add}
  </section>`;
}
