import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { DomainError } from '../../errors.ts';
import { statuses } from '../../plugins/answers/error-handler.ts';
import { markSent } from '../../queries/records/sent-forms.ts';
import { createOpportunity, updateOpportunity } from '../../queries/sales/opportunities.ts';
import { OpportunityCreate, OpportunityPatch, type Opportunity } from '../../schemas/opportunities.ts';
import { etagOf } from '../../text/etag.ts';
import { compile } from '../../validation/validator.ts';
import { forMembers } from '../base/access.ts';
import { faultsOf, fieldsOf, formFaults, refusalOf, text, tokenOf, type Faults } from '../base/forms.ts';
import { html, type Html } from '../base/html.ts';
import { form, goTo, sendPage } from '../base/layout.ts';
import {
  blankDraft,
  draftOf,
  opportunityControls,
  opportunityOf,
  shownFields,
  type OpportunityDraft,
} from './opportunity-form.ts';

const section = '/app/opportunities';

/**
 * Forms that create and change an opportunity. They call the functions of the API's routes.
 * @param require returns the opportunity of the request's path
 */
export function opportunityEdit(
  app: FastifyInstance,
  require: (request: FastifyRequest) => Promise<Opportunity>,
): void {
  const checkNew = compile(OpportunityCreate);
  const checkPatch = compile(OpportunityPatch);

  app.get('/opportunities/new', forMembers, async (request, reply) =>
    showNew(request, reply, await blankDraft(request)),
  );

  app.post('/opportunities/new', forMembers, async (request, reply) => {
    const fields = fieldsOf(request);
    const { body, faults: unknown } = await opportunityOf(request, fields);
    const faults = { ...faultsOf(checkNew, body), ...unknown };
    if (Object.keys(faults).length > 0) return showNew(request, reply, fields, faults);
    try {
      const { db, caller } = request;
      const id = await db.transaction(async (sql) =>
        (await markSent(sql, caller.customerId, tokenOf(fields)))
          ? createOpportunity(sql, caller.customerId, body as never)
          : undefined,
      );
      return await goTo(reply, id === undefined ? `${section}?done=sent` : `${section}/${id}`);
    } catch (error) {
      const refusal = refusalOf(error);
      return showNew(request, reply, fields, refusal.faults, refusal.status);
    }
  });

  app.get('/opportunities/:id/edit', forMembers, async (request, reply) => {
    const found = await require(request);
    return showEdit(request, reply, found, await draftOf(request, found));
  });

  app.post('/opportunities/:id/edit', forMembers, async (request, reply) => {
    const [found, fields] = [await require(request), fieldsOf(request)];
    const { body, faults: unknown } = await opportunityOf(request, fields, found);
    const faults = { ...faultsOf(checkPatch, body), ...unknown };
    if (Object.keys(faults).length > 0) return showEdit(request, reply, found, fields, faults);
    try {
      const { db, caller } = request;
      const etag = text(fields, 'etag');
      await db.transaction((sql) => updateOpportunity(sql, caller.customerId, found.id, body, etag));
      return await goTo(reply, `${section}/${found.id}`);
    } catch (error) {
      if (error instanceof DomainError && error.code === 'precondition_failed')
        return showEdit(
          request,
          reply,
          await require(request),
          fields,
          { '': conflictText },
          statuses.precondition_failed,
        );
      const refusal = refusalOf(error);
      return showEdit(request, reply, found, fields, refusal.faults, refusal.status);
    }
  });
}

const conflictText =
  'Somebody changed this opportunity while you were editing it, and nothing of yours is saved yet. Save to keep what the ' +
  'form shows.';

const showNew = (
  request: FastifyRequest,
  reply: FastifyReply,
  draft: OpportunityDraft,
  faults: Faults = {},
  status = 400,
) =>
  show(request, reply, {
    title: 'New opportunity',
    action: `${section}/new`,
    back: section,
    controls: opportunityControls(request, draft, faults),
    faults,
    status,
  });

const showEdit = (
  request: FastifyRequest,
  reply: FastifyReply,
  found: Opportunity,
  draft: OpportunityDraft,
  faults: Faults = {},
  status = 400,
) =>
  show(request, reply, {
    title: `Change ${found.name}`,
    action: `${section}/${found.id}/edit`,
    back: `${section}/${found.id}`,
    controls: opportunityControls(request, draft, faults, found.details),
    etag: text(draft, 'etag') === '' || status === statuses.precondition_failed ? etagOf(found) : text(draft, 'etag'),
    faults,
    status,
  });

interface Shown {
  title: string;
  action: string;
  back: string;
  controls: Promise<Html>;
  etag?: string;
  faults: Faults;
  status: number;
}

async function show(
  request: FastifyRequest,
  reply: FastifyReply,
  { title, action, back, controls, etag, faults, status }: Shown,
): Promise<FastifyReply> {
  const body = html`!${etag === undefined ? '' : html`<input type="hidden" name="etag" value="${etag}" />`}
    !${formFaults(faults, shownFields)} !${await controls}
    <div class="buttons">
      <button>Save the opportunity</button>
      <a role="button" class="secondary outline" href="${back}">Cancel</a>
    </div>`;
  return sendPage(request, reply, {
    title,
    section,
    status: Object.keys(faults).length > 0 ? status : 200,
    body: form(request, reply, { action, body, attributes: 'data-keep' }),
  });
}
