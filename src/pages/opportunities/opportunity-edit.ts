import type { FastifyInstance, FastifyRequest } from 'fastify';
import {
  createOpportunity,
  deleteOpportunity,
  findOpportunities,
  updateOpportunity,
} from '../../queries/sales/opportunities.ts';
import { OpportunityCreate, OpportunityPatch, type Opportunity } from '../../schemas/opportunities.ts';
import { etagOf } from '../../text/etag.ts';
import { counted, html } from '../base/html.ts';
import { editor, requireRecord } from '../records/editor.ts';
import { opportunityControls, opportunityOf, shownFields } from './opportunity-form.ts';

const section = '/app/opportunities';

/** Forms that create, change and delete an opportunity. */
export const opportunityEdit = (app: FastifyInstance): void =>
  editor<Opportunity>(app, {
    path: section,
    noun: 'opportunity',
    schemas: { create: OpportunityCreate, patch: OpportunityPatch },
    require: requireOpportunity,
    nameOf: ({ name }) => name,
    tagOf: etagOf,
    bodyOf: opportunityOf,
    controls: opportunityControls,
    fields: shownFields,
    verb: 'Save',
    create: (sql, { customerId }, body) => createOpportunity(sql, customerId, body),
    update: updateOpportunity,
    remove: deleteOpportunity,
    question: (_request, { name, contacts_ids }) =>
      html`<strong>${name}</strong> is deleted. For 90 days this can be undone. Its
        ${counted(contacts_ids.length, 'contact')}, its company and its products stay.`,
  });

/** @throws DomainError `not_found` */
export const requireOpportunity = (request: FastifyRequest): Promise<Opportunity> =>
  requireRecord(request, 'opportunity', findOpportunities);
