import { Type, type Static } from '@sinclair/typebox';
import { Enum, Instant, Nullable, PaginateOrContinue, Strict, DoneWith, Text, Uuid, Named } from './wire.ts';
import { eventTypes } from './events.ts';

export const maxEndpoints = 10;

const deliveryErrors = ['dns', 'address', 'connect', 'tls', 'timeout', 'status', 'redirect'] as const;
export type DeliveryError = (typeof deliveryErrors)[number];

const disablingReasons = ['gone', 'failing', 'revoked'] as const;
export type DisablingReason = (typeof disablingReasons)[number];

const EndpointUrl = () =>
  Type.String({
    minLength: 1,
    maxLength: 2048,
    description:
      'Where events are sent: an `https` URL with a public address, at port 443 or a port from 1024 on, without user and password.',
    examples: ['https://receiver.example.com/webhooks'],
  });

const Types = () =>
  Type.Array(Enum(eventTypes), {
    minItems: 1,
    maxItems: 1000,
    description: 'The types of events that are sent.',
    examples: [['contact.created', 'contact.updated']],
  });

const Bulk = () =>
  Type.Boolean({ description: 'Whether events of records that an import or a job has written are sent too.' });

const Description = () => Text(5_000, 'What the endpoint is for.');

export const EndpointRequest = Strict(
  {
    url: EndpointUrl(),
    types: Types(),
    bulk: Type.Optional(Bulk()),
    description: Type.Optional(Description()),
  },
  { examples: [{ url: 'https://receiver.example.com/webhooks', types: ['contact.created', 'contact.updated'] }] },
);
export type EndpointRequest = Static<typeof EndpointRequest>;

export const EndpointChange = Type.Partial(
  Strict({
    ...EndpointRequest.properties,
    active: Type.Boolean({
      description:
        'Whether events are sent. What happens while an endpoint is inactive is not sent when it is active again.',
    }),
  }),
  { additionalProperties: false, examples: [{ active: false }] },
);
export type EndpointChange = Static<typeof EndpointChange>;

const settings = {
  id: Uuid('Id of the endpoint.'),
  url: Type.String({ description: 'Where events are sent.' }),
  types: Type.Array(Enum(eventTypes), { description: 'The types of events that are sent.' }),
  bulk: Bulk(),
  description: Type.String({ description: 'What the endpoint is for.' }),
  active: Type.Boolean({ description: 'Whether events are sent.' }),
};

const CreatedAt = () => Instant('When the endpoint was created.');

export const Endpoint = Named('WebhookEndpoint', {
  ...settings,
  disabled_reason: Nullable(
    Enum(
      disablingReasons,
      'Why the service has disabled the endpoint: `gone` (it answered 410), `failing` (it only failed for 5 days), `revoked` (the key that made it was revoked). Null: it has not.',
    ),
  ),
  created_at: CreatedAt(),
  last_success_at: Nullable(Instant('When a delivery last succeeded. Null: never.')),
  last_failure_at: Nullable(Instant('When a delivery last failed. Null: never.')),
  failing_since: Nullable(
    Instant('When the first delivery failed after the last success. Null: the last one succeeded.'),
  ),
  waiting: Type.Integer({
    description: 'Events that are not delivered yet. Counted up to 10,000; 10001 means that there are more.',
  }),
  given_up: Type.Integer({ description: 'Events that were given up after the last try. A replay sends them again.' }),
});
export type Endpoint = Static<typeof Endpoint>;

export const IssuedEndpoint = DoneWith(
  'IssuedWebhookEndpoint',
  {
    ...settings,
    secret: Type.String({
      description: 'Signs each delivery. Only this response shows it: store it now.',
      examples: ['whsec_…'],
    }),
    created_at: CreatedAt(),
  },
  'The endpoint.',
);
export type IssuedEndpoint = Static<typeof IssuedEndpoint>;

export type EndpointSettings = Omit<IssuedEndpoint['data'], 'secret'>;

export const ChangedEndpoint = DoneWith(
  'ChangedWebhookEndpoint',
  { ...settings, created_at: CreatedAt() },
  'The endpoint.',
);

const outcome = {
  ok: Type.Boolean({ description: 'Whether the receiver answered with a status from 200 to 299 in time.' }),
  status: Nullable(Type.Integer({ description: 'HTTP status of the answer. Null: there was none.' })),
  error: Nullable(
    Enum(
      deliveryErrors,
      'Why it failed: `dns` (the name has no address), `address` (no address is allowed), `connect`, `tls`, `timeout`, ' +
        '`status` (not 2xx), `redirect` (3xx, which is not followed). Null: it succeeded.',
    ),
  ),
  ms: Type.Integer({ description: 'Time until the status of the answer was known, or until the failure (ms).' }),
};

export const TestResult = Type.Object(outcome, { title: 'WebhookTest' });
export type TestResult = Static<typeof TestResult>;

export const ReplayRequest = Strict(
  {
    from: Instant('Events that were recorded since then are sent again. A few earlier ones may be too.'),
  },
  { examples: [{ from: '2026-03-14T09:00:00Z' }] },
);

export const DeliveriesQuery = Strict(
  {
    paginate: Type.Optional(PaginateOrContinue),
    filters: Type.Optional(
      Strict(
        {
          ok: Type.Optional(
            Type.Boolean({ description: 'Only deliveries that succeeded, or only those that failed.' }),
          ),
        },
        { description: 'Which deliveries.' },
      ),
    ),
  },
  { examples: [{ filters: { ok: false }, paginate: { limit: 50 } }] },
);
export type DeliveriesQuery = Static<typeof DeliveriesQuery>;

export const Delivery = Named('WebhookDelivery', {
  event_id: Uuid('Id of the event; the header `webhook-id`.'),
  type: Enum(eventTypes, 'Type of the event.'),
  attempt: Type.Integer({ description: 'Number of the try for this event. The first is 1.' }),
  ...outcome,
  sent_at: Instant('When the try began.'),
  next_attempt_at: Nullable(Instant('When the event is tried again. Null: not again.')),
});
export type Delivery = Static<typeof Delivery>;
