import type { Delivery, DeliveryError, Endpoint, TestResult } from '../../schemas/events/webhooks.ts';
import { badge, count, facts, html, moment, buttons, type Column, type Html } from '../base/html.ts';
import { eventTypes, type EventType } from '../../schemas/events/types.ts';
import { areaField, faultText, inputField, tick, type Faults } from '../base/forms.ts';

export const section = '/app/webhooks';

export const pathOf = ({ id }: Pick<Endpoint, 'id'>): string => `${section}/${id}`;

/** What the number of waiting events says if there are more than are counted. */
const maxCounted = 10_000;

export function stateOf({ active, disabled_reason, failing_since }: Endpoint): Html {
  if (disabled_reason !== null) return badge('disabled', 'bad');
  if (!active) return badge('inactive', 'plain');
  return failing_since === null ? badge('active', 'good') : badge('failing', 'warning');
}

/** Returns why the endpoint gets nothing, or an empty text. */
export function troubleOf({
  disabled_reason,
  active,
  failing_since,
}: Pick<Endpoint, 'disabled_reason' | 'active' | 'failing_since'>): Html {
  if (disabled_reason === 'gone')
    return html`It answered 410 (gone), so it was disabled. Enable it when it works again.`;
  if (disabled_reason === 'failing')
    return html`It only failed for 5 days, so it was disabled. Enable it when it works again.`;
  if (disabled_reason === 'revoked') return html`The key that made it was revoked, so it was disabled.`;
  return active && failing_since !== null ? html`It has failed since !${moment(failing_since)}.` : '';
}

export const waitingOf = ({ waiting }: Endpoint): string =>
  waiting > maxCounted ? `more than ${count(maxCounted)}` : count(waiting);

export const factsOf = (endpoint: Endpoint): Html =>
  facts([
    ['State', stateOf(endpoint)],
    ['Waiting', waitingOf(endpoint)],
    ['Given up', count(endpoint.given_up)],
    ['Last success', moment(endpoint.last_success_at, 'Never')],
    ['Last failure', moment(endpoint.last_failure_at, 'Never')],
    ['Created', moment(endpoint.created_at)],
    [
      'Events',
      html`<details class="inline">
        <summary>${endpoint.types.length} of ${Object.keys(typeLabels).length}</summary>
        ${endpoint.types.map((type) => typeLabels[type]).join(', ')}
      </details>`,
    ],
    ['Changes by imports and jobs', endpoint.bulk ? 'Sent' : 'Not sent'],
  ]);

const errorLabels: Record<DeliveryError, string> = {
  dns: 'The name was not found',
  address: 'The address is not allowed',
  connect: 'No connection',
  tls: 'The certificate is not valid',
  timeout: 'No answer in time',
  status: 'Refused',
  redirect: 'Redirects are not followed',
};

/** Says in words how a try ended. */
export const outcomeOf = ({ ok, status, error, ms }: TestResult): string =>
  [ok ? 'Delivered' : errorLabels[error!], status === null ? '' : `status ${status}`, `${count(ms)} ms`]
    .filter(Boolean)
    .join(', ');

export const deliveryColumns: readonly Column<Delivery>[] = [
  ['Event', ({ type, event_id }) => html`${typeLabels[type]}<br /><small class="mono">${event_id}</small>`],
  ['Outcome', (one) => html`!${badge(one.ok ? 'delivered' : 'failed', one.ok ? 'good' : 'bad')} ${outcomeOf(one)}`],
  ['Sent', ({ sent_at }) => moment(sent_at)],
  ['Try', ({ attempt }) => count(attempt), 'number'],
  ['Next try', ({ next_attempt_at }) => moment(next_attempt_at)],
];

export interface EndpointDraft {
  url: string;
  types: EventType[];
  bulk: boolean;
  description: string;
}

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
