import { Type, type FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { decideCall } from '../plugins/approvals.ts';
import { listApprovals, requireApproval } from '../queries/accounts/approvals.ts';
import { jobScopes } from '../schemas/jobs.ts';
import { routesOf } from '../schemas/scopes.ts';
import * as schemas from '../schemas/accounts.ts';
import { batchLookups } from '../database/db.ts';
import { notFound } from '../errors.ts';
import { actorOf } from '../plugins/auth.ts';
import { findKeyVersions, issueKey, listApiKeys, replaceKey, revokeKey } from '../queries/accounts/api-keys.ts';
import { setSpendCaps, type KeyVersion } from '../queries/accounts/api-keys.ts';
import { Done, doneWith, ErrorBody, IdParams } from '../schemas/wire.ts';

const admin = { access: { session: 'admin' } } as const;
const about = routesOf('api keys', admin);

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
    about(
      'generateApiKey',
      'Create an API key',
      'Creates an API key. Only this response shows its value: store it now. Keys expire after 7, 30, 90 or 365 ' +
        `days. A customer can have ${schemas.keyLimits.live} keys that are neither revoked nor expired; one more is 409.`,
      { body: schemas.KeyRequest, response: { 201: schemas.IssuedKey, 409: ErrorBody } },
    ),
    async (request, reply) => {
      const { db, caller, body } = request;
      const key = await db.transaction((sql) => issueKey(sql, caller, body, app.config.KEY_PREFIX, actorOf(request)));
      return reply.code(201).header('cache-control', 'no-store').send(doneWith('API key generated', key));
    },
  );

  app.get(
    '',
    about(
      'listApiKeys',
      'List API keys',
      'Returns the API keys of the customer, newest first: all that are neither revoked nor expired, and the ' +
        `${schemas.keyLimits.endedShown} that ended last. The keys themselves are never shown.`,
      { response: { 200: Type.Array(schemas.ApiKey) } },
    ),
    (request) => request.db.lookup((sql) => listApiKeys(sql, request.caller.customerId)),
  );

  app.patch(
    '/update/:id',
    about(
      'rotateApiKey',
      'Rotate an API key',
      'Gives an API key a new value; the previous one stops working at once. Its lifetime starts anew. Name, ' +
        'lifetime, scopes and spend caps can be changed with it; what is not sent stays, and so does what the key ' +
        'has spent. A revoked or expired key is 409. If ' +
        'two rotations of a key come at once, one of them is 409.',
      { params: IdParams, body: schemas.KeyChange, response: { 200: schemas.IssuedKey, 409: ErrorBody } },
    ),
    async (request, reply) => {
      const before = await findVersion({ customer_id: request.caller.customerId, id: request.params.id });
      const key = await request.db.transaction((sql) =>
        replaceKey(sql, before, request.body, app.config.KEY_PREFIX, actorOf(request)),
      );
      return reply.header('cache-control', 'no-store').send(doneWith('API key rotated', key));
    },
  );

  app.patch(
    '/spend-caps/:id',
    about(
      'changeSpendCaps',
      'Change what an API key may spend',
      'Changes the spend caps of an API key, and above what its calls need an approval, with effect on its next call. ' +
        'The key keeps its value. What is not named stays; `null` takes it away. What the key has spent stays. A revoked or ' +
        'expired key is 409.',
      { params: IdParams, body: schemas.SpendCapsChange, response: { 200: schemas.ChangedKey, 409: ErrorBody } },
    ),
    async (request) => {
      const { caller, params, body } = request;
      const data = await request.db.transaction((sql) =>
        setSpendCaps(sql, caller.customerId, params.id, body, actorOf(request)),
      );
      return doneWith('Spend caps changed', data);
    },
  );

  app.patch(
    '/revoke/:id',
    about(
      'revokeApiKey',
      'Revoke an API key',
      'Revokes an API key for good: it stops working at once. Revoking a revoked key changes nothing and ' +
        'succeeds.',
      { params: IdParams, response: { 200: Done } },
    ),
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

const approvals: FastifyPluginAsyncTypebox = async (app) => {
  const about = routesOf('approvals', admin);
  app.get(
    '',
    about(
      'listApprovals',
      'List the calls that need an approval',
      `Returns the calls of keys with \`approve_over\` that wait or waited for an admin, newest first. They lapse after ` +
        `${schemas.approvalHours} hours, and are kept for ${schemas.approvalDays} days.`,
      { response: { 200: Type.Array(schemas.ListedApproval) } },
    ),
    (request) => request.db.lookup((sql) => listApprovals(sql, request.caller.customerId)),
  );

  app.patch(
    '/:id',
    about(
      'updateApproval',
      'Approve or refuse a call',
      'Approved, the call runs once, now, as the key sent it, if the key is still active with its scopes. If it fails, ' +
        'such as for too few credits, or if it would cost or write more by now than was asked for, the response is 409 with ' +
        'the reason, nothing has happened, and it still waits. A call that was decided or has lapsed is 409.',
      { params: IdParams, body: schemas.ApprovalDecision, response: { 200: schemas.DecidedApproval, 409: ErrorBody } },
    ),
    async (request) => {
      await decideCall(request, request.params.id, request.body.approve);
      const { customerId } = request.caller;
      const data = await request.db.lookup((sql) => requireApproval(sql, customerId, request.params.id));
      return doneWith(`Call ${data.status}`, data);
    },
  );
};

const approvalOfKey: FastifyPluginAsyncTypebox = async (app) => {
  app.get(
    '/approval/:id',
    routesOf('approvals')(
      'getApproval',
      'Read what became of a call that needs an approval',
      'Returns the state of a call that was answered with 202, and its response when it ran.',
      { params: IdParams, response: { 200: schemas.Approval } },
      // Every call that may need an approval starts a job, or needs a scope that undoing it needs, too.
      { access: { anyScope: jobScopes } },
    ),
    ({ db, caller, params }) =>
      db.lookup((sql) =>
        requireApproval(sql, caller.customerId, params.id, caller.kind === 'key' ? caller.keyId : undefined),
      ),
  );
};
