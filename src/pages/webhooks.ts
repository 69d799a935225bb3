import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { EndpointRequest, maxEndpoints } from '../schemas/webhooks.ts';
import type { Delivery, DeliveryError, Endpoint, TestResult } from '../schemas/webhooks.ts';
import { badge, count, facts, html, moment, buttons, empty, linkButton, notice, table } from './base/html.ts';
import type { Column, Html } from './base/html.ts';
import { eventTypes, type EventType } from '../schemas/events.ts';
import {
  areaField,
  faultText,
  inputField,
  tick,
  conflictOf,
  doneNotice,
  fieldsOf,
  filterChoice,
  idOf,
  isOutdated,
  linesIn,
  numberedPager,
  once,
  pageNumberOf,
  queryOf,
  requireValid,
  text,
  values,
  versionField,
} from './base/forms.ts';
import type { Faults, Refused } from './base/forms.ts';
import {
  endpointCreation,
  replayEndpoint,
  secretRotation,
  showEndpoints,
  testEndpoint,
  updateEndpoint,
} from '../accounts/webhooks.ts';
import type { Issued, Management } from '../accounts/webhooks.ts';
import { notFound, validationFailed } from '../errors.ts';
import { actorOf } from '../plugins/auth.ts';
import { listDeliveries, deleteEndpoint } from '../queries/accounts/webhook-endpoints.ts';
import { defaultLimit } from '../schemas/wire.ts';
import { compile } from '../validation/validator.ts';
import {
  forAdmins,
  formRoutes,
  questionRoutes,
  form,
  goTo,
  sendPage,
  sendIssuedBefore,
  sendSecret,
} from './base/layout.ts';
import type { Confirmation, FormPage } from './base/layout.ts';

const section = '/app/webhooks';

export const pathOf = ({ id }: Pick<Endpoint, 'id'>): string => `${section}/${id}`;

/** Maximum number of waiting events that is counted. */
const maxCounted = 10_000;

function stateOf({ active, disabled_reason, failing_since }: Endpoint): Html {
  if (disabled_reason !== null) return badge('disabled', 'bad');
  if (!active) return badge('inactive', 'plain');
  return failing_since === null ? badge('active', 'good') : badge('failing', 'warning');
}

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

const waitingOf = ({ waiting }: Endpoint): string =>
  waiting > maxCounted ? `more than ${count(maxCounted)}` : count(waiting);

const factsOf = (endpoint: Endpoint): Html =>
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

const outcomeOf = ({ ok, status, error, ms }: TestResult): string =>
  [ok ? 'Delivered' : errorLabels[error!], status === null ? '' : `status ${status}`, `${count(ms)} ms`]
    .filter(Boolean)
    .join(', ');

const deliveryColumns: readonly Column<Delivery>[] = [
  ['Event', ({ type, event_id }) => html`${typeLabels[type]}<br /><small class="mono">${event_id}</small>`],
  ['Outcome', (one) => html`!${badge(one.ok ? 'delivered' : 'failed', one.ok ? 'good' : 'bad')} ${outcomeOf(one)}`],
  ['Sent', ({ sent_at }) => moment(sent_at)],
  ['Try', ({ attempt }) => count(attempt), 'number'],
  ['Next try', ({ next_attempt_at }) => moment(next_attempt_at)],
];

