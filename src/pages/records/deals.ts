import type { FastifyRequest } from 'fastify';
import { countOpportunities, listOpportunities } from '../../queries/crm/opportunities.ts';
import { listPipelinesWithStages } from '../../queries/crm/pipelines.ts';
import type { Opportunity, Pipeline } from '../../schemas/opportunities.ts';
import { count, day, dayOf, html, link, panel, plainList, quiet, today, when, type Html } from '../base/html.ts';
import { ask, search } from '../base/requests.ts';
import { money } from '../base/words.ts';

/** Maximum number of opportunities that the page of a contact or company shows. */
const maxShown = 10;

/** Returns the newest opportunities of a contact or company, with a link that creates one. */
export async function opportunitiesOf(
  request: FastifyRequest,
  of: { contact: string } | { company: string },
): Promise<Html> {
  const filters: Record<string, string> = 'contact' in of ? { contact_id: of.contact } : { company_id: of.company };
  const add = html`<p><a href="/app/opportunities/new?${new URLSearchParams(of).toString()}">New opportunity</a></p>`;
  const [{ rows }, total, stages] = await Promise.all([
    ask(request, listOpportunities, { filters, paginate: { limit: maxShown } }),
    search(request, countOpportunities, filters),
    stagesById(request),
  ]);
  const shown = rows.map((row) => dealText(row, stages));
  const more = when(total > rows.length, quiet(`The newest ${rows.length} of ${count(total)}.`));
  return panel('Opportunities', html`!${plainList(shown, 'None.')} !${more} !${add}`);
}

export const closingField = ({ status }: Pick<Pipeline['stages'][number], 'status'>) =>
  status === 'OPEN' ? 'estimated_closing_date' : 'close_date';

/** Returns a line about an opportunity: its name, stage, price, and closing day, which is marked if it is over. */
export function dealText(deal: Opportunity, stages: Awaited<ReturnType<typeof stagesById>>): Html {
  const stage = stages.get(deal.stage_id)!;
  const closes = deal[closingField(stage)];
  const [verb, tone] = stage.status === 'OPEN' ? ['closes', when(dayOf(closes) < today(), 'late')] : ['closed', ''];
  return html`!${link(deal.name, `/app/opportunities/${deal.id}`)}
    <span class="quiet">
      ${stage.name} · ${money(deal.price, stage.currency)} · <span class="${tone}">${verb} !${day(closes)}</span>
    </span>`;
}

export async function stagesById(request: FastifyRequest) {
  const pipelines = await search(request, listPipelinesWithStages);
  const stages = pipelines.flatMap(({ currency, stages }) => stages.map((stage) => ({ ...stage, currency })));
  return new Map(stages.map((stage) => [stage.id, stage]));
}
