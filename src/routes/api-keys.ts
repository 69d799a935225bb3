import { Type, type FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { capKey, issueKey, replaceKey, revokeKey, type Issued } from '../accounts/api-keys.ts';
import { batchLookups } from '../database/batch-lookups.ts';
import { notFound } from '../errors.ts';
import { actorOf } from '../plugins/credentials/auth.ts';
import { findKeyVersions, listApiKeys, type KeyVersion } from '../queries/accounts/api-keys.ts';
import {
  ApiKey,
  ChangedKey,
  IssuedKey,
  KeyChange,
  keyLimits,
  KeyRequest,
  SpendCapsChange,
} from '../schemas/api-keys.ts';
import { Done, ErrorBody, IdParams } from '../schemas/base/wire.ts';

const config = { access: { session: 'admin' } } as const;
const tags = ['api keys'];

const apiKeys: FastifyPluginAsyncTypebox = async (app) => {
  // Rotations that arrive together read the same version of the key before any of them writes, so at most one succeeds.
  const findVersion = batchLookups(
    ({ customer_id, id }: Pick<KeyVersion, 'customer_id' | 'id'>) => `${customer_id} ${id}`,
    (keys) => app.db.credentials((sql) => findKeyVersions(sql, keys)),
    (version) => version,
  );

  app.post(
    '/generate',
    {
      config,
      schema: {
        operationId: 'generateApiKey',
        summary: 'Create an API key',
        description:
          'Creates an API key. Only this response shows its value: store it now. Keys expire after 7, 30, 90 or 365 ' +
          `days. A customer can have ${keyLimits.live} keys that are neither revoked nor expired; one more is 409.`,
        tags,
        body: KeyRequest,
        response: { 201: IssuedKey, 409: ErrorBody },
      },
    },
    async (request, reply) => {
      const { db, caller, body } = request;
      const key = await db.transaction((sql) => issueKey(sql, caller, body, app.config.KEY_PREFIX, actorOf(request)));
      return reply.code(201).header('cache-control', 'no-store').send(issued('API key generated', key));
    },
  );

  app.get(
    '',
    {
      config,
      schema: {
        operationId: 'listApiKeys',
        summary: 'List API keys',
        description:
          'Returns the API keys of the customer, newest first: all that are neither revoked nor expired, and the ' +
          `${keyLimits.endedShown} that ended last. The keys themselves are never shown.`,
        tags,
        response: { 200: Type.Array(ApiKey) },
      },
    },
    (request) => request.db.lookup((sql) => listApiKeys(sql, request.caller.customerId)),
  );

  app.patch(
    '/update/:id',
    {
      config,
      schema: {
        operationId: 'rotateApiKey',
        summary: 'Rotate an API key',
        description:
          'Gives an API key a new value; the previous one stops working at once. Its lifetime starts anew. Name, ' +
          'lifetime, scopes and spend caps can be changed with it; what is not sent stays, and so does what the key ' +
          'has spent. A revoked or expired key is 409. If ' +
          'two rotations of a key come at once, one of them is 409.',
        tags,
        params: IdParams,
        body: KeyChange,
        response: { 200: IssuedKey, 409: ErrorBody },
      },
    },
    async (request, reply) => {
      const before = await findVersion({ customer_id: request.caller.customerId, id: request.params.id });
      const key = await request.db.transaction((sql) =>
        replaceKey(sql, before, request.body, app.config.KEY_PREFIX, actorOf(request)),
      );
      return reply.header('cache-control', 'no-store').send(issued('API key rotated', key));
    },
  );

  app.patch(
    '/spend-caps/:id',
    {
      config,
      schema: {
        operationId: 'changeSpendCaps',
        summary: 'Change what an API key may spend',
        description:
          'Changes the spend caps of an API key, with effect on the next job that it starts. The key keeps its value. ' +
          'A pool that is not named keeps its cap; `null` takes it away. What the key has spent stays. A revoked or ' +
          'expired key is 409.',
        tags,
        params: IdParams,
        body: SpendCapsChange,
        response: { 200: ChangedKey, 409: ErrorBody },
      },
    },
    async (request) => {
      const { caller, params, body } = request;
      const data = await request.db.transaction((sql) =>
        capKey(sql, caller.customerId, params.id, body.spend_caps, actorOf(request)),
      );
      return { success: true as const, message: 'Spend caps changed', data };
    },
  );

  app.patch(
    '/revoke/:id',
    {
      config,
      schema: {
        operationId: 'revokeApiKey',
        summary: 'Revoke an API key',
        description:
          'Revokes an API key for good: it stops working at once. Revoking a revoked key changes nothing and ' +
          'succeeds.',
        tags,
        params: IdParams,
        response: { 200: Done },
      },
    },
    async (request) => {
      const { customerId } = request.caller;
      const known = await request.db.transaction((sql) =>
        revokeKey(sql, customerId, request.params.id, actorOf(request)),
      );
      if (!known) throw notFound('API key');
      return { success: true as const, message: 'API key revoked' };
    },
  );
};

export default apiKeys;

const issued = (message: string, data: Issued): IssuedKey => ({ success: true, message, data });