interface EndpointDraft {
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

const endpointForm = (draft: EndpointDraft, faults: Faults, save: string, back: string): Html =>
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

const check = compile(EndpointRequest);

export async function webhooks(app: FastifyInstance): Promise<void> {
  app.get('/webhooks', forAdmins, async (request, reply) => {
    const endpoints = await showEndpoints(managementOf(request));
    return showList(request, reply, endpoints);
  });

  formRoutes(app, '/webhooks/new', forAdmins, {
    show: showNew,
    act: async (request, reply) => {
      const draft = draftOf(request);
      requireValid(check, draft);
      return showSecret(request, reply, await once(request, await endpointCreation(managementOf(request), draft)));
    },
  });

  app.get('/webhooks/:id', forAdmins, async (request, reply) => showEndpoint(request, reply));

  formRoutes(app, '/webhooks/:id/edit', forAdmins, {
    show: showEdit,
    act: async (request) => {
      const stored = await requireShown(request);
      const draft = draftOf(request);
      if (isOutdated(request, settingsOf(stored))) return conflictOf(noun);
      requireValid(check, draft);
      await updateEndpoint(managementOf(request), stored.id, draft);
      return `${pathOf(stored)}?done=changed`;
    },
  });

  app.post('/webhooks/:id/enable', forAdmins, (request, reply) => activate(request, reply, true));
  app.post('/webhooks/:id/disable', forAdmins, (request, reply) => activate(request, reply, false));

  // It changes nothing, so there is nothing to redirect to.
  app.post('/webhooks/:id/test', forAdmins, async (request, reply) => {
    const id = idOf(request, noun);
    const result = await testEndpoint(managementOf(request), app.webhookSender, id, request.requester.signal);
    const words = `The test was sent. ${outcomeOf(result)}.`;
    return showEndpoint(request, reply, notice(words, result.ok ? 'good' : 'bad'));
  });

  formRoutes(app, '/webhooks/:id/replay', forAdmins, {
    show: showReplay,
    act: async (request) => {
      const id = idOf(request, noun);
      const from = new Date(`${text(fieldsOf(request), 'from')}Z`);
      if (Number.isNaN(from.getTime()))
        throw validationFailed([{ path: '/from', message: 'choose a date and a time' }]);
      await replayEndpoint(managementOf(request), id, from.toISOString());
      return `${pathOf({ id })}?done=replay`;
    },
  });

  const question = (
    verb: string,
    ask: (endpoint: Endpoint) => Pick<Confirmation, 'title' | 'text'>,
    act: Parameters<typeof questionRoutes>[3]['act'],
  ) =>
    questionRoutes(app, `/webhooks/:id/${verb}`, forAdmins, {
      ask: async (request) => {
        const endpoint = await requireShown(request);
        return { ...ask(endpoint), back: pathOf(endpoint) };
      },
      act,
    });

  question(
    'rotate',
    ({ url }) => ({
      title: 'Rotate the secret',
      text: html`<strong>${url}</strong> gets a new secret, which is shown once. For 24 hours each delivery is signed
        with the previous one too.`,
    }),
    async (request, reply) => {
      const id = idOf(request, noun);
      return showSecret(request, reply, await once(request, secretRotation(managementOf(request), id)));
    },
  );

  question(
    'delete',
    ({ url }) => ({
      title: 'Delete the endpoint',
      text: html`<strong>${url}</strong> gets no events any more. What waits for it is not sent.`,
    }),
    async (request) => {
      const { customerId } = request.caller;
      const id = idOf(request, noun);
      await request.db.transaction((sql) => deleteEndpoint(sql, customerId, id, actorOf(request)));
      return `${section}?done=deleted`;
    },
  );
}

const noun = 'webhook endpoint';

const managementOf = (request: FastifyRequest): Management => ({
  db: request.db,
  config: request.server.config,
  customerId: request.caller.customerId,
  by: actorOf(request),
});

async function requireShown(request: FastifyRequest): Promise<Endpoint> {
  const id = idOf(request, noun);
  const endpoint = (await showEndpoints(managementOf(request))).find((one) => one.id === id);
  if (!endpoint) throw notFound(noun);
  return endpoint;
}

function draftOf(request: FastifyRequest): EndpointDraft {
  const fields = fieldsOf(request);
  return {
    url: text(fields, 'url').trim(),
    types: values(fields, 'types', eventTypes.length) as EndpointDraft['types'],
    bulk: text(fields, 'bulk') === 'on',
    description: linesIn(fields, 'description'),
  };
}

async function activate(request: FastifyRequest, reply: FastifyReply, active: boolean): Promise<FastifyReply> {
  const id = idOf(request, noun);
  await updateEndpoint(managementOf(request), id, { active });
  return goTo(reply, `${pathOf({ id })}?done=${active ? 'enabled' : 'disabled'}`);
}

const notices: Record<string, string> = {
  deleted: 'The endpoint is deleted.',
  changed: 'The endpoint is changed.',
  enabled: 'The endpoint is active. It gets what happens from now on.',
  disabled: 'The endpoint is inactive. It gets nothing.',
  replay: 'The replay has begun.',
};

function showList(request: FastifyRequest, reply: FastifyReply, endpoints: readonly Endpoint[]): FastifyReply {
  const add = linkButton('New endpoint', `${section}/new`);
  const body = html`!${doneNotice(request, notices)}
  !${table(
    'Webhooks',
    columns,
    endpoints,
    empty('No endpoints yet', 'An endpoint is a URL of yours that gets a message when something changes.', add, 'hook'),
  )}`;
  const actions = endpoints.length > 0 && endpoints.length < maxEndpoints ? add : '';
  return sendPage(request, reply, { title: 'Webhooks', body, actions });
}

const columns: readonly Column<Endpoint>[] = [
  [
    'Endpoint',
    (one) =>
      html`<a href="${pathOf(one)}">${one.url}</a>
        !${one.description === '' ? '' : html`<br /><span class="quiet">${one.description}</span>`}`,
    'long',
  ],
  [
    'State',
    (one) => html`!${stateOf(one)} !${troubleOf(one) && html`<br /><small class="fault">!${troubleOf(one)}</small>`}`,
  ],
  ['Waiting', waitingOf, 'number'],
  ['Last success', ({ last_success_at }) => moment(last_success_at, 'Never')],
  ['Last failure', ({ last_failure_at }) => moment(last_failure_at, 'Never')],
];

const blank: EndpointDraft = { url: '', types: [], bulk: false, description: '' };

const showNew = (request: FastifyRequest, { faults }: Refused): FormPage => ({
  title: 'New endpoint',
  lead: html`<p class="lead">What you choose here is sent to your URL when it happens. The secret is shown once.</p>`,
  body: endpointForm(request.method === 'POST' ? draftOf(request) : blank, faults, 'Create the endpoint', section),
  attributes: 'data-once',
});

const settingsOf = ({ url, types, bulk, description }: Endpoint): EndpointDraft => ({ url, types, bulk, description });

async function showEdit(request: FastifyRequest, { faults }: Refused): Promise<FormPage> {
  const stored = await requireShown(request);
  const draft = request.method === 'POST' ? draftOf(request) : settingsOf(stored);
  const path = pathOf(stored);
  return {
    title: 'Change the endpoint',
    body: html`!${versionField(settingsOf(stored))} !${endpointForm(draft, faults, 'Save', path)}`,
  };
}

/** Sends the only page that contains a secret. Says so if the form was sent before. */
function showSecret(request: FastifyRequest, reply: FastifyReply, issued: Issued | undefined): FastifyReply {
  if (!issued) return sendIssuedBefore(request, reply, { what: 'secret', advice: 'rotate it to get a new one.' });
  return sendSecret(request, reply, {
    title: 'Your new secret',
    lead: html`This is the secret of ${issued.url}. Store it now, in the place where your receiver reads its secrets: it
    is not shown again.`,
    label: 'Secret',
    value: issued.secret,
    advice: html`<p>Your receiver verifies each message with it, by a library of Standard Webhooks.</p>`,
    next: pathOf(issued),
  });
}

async function showEndpoint(request: FastifyRequest, reply: FastifyReply, done: Html = doneNotice(request, notices)) {
  const endpoint = await requireShown(request);
  const path = pathOf(endpoint);
  const ok = text(queryOf(request), 'ok');
  const page = pageNumberOf(request);
  const query = { paginate: { page }, filters: ok === 'true' || ok === 'false' ? { ok: ok === 'true' } : {} };
  const { customerId } = request.caller;
  const deliveries = await request.db.search((sql) => listDeliveries(sql, customerId, endpoint.id, query));
  const pageUrl = (number: number) => `${path}?${new URLSearchParams({ ok, page: String(number) }).toString()}`;
  const post = (verb: string, label: string) =>
    form(request, reply, {
      action: `${path}/${verb}`,
      body: html`<button class="secondary outline">${label}</button>`,
    });
  const link = (verb: string, label: string, style = 'secondary') =>
    linkButton(label, `${path}/${verb}`, `${style} outline`, verb === 'edit' ? '' : 'data-dialog');
  const body = html`!${done} !${troubleOf(endpoint) && html`<p class="notice warning">!${troubleOf(endpoint)}</p>`}
    <div class="card">
      !${endpoint.description === '' ? '' : html`<p>${endpoint.description}</p>`} !${factsOf(endpoint)}
      <div class="buttons small">
        !${post('test', 'Send a test')} !${link('replay', 'Send again')} !${link('edit', 'Change')}
        !${link('rotate', 'Rotate the secret')}
        !${endpoint.active ? post('disable', 'Disable') : post('enable', 'Enable')}
        !${link('delete', 'Delete', 'danger')}
      </div>
    </div>
    <h2>Deliveries</h2>
    <form class="filters" method="get" action="${path}">
      !${filterChoice(
        'ok',
        'Outcome',
        [
          ['', 'any'],
          ['true', 'delivered'],
          ['false', 'failed'],
        ],
        ok,
      )}
      <button class="secondary outline">Show</button>
    </form>
    !${table('Deliveries', deliveryColumns, deliveries, empty('No deliveries', 'What was sent in the last 30 days is listed here.'))}
    !${numberedPager(page, deliveries.length === defaultLimit, pageUrl)}`;
  return sendPage(request, reply, { title: endpoint.url, body });
}

async function showReplay(request: FastifyRequest, { faults }: Refused): Promise<FormPage> {
  const endpoint = await requireShown(request);
  const hourAgo = new Date(Date.now() - 3_600_000).toISOString().slice(0, 16);
  const since = { name: 'from', label: 'Since (UTC)', faults };
  return {
    title: 'Send again',
    body: html`<p>What was recorded since this time is sent to <strong>${endpoint.url}</strong> again.</p>
      !${inputField(since, hourAgo, 'datetime-local', 'required')} !${buttons('Send again', pathOf(endpoint))}`,
    isNarrow: true,
  };
}
