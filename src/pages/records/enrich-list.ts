import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { spenderOf } from '../../credentials/caller.ts';
import { notFound } from '../../errors.ts';
import { estimateEnrichment, findEnriched, startEnrichment } from '../../jobs/enrichment/start-enrichment.ts';
import { findList } from '../../queries/crm/lists.ts';
import { markSent } from '../../queries/records/sent-forms.ts';
import { EnrichContacts } from '../../schemas/clean-data/enrichment.ts';
import { compile } from '../../validation/validator.ts';
import { forAdmins } from '../base/access.ts';
import {
  faultsOf,
  field,
  fieldsOf,
  formFaults,
  idOf,
  integer,
  refusalOf,
  text,
  tokenOf,
  type Fields,
} from '../base/forms.ts';
import { counted, html } from '../base/html.ts';
import { form, goTo, sendPage } from '../base/layout.ts';
import { priceOf } from '../base/values.ts';

const section = '/app/lists';

/** The question what enriching a list costs, and the start of the job. Calls the functions of the API's route. */
export async function enrichList(app: FastifyInstance): Promise<void> {
  const check = compile(EnrichContacts);

  app.get('/lists/:id/enrich', forAdmins, async (request, reply) => ask(request, reply));

  app.post('/lists/:id/enrich', forAdmins, async (request, reply) => {
    const { db, caller } = request;
    const body = bodyOf(idOf(request, 'list'), fieldsOf(request));
    const faults = faultsOf(check, body);
    if (Object.keys(faults).length > 0) return ask(request, reply, { faults, status: 400 });
    try {
      const ids = await findEnriched(db, caller.customerId, body);
      const job = await db.transaction(async (sql) =>
        (await markSent(sql, caller.customerId, tokenOf(request.body)))
          ? startEnrichment(sql, spenderOf(caller), app.config, body, ids)
          : undefined,
      );
      return await goTo(reply, job ? `/app/jobs/${job.id}` : '/app/jobs?done=sent');
    } catch (error) {
      return ask(request, reply, refusalOf(error));
    }
  });

  async function ask(
    request: FastifyRequest,
    reply: FastifyReply,
    { faults = {}, status = 200 }: Partial<ReturnType<typeof refusalOf>> = {},
  ): Promise<FastifyReply> {
    const { db, caller } = request;
    const list = await findList(db, caller.customerId, idOf(request, 'list'));
    if (!list) throw notFound('list');
    const fields = fieldsOf(request);
    const body = { filters: { list_id: list.id }, max_credits: maxCredits };
    const ids = await findEnriched(db, caller.customerId, body);
    const price = await db.transaction((sql) => estimateEnrichment(sql, spenderOf(caller), app.config, body, ids));
    const limit = text(fields, 'max_credits') || String(Math.min(price.cost, price.available));
    const controls = html`!${formFaults(faults, ['max_credits'])}
      <p>
        Looks for ${counted(price.contacts, 'contact')} in the catalog, by e-mail, profile, or name and company, and
        fills their empty fields. Who is not found, or was unlocked before, costs nothing.
      </p>
      !${priceOf(price)}
      !${field(
        {
          name: 'max_credits',
          label: 'Spend at most',
          hint: 'Credits. When they are used up, the rest is left out.',
          faults,
        },
        (attributes) =>
          html`<input !${attributes} type="text" value="${limit}" inputmode="numeric" autocomplete="off" />`,
      )}
      <label>
        <input type="checkbox" name="overwrite" value="1" !${text(fields, 'overwrite') === '1' ? 'checked' : ''} />
        Also replace what the contacts have
      </label>
      <div class="buttons">
        <button>Enrich now</button>
        <a role="button" class="secondary outline" href="${section}/${list.id}">Back</a>
      </div>`;
    return sendPage(request, reply, {
      title: `Enrich ${list.name}`,
      section,
      status,
      body: html`<div class="card narrow">
        !${form(request, reply, { action: `${section}/${list.id}/enrich`, body: controls, attributes: 'data-once' })}
      </div>`,
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
