import { Type, type FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { setSpendCaps, issueKey, replaceKey, revokeKey, type Issued } from '../accounts/api-keys.ts';
import { decideCall } from '../plugins/approvals.ts';
import { listApprovals, requireApproval } from '../queries/accounts/approvals.ts';
import { approvalScopes } from '../schemas/scopes.ts';
import {
  Approval,
  ApprovalDecision,
  approvalDays,
  approvalHours,
  DecidedApproval,
  ListedApproval,
  ApiKey,
  ChangedKey,
  IssuedKey,
  KeyChange,
  keyLimits,
  KeyRequest,
  SpendCapsChange,
} from '../schemas/accounts.ts';
import { batchLookups } from '../database/db.ts';
import { notFound } from '../errors.ts';
import { actorOf } from '../plugins/auth.ts';
import { findKeyVersions, listApiKeys, type KeyVersion } from '../queries/accounts/api-keys.ts';
import { Done, ErrorBody, IdParams } from '../schemas/wire.ts';

const config = { access: { session: 'admin' } } as const;
const tags = ['api keys'];

const apiKeys: FastifyPluginAsyncTypebox = async (app) => {
  void app.register(keys, { prefix: '/api/api-key' });
  void app.register(approvals, { prefix: '/api/approval' });
  void app.register(approvalOfKey, { prefix: '/api/ext' });
};

export default apiKeys;

const keys: FastifyPluginAsyncTypebox = async (app) => {
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
          'Changes the spend caps of an API key, and above what its calls need an approval, with effect on its next call. ' +
          'The key keeps its value. What is not named stays; `null` takes it away. What the key has spent stays. A revoked or ' +
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
        setSpendCaps(sql, caller.customerId, params.id, body, actorOf(request)),
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

const issued = (message: string, data: Issued): IssuedKey => ({ success: true, message, data });

const approvals: FastifyPluginAsyncTypebox = async (app) => {
  const config = { access: { session: 'admin' } } as const;
  app.get(
    '',
    {
      config,
      schema: {
        operationId: 'listApprovals',
        summary: 'List the calls that need an approval',
        description:
          `Returns the calls of keys with \`approve_over\` that wait or waited for an admin, newest first. They lapse after ` +
          `${approvalHours} hours, and are kept for ${approvalDays} days.`,
        tags: ['approvals'],
        response: { 200: Type.Array(ListedApproval) },
      },
    },
    (request) => request.db.lookup((sql) => listApprovals(sql, request.caller.customerId)),
  );

  app.patch(
    '/:id',
    {
      config,
      schema: {
        operationId: 'updateApproval',
        summary: 'Approve or refuse a call',
        description:
          'Approved, the call runs once, now, as the key sent it, if the key is still active with its scopes. If it fails, ' +
          'such as for too few credits, or if it would cost or write more by now than was asked for, the response is 409 with ' +
          'the reason, nothing has happened, and it still waits. A call that was decided or has lapsed is 409.',
        tags: ['approvals'],
        params: IdParams,
        body: ApprovalDecision,
        response: { 200: DecidedApproval, 409: ErrorBody },
      },
    },
    async (request) => {
      await decideCall(request, request.params.id, request.body.approve);
      const { customerId } = request.caller;
      const data = await request.db.lookup((sql) => requireApproval(sql, customerId, request.params.id));
      return { success: true as const, message: `Call ${data.status}`, data };
    },
  );
};

const approvalOfKey: FastifyPluginAsyncTypebox = async (app) => {
  app.get(
    '/approval/:id',
    {
      config: { access: { anyScope: approvalScopes } },
      schema: {
        operationId: 'getApproval',
        summary: 'Read what became of a call that needs an approval',
        description: 'Returns the state of a call that was answered with 202, and its response when it ran.',
        tags: ['approvals'],
        params: IdParams,
        response: { 200: Approval },
      },
    },
    ({ db, caller, params }) =>
      db.lookup((sql) =>
        requireApproval(sql, caller.customerId, params.id, caller.kind === 'key' ? caller.keyId : undefined),
      ),
  );
};
