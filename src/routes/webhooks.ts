import { Type, type FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { FastifyRequest } from 'fastify';
import {
  endpointCreation,
  secretRotation,
  replayEndpoint,
  requireVisible,
  showEndpoints,
  testEndpoint,
  updateEndpoint,
} from '../accounts/webhooks.ts';
import type { Management } from '../accounts/webhooks.ts';
import { actorOf } from '../plugins/auth.ts';
import { rowsOf } from '../plugins/record-routes.ts';
import { pageById } from '../queries/records/finders.ts';
import { listDeliveries, deleteEndpoint, requireEndpoint } from '../queries/accounts/webhook-endpoints.ts';
import { type Access, routesOf } from '../schemas/scopes.ts';
import { done, Done, doneWith, DoneWithId, ErrorBody, IdParams } from '../schemas/wire.ts';
import * as schemas from '../schemas/webhooks.ts';
import { whollyReadableEvents } from '../schemas/events.ts';

const webhooks: FastifyPluginAsyncTypebox<{ by: 'session' | 'key' }> = async (app, { by }) => {
  const access: Access = by === 'key' ? { scope: 'webhooks:manage' } : { session: 'admin' };
  const about = routesOf('webhooks', { access });
  const idOf = (name: string): string => (by === 'key' ? `${name}ByKey` : name);
  // A key does not see an endpoint with types that it may not read.
  if (by === 'key')
    app.addHook('preHandler', async (request) => {
      const { id } = request.params as { id?: string };
      if (id !== undefined) await requireVisible(managementOf(request), id);
    });

  app.post(
    '',
    about(
      idOf('createWebhook'),
      'Create a webhook endpoint',
      'Creates an endpoint: from now on, events of these types are sent to its URL. Only this response shows the ' +
        `secret that signs them: store it now. A customer can have ${schemas.maxEndpoints} endpoints; one more is 409.`,
      { body: schemas.EndpointRequest, response: { 201: schemas.IssuedEndpoint, 409: ErrorBody } },
    ),
    async (request, reply) => {
      const create = await endpointCreation(managementOf(request), request.body);
      const endpoint = await request.db.transaction(create);
      return reply.code(201).header('cache-control', 'no-store').send(doneWith('Webhook endpoint created', endpoint));
    },
  );

  app.get(
    '',
    about(
      idOf('listWebhooks'),
      'List webhook endpoints',
      'Returns the endpoints of the customer, newest first, with their state. Secrets are never shown.',
      { response: { 200: Type.Array(schemas.Endpoint) } },
    ),
    (request) => showEndpoints(managementOf(request)),
  );

  app.patch(
    '/:id',
    about(
      idOf('updateWebhook'),
      'Change a webhook endpoint',
      'Changes an endpoint; what is not sent stays. With `active: false` nothing is sent any more. What happens ' +
        'while an endpoint is inactive is not sent when it is active again; a replay sends it.',
      { params: IdParams, body: schemas.EndpointChange, response: { 200: schemas.ChangedEndpoint } },
    ),
    async (request) => {
      const data = await updateEndpoint(managementOf(request), request.params.id, request.body);
      return doneWith('Webhook endpoint updated', data);
    },
  );

  app.delete(
    '/:id',
    about(
      idOf('deleteWebhook'),
      'Delete a webhook endpoint',
      'Deletes an endpoint. What waits for it is not sent any more.',
      { params: IdParams, response: { 200: DoneWithId } },
    ),
    async (request) => {
      const { db, caller, params } = request;
      await db.transaction((sql) => deleteEndpoint(sql, caller.customerId, params.id, actorOf(request)));
      return done('Webhook endpoint deleted', params.id);
    },
  );

  app.post(
    '/:id/rotate',
    about(
      idOf('rotateWebhookSecret'),
      'Rotate the secret of a webhook endpoint',
      'Gives an endpoint a new secret, which only this response shows. For 24 hours each delivery carries two ' +
        'signatures, by the new and by the previous secret.',
      { params: IdParams, response: { 200: schemas.IssuedEndpoint } },
    ),
    async (request, reply) => {
      const endpoint = await request.db.transaction(secretRotation(managementOf(request), request.params.id));
      return reply.header('cache-control', 'no-store').send(doneWith('Webhook secret rotated', endpoint));
    },
  );

  app.post(
    '/:id/test',
    about(
      idOf('testWebhook'),
      'Send a test to a webhook endpoint',
      'Sends an event of the type `webhook.test` now, to an inactive endpoint too, and waits 8 seconds for the ' +
        'answer. The test is not listed among the deliveries.',
      { params: IdParams, response: { 200: schemas.TestResult } },
    ),
    (request) => testEndpoint(managementOf(request), app.webhookSender, request.params.id, request.requester.signal),
  );

  app.post(
    '/:id/replay',
    about(
      idOf('replayWebhook'),
      'Send events to a webhook endpoint again',
      'Sends again what was recorded since a time, but nothing from before the endpoint was created. It is under ' +
        'way until each event was tried once; a second replay meanwhile is 409. New events follow after it.',
      { params: IdParams, body: schemas.ReplayRequest, response: { 200: Done, 409: ErrorBody } },
    ),
    async (request) => {
      await replayEndpoint(managementOf(request), request.params.id, request.body.from);
      return { success: true as const, message: 'Replay started' };
    },
  );

  app.post(
    '/:id/deliveries',
    about(
      idOf('listWebhookDeliveries'),
      'List the deliveries to a webhook endpoint',
      'Returns the tries to deliver events to an endpoint in the last 30 days, newest first.',
      { params: IdParams, body: schemas.DeliveriesQuery, response: { 200: Type.Array(schemas.Delivery) } },
    ),
    async ({ db, caller: { customerId }, params: { id }, body }, reply) => {
      await db.lookup((sql) => requireEndpoint(sql, customerId, id));
      const { filters = {} } = body;
      const page = await pageById(['deliveries', id, filters], customerId, body.paginate, (paginate) =>
        db.search((sql) => listDeliveries(sql, customerId, id, { filters, paginate })),
      );
      return rowsOf(reply, page);
    },
  );
};

export default webhooks;

const managementOf = (request: FastifyRequest): Management => {
  const { caller, db, server } = request;
  const key = caller.kind === 'key' && { id: caller.keyId, types: whollyReadableEvents(caller.scopes) };
  return { db, config: server.config, customerId: caller.customerId, by: actorOf(request), ...(key && { key }) };
};
