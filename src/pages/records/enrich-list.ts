import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { spenderOf } from '../../credentials/caller.ts';
import { estimateEnrichment, findEnriched, startEnrichment } from '../../jobs/enrichment/start-enrichment.ts';
import { EnrichContacts } from '../../schemas/clean-data/enrichment.ts';
import { compile } from '../../validation/validator.ts';
import { forAdmins } from '../base/access.ts';
import { formRoutes } from '../base/acts.ts';
import {
  fieldsOf,
  inputField,
  integer,
  once,
  requireValid,
  text,
  tick,
  type Fields,
  type Refused,
} from '../base/forms.ts';
import { buttons, counted, html } from '../base/html.ts';
import { sendForm } from '../base/layout.ts';
import { priceOf } from '../base/values.ts';
import { requireList } from './lists.ts';

const section = '/app/lists';

/** The question what enriching a list costs, and the start of the job. Calls the functions of the API's route. */
export async function enrichList(app: FastifyInstance): Promise<void> {
  const check = compile(EnrichContacts);

  formRoutes(app, '/lists/:id/enrich', {
    access: forAdmins,
    show: ask,
    act: async (request) => {
      const { db, caller } = request;
      const { id } = await requireList(request);
      const body = bodyOf(id, fieldsOf(request));
      requireValid(check, body);
      const ids = await findEnriched(db, caller.customerId, body);
      const job = await once(request, (sql) => startEnrichment(sql, spenderOf(caller), app.config, body, ids));
      return job ? `/app/jobs/${job.id}` : '/app/jobs?done=sent';
    },
  });

  async function ask(request: FastifyRequest, reply: FastifyReply, refused: Refused): Promise<FastifyReply> {
    const { db, caller } = request;
    const list = await requireList(request);
    const fields = fieldsOf(request);
    const body = { filters: { list_id: list.id }, max_credits: maxCredits };
    const ids = await findEnriched(db, caller.customerId, body);
    const price = await db.transaction((sql) => estimateEnrichment(sql, spenderOf(caller), app.config, body, ids));
    const limit = text(fields, 'max_credits') || String(Math.min(price.cost, price.available));
    return sendForm(request, reply, {
      title: `Enrich ${list.name}`,
      section,
      action: `${section}/${list.id}/enrich`,
      body: html`<p>
          Looks for ${counted(price.contacts, 'contact')} in the catalog, by e-mail, profile, or name and company, and
          fills their empty fields. Who is not found, or was unlocked before, costs nothing.
        </p>
        !${priceOf(price)}
        !${inputField(
          {
            name: 'max_credits',
            label: 'Spend at most',
            hint: 'Credits. When they are used up, the rest is left out.',
            faults: refused.faults,
          },
          limit,
          'text',
          'inputmode="numeric" autocomplete="off"',
        )}
        !${tick('checkbox', ['overwrite', '1'], 'Also replace what the contacts have', text(fields, 'overwrite') === '1')}
        !${buttons('Enrich now', `${section}/${list.id}`, 'Back')}`,
      attributes: 'data-once',
      fields: ['max_credits'],
      refused,
      isNarrow: true,
    });
  }
}

const maxCredits = 1_000_000_000;

/** Returns the body of the API's call that a form stands for, not validated yet. */
const bodyOf = (listId: string, fields: Fields): EnrichContacts => ({
  filters: { list_id: listId },
  overwrite: text(fields, 'overwrite') === '1',
  max_credits: integer(fields, 'max_credits'),
});
