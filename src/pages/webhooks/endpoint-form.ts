import { eventTypes, type EventType } from '../../schemas/events/types.ts';
import { areaField, faultText, inputField, tick, type Faults } from '../base/forms.ts';
import { buttons, html, type Html } from '../base/html.ts';

/** An endpoint as submitted, not validated yet. */
export interface EndpointDraft {
  url: string;
  types: EventType[];
  bulk: boolean;
  description: string;
}

/** What people call the types of events. */
export const typeLabels: Record<EventType, string> = {
  'contact.created': 'Contact created',
  'contact.updated': 'Contact changed',
  'contact.deleted': 'Contact deleted',
  'company.created': 'Company created',
  'company.updated': 'Company changed',
  'company.deleted': 'Company deleted',
  'list.created': 'List created',
  'list.updated': 'List changed',
  'list.deleted': 'List deleted',
  'product.created': 'Product created',
  'product.updated': 'Product changed',
  'product.deleted': 'Product deleted',
  'opportunity.created': 'Opportunity created',
  'opportunity.updated': 'Opportunity changed',
  'opportunity.deleted': 'Opportunity deleted',
  'activity.created': 'Activity created',
  'activity.updated': 'Activity changed',
  'activity.deleted': 'Activity deleted',
  'job.ended': 'Job ended',
  'import.ended': 'Import ended',
  'credits.low': 'Credits are low',
  'prospect.removed': 'Unlocked person removed from the catalog',
};

/** @param save text of the button */
export const endpointForm = (draft: EndpointDraft, faults: Faults, save: string, back: string): Html =>
  html`<div class="card">
      !${inputField(
        { name: 'url', label: 'URL', hint: 'Where events are sent, such as https://example.com/webhooks.', faults },
        draft.url,
        'url',
        'maxlength="2048" autocomplete="off" required',
      )}
      !${areaField({ name: 'description', label: 'Description', hint: 'What the endpoint is for.', faults }, draft.description)}
    </div>
    <fieldset class="card" id="types">
      <legend>Events</legend>
      !${faultText('types', faults)}
      <div class="scopes">
        !${eventTypes.map((type) => tick('checkbox', ['types', type], typeLabels[type], draft.types.includes(type)))}
      </div>
      !${tick('checkbox', ['bulk', 'on'], 'Also send changes of records that imports and jobs make', draft.bulk)}
    </fieldset>
    !${buttons(save, back)}`;
