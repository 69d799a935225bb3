import type { FastifyInstance, FastifyRequest } from 'fastify';
import { EndpointRequest, maxEndpoints } from '../schemas/webhooks.ts';
import type { Delivery, DeliveryError, Endpoint, TestResult } from '../schemas/webhooks.ts';
import { forAdmins, addPage, addAction, formRoutes, question, secretPage, listPage } from './base/layout.ts';
import type { Page, FormPage } from './base/layout.ts';
import { form, versionField, numberedPager, faultText, group, controlsFor, filterChoice, tick } from './base/forms.ts';
import { filters } from './base/forms.ts';
import { once, search, write, fieldsOf, text, linesIn, values, idOf, queryText, sentText } from './base/requests.ts';
import { pageNumberOf, oneOf, requireCurrent, requireValid, invalid, type Refused } from './base/requests.ts';
import { badge, notice, empty, table, facts, linkButton, buttons, html, when, link, twoLines } from './base/html.ts';
import { card, folded, moment, count, sideBySide, type Html, type Column } from './base/html.ts';
import { plain } from './base/words.ts';
import { numberOf } from './records/record-list.ts';
import { eventTypes, type EventType } from '../schemas/events.ts';
import { endpointCreation, replayEndpoint, secretRotation, showEndpoints, testEndpoint } from '../accounts/webhooks.ts';
import { updateEndpoint, type Issued, type Management } from '../accounts/webhooks.ts';
import { actorOf } from '../plugins/auth.ts';
import { listDeliveries, deleteEndpoint } from '../queries/accounts/webhook-endpoints.ts';
import { defaultLimit } from '../schemas/wire.ts';

const section = '/app/webhooks';

export const pathOf = ({ id }: Pick<Endpoint, 'id'>): string => `${section}/${id}`;

function stateOf({ active, disabled_reason, failing_since }: Health): Html {
  if (disabled_reason !== null) return badge('disabled', 'bad');
  if (!active) return badge('inactive', 'plain');
  return failing_since === null ? badge('active', 'good') : badge('failing', 'warning');
}

export const reasons = {
  gone: 'It answered 410 (gone), so it was disabled. Enable it when it works again.',
  failing: 'It only failed for 5 days, so it was disabled. Enable it when it works again.',
  revoked: 'The key that made it was revoked, so it was disabled.',
};

type Health = Pick<Endpoint, 'disabled_reason' | 'active' | 'failing_since'>;

export function troubleOf({ disabled_reason: reason, active, failing_since }: Health): Html {
  if (reason !== null) return reasons[reason];
  return active && failing_since !== null ? html`It has failed since !${moment(failing_since)}.` : '';
}

const errorLabels: Record<DeliveryError, string> = {
  dns: 'The name was not found',
  address: 'The address is not allowed',
  connect: 'No connection',
  tls: 'The certificate is not valid',
  timeout: 'No answer in time',
  status: 'Refused',
  redirect: 'Redirects are not followed',
};

const outcomeOf = ({ ok, status, error, ms }: TestResult): string =>
  [ok ? 'Delivered' : errorLabels[error!], status && `status ${status}`, `${count(ms)} ms`].filter(Boolean).join(', ');

const deliveryColumns: readonly Column<Delivery>[] = [
  ['Event', ({ type, event_id }) => html`${typeLabels[type]}<br /><code>${event_id}</code>`],
  ['Outcome', (one) => html`!${badge(one.ok ? 'delivered' : 'failed', one.ok ? 'good' : 'bad')} ${outcomeOf(one)}`],
  ['Sent', ({ sent_at }) => moment(sent_at)],
  ['Try', ({ attempt }) => count(attempt), 'number'],
  ['Next try', ({ next_attempt_at }) => moment(next_attempt_at)],
];

type EndpointDraft = Required<EndpointRequest>;

export const typeLabels = Object.fromEntries(
  eventTypes.map((type) => [type, plain(type).replace('updated', 'changed')]),
) as Record<EventType, string>;
typeLabels['credits.low'] = 'Credits are low';
typeLabels['prospect.removed'] = 'Unlocked person removed from the catalog';

export async function webhooks(app: FastifyInstance): Promise<void> {
  addPage(app, '/webhooks', forAdmins, async (request) => {
    const rows = await showEndpoints(managementOf(request));
    return listPage({
      title: 'Webhooks',
      lead: 'An endpoint is a URL of yours that gets a message when something changes.',
      done: notices,
      columns,
      rows,
      none: ['No endpoints yet', 'Add the URL of a program that should be told about changes at once.', 'hook'],
      add: when(rows.length < maxEndpoints, linkButton('New endpoint', `${section}/new`)),
    });
  });

  formRoutes(app, '/webhooks/new', forAdmins, {
    show: showForm,
    act: async (request) => {
      const draft = draftOf(request);
      requireValid(EndpointRequest, draft);
      return showSecret(request, await once(request, await endpointCreation(managementOf(request), draft)));
    },
  });

  addPage(app, '/webhooks/:id', forAdmins, (request) => showEndpoint(request));

  formRoutes(app, '/webhooks/:id/edit', forAdmins, {
    show: async (request, refused) => showForm(request, refused, await requireShown(request)),
    act: async (request) => {
      const stored = await requireShown(request);
      const draft = draftOf(request);
      requireCurrent(request, settingsOf(stored));
      requireValid(EndpointRequest, draft);
      await updateEndpoint(managementOf(request), stored.id, draft);
      return `${pathOf(stored)}?done=changed`;
    },
  });

  for (const [verb, active] of Object.entries({ enable: true, disable: false }))
    addAction(app, `/webhooks/:id/${verb}`, forAdmins, async (request) => {
      const id = idOf(request, noun);
      await updateEndpoint(managementOf(request), id, { active });
      return `${pathOf({ id })}?done=${verb}d`;
    });

  // It changes nothing, so there is nothing to redirect to.
  addAction(app, '/webhooks/:id/test', forAdmins, async (request) => {
    const id = idOf(request, noun);
    const result = await testEndpoint(managementOf(request), app.webhookSender, id, request.requester.signal);
    const words = `The test ${result.ok ? 'was sent' : 'failed'}. ${outcomeOf(result)}.`;
    return showEndpoint(request, notice(words, result.ok ? 'good' : 'bad'));
  });

  question(app, '/webhooks/:id/replay', forAdmins, {
    ...ofEndpoint,
    title: 'Send again',
    text: ({ url }, request) => {
      const hourAgo = new Date(Date.now() - 3_600_000).toISOString().slice(0, 16);
      const { input } = controlsFor({ from: sentText(request, 'from') || hourAgo }, {});
      return html`<p>What was recorded since this time is sent to <strong>${url}</strong> again.</p>
        !${input('from', 'Since (UTC)', { type: 'datetime-local', more: 'required' })}`;
    },
    tone: '',
    act: async (request, { id }) => {
      const from = new Date(`${sentText(request, 'from')}Z`);
      if (Number.isNaN(from.getTime())) throw invalid('choose a date and a time', '/from');
      await replayEndpoint(managementOf(request), id, from.toISOString());
      return `${pathOf({ id })}?done=replay`;
    },
  });

  question(app, '/webhooks/:id/rotate', forAdmins, {
    ...ofEndpoint,
    title: 'Rotate the secret',
    text: ({ url }) =>
      html`<strong>${url}</strong> gets a new secret, which is shown once. For 24 hours each delivery is signed with the
        previous one too.`,
    act: async (request, { id }) => showSecret(request, await once(request, secretRotation(managementOf(request), id))),
  });

  question(app, '/webhooks/:id/delete', forAdmins, {
    ...ofEndpoint,
    title: 'Delete the endpoint',
    text: ({ url }) => html`<strong>${url}</strong> gets no events any more. What waits for it is not sent.`,
    act: async (request, { id }) => {
      await write(request, deleteEndpoint, id, actorOf(request));
      return `${section}?done=deleted`;
    },
  });
}

const noun = 'webhook endpoint';

const managementOf = (request: FastifyRequest): Management => ({
  db: request.db,
  config: request.server.config,
  customerId: request.caller.customerId,
  by: actorOf(request),
});

const requireShown = async (request: FastifyRequest): Promise<Endpoint> =>
  oneOf(request, noun, await showEndpoints(managementOf(request)));

const ofEndpoint = { about: requireShown, back: pathOf };

function draftOf(request: FastifyRequest): EndpointDraft {
  const fields = fieldsOf(request);
  return {
    url: text(fields, 'url').trim(),
    types: values(fields, 'types', eventTypes.length) as EndpointDraft['types'],
    bulk: text(fields, 'bulk') === 'on',
    description: linesIn(fields, 'description'),
  };
}

const notices: Record<string, string> = {
  deleted: 'The endpoint is deleted.',
  changed: 'The endpoint is changed.',
  enabled: 'The endpoint is active. It gets what happens from now on.',
  disabled: 'The endpoint is inactive. It gets nothing.',
  replay: 'The replay has begun.',
};

const columns: readonly Column<Endpoint>[] = [
  ['Endpoint', (one) => twoLines(link(one.url, pathOf(one)), html`${one.description}`), 'long'],
  ['State', (one) => twoLines(stateOf(one), troubleOf(one))],
  ['Waiting', ({ waiting }) => numberOf(waiting), 'number'],
  ['Last success', ({ last_success_at }) => moment(last_success_at, 'Never')],
  ['Last failure', ({ last_failure_at }) => moment(last_failure_at, 'Never')],
];

/** Types that are ticked first: what a copy of the customer's records needs. */
const usualTypes = eventTypes.filter((type) => /^(contact|company|opportunity)\./.test(type));

const blank: EndpointDraft = { url: '', types: usualTypes, bulk: false, description: '' };

const settingsOf = ({ url, types, bulk, description }: Endpoint): EndpointDraft => ({ url, types, bulk, description });

function showForm(request: FastifyRequest, { faults }: Refused, stored?: Endpoint): FormPage {
  const settings = stored ? settingsOf(stored) : blank;
  const { url, description, types, bulk } = request.method === 'POST' ? draftOf(request) : settings;
  const { input, area } = controlsFor({ url, description }, faults);
  const hint = 'Where events are sent, such as https://example.com/webhooks.';
  const address = input('url', 'URL', { hint, type: 'url', more: 'maxlength="2048" autocomplete="off" required' });
  const ticks = eventTypes.map((type) => tick('checkbox', ['types', type], typeLabels[type], types.includes(type)));
  const ofBulk = tick('checkbox', ['bulk', 'on'], 'Also send changes of records that imports and jobs make', bulk);
  const events = html`!${faultText('types', faults)} !${sideBySide(...ticks)}
    <p>!${ofBulk}</p>`;
  return {
    title: stored ? 'Change the endpoint' : 'New endpoint',
    lead: 'What you choose here is sent to your URL when it happens.',
    body: html`!${versionField(settings)}
    !${card(html`!${address} !${area('description', 'Description', 'What the endpoint is for.')}`)}
    !${group('Events', events)} !${stored ? buttons('Save', pathOf(stored)) : buttons('Create the endpoint', section)}`,
    attributes: 'data-once',
  };
}

const showSecret = (request: FastifyRequest, issued: Issued | undefined): Page =>
  secretPage(request, issued, ['secret', 'rotate it to get a new one.'], ({ id, url, secret }) => ({
    title: 'Your new secret',
    lead: html`This is the secret of ${url}. Store it where your receiver reads its secrets: it is not shown again.`,
    label: 'Secret',
    value: secret,
    advice: html`<p>Your receiver verifies each message with it, by a library of Standard Webhooks.</p>`,
    next: pathOf({ id }),
  }));

async function showEndpoint(request: FastifyRequest, told: Html = '') {
  const endpoint = await requireShown(request);
  const path = pathOf(endpoint);
  const ok = queryText(request, 'ok');
  const page = pageNumberOf(request);
  const query = { paginate: { page }, filters: ok === 'true' || ok === 'false' ? { ok: ok === 'true' } : {} };
  const deliveries = await search(request, listDeliveries, endpoint.id, query);
  const post = (verb: string, label: string) =>
    form(`${path}/${verb}`, html`<button class="secondary outline">${label}</button>`);
  const button = (verb: string, label: string, style = 'secondary') =>
    linkButton(label, `${path}/${verb}`, `${style} outline`, verb === 'edit' ? '' : 'data-dialog');
  const { types, description } = endpoint;
  const about = facts([
    ...columns.slice(1).map(([head, cell]) => [head, cell(endpoint, 0)] as const),
    ['Given up', count(endpoint.given_up)],
    ['Created', moment(endpoint.created_at)],
    ['Events', folded(`${types.length} of ${eventTypes.length}`, types.map((type) => typeLabels[type]).join(', '))],
    ['Changes by imports and jobs', endpoint.bulk ? 'Sent' : 'Not sent'],
  ]);
  const others = html`!${button('replay', 'Send again')} !${button('rotate', 'Rotate the secret')}
  !${when(endpoint.active, post('disable', 'Disable'))} !${button('delete', 'Delete', 'danger')}`;
  const none = empty('No deliveries', 'What was sent in the last 30 days is listed here.');
  const body = html`!${told}
    <div class="card">
      !${when(description, html`<p>${description}</p>`)} !${about}
      <div class="buttons">
        !${post('test', 'Send a test')} !${button('edit', 'Change')}
        !${when(!endpoint.active, post('enable', 'Enable'))}
      </div>
      !${folded('More', html`<div class="buttons">!${others}</div>`)}
    </div>
    <h2>Deliveries</h2>
    !${filters(path, filterChoice('ok', 'Outcome', { '': 'any', true: 'delivered', false: 'failed' }, ok))}
    !${table('Deliveries', deliveryColumns, deliveries, none)}
    !${numberedPager(request, deliveries.length === defaultLimit, path)}`;
  return { title: endpoint.url, ...(told === '' && { done: notices }), body };
}
