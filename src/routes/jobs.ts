import { Type, type FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { rowsOf } from '../plugins/record-routes.ts';
import { spenderOf, type Caller, type Spender } from '../access/credentials.ts';
import type { Transaction } from '../database/db.ts';
import { cancelJob, estimateOf, startJob, type Plan } from '../jobs/start-job.ts';
import type { Config } from '../process/config.ts';
import { findChosen, findChosenIfUp, planSelectedUnlock, planUnlock, searchOf } from '../jobs/unlocks.ts';
import { findEnriched, planEnrichment, toEnrichEstimate } from '../jobs/enrichment.ts';
import { planEmailVerification } from '../jobs/start-verification.ts';
import { pageById } from '../queries/records/finders.ts';
import { requireJobView, listItems, listJobs } from '../queries/jobs/jobs.ts';
import { EnrichContacts, EnrichEstimate } from '../schemas/clean-data.ts';
import { eventReaders } from '../schemas/events.ts';
import * as schemas from '../schemas/jobs.ts';
import { ErrorBody, IdParams, ShortageBody } from '../schemas/wire.ts';
import { routesOf } from '../schemas/scopes.ts';

const starting = { limit: 'jobs', idempotent: true, mayNeedApproval: true } as const;
const unlocking = { access: { scope: 'payment_prospect:create' }, ...starting } as const;
const verifying = { access: { scope: 'verify_email:create' }, ...starting } as const;
const about = routesOf('jobs', { access: { anyScope: eventReaders['job.ended'] } });

const serviceJobs: FastifyPluginAsyncTypebox = async (app) => {
  app.post(
    '/service-handler/unlock-contacts',
    about(
      'unlockProspects',
      'Unlock the prospects that match a filter',
      'Starts a job that unlocks the first `total_records` matching prospects that are not unlocked yet, in the ' +
        'order of `order_by`. It reserves the credits that this can cost at most; too few are 402, and nothing ' +
        'starts. With `dry_run` the response is an estimate, and nothing happens. With `sync_crm` or `list_ids` the ' +
        'unlocked prospects become contacts.',
      {
        body: schemas.UnlockContacts,
        response: { 200: Type.Union([schemas.JobStarted, schemas.Estimate]), 402: ShortageBody, 404: ErrorBody },
      },
      unlocking,
    ),
    async (request, reply) => {
      const { body, caller, catalog } = request;
      const search = searchOf(caller.customerId, body);
      return begin(request, reply, body, planUnlock, () => catalog.count(search));
    },
  );

  app.post(
    '/service-handler/unlock-selected-contacts',
    about(
      'unlockSelectedProspects',
      'Unlock prospects by id',
      'Starts a job that unlocks the named prospects. It reserves the credits that this can cost at most; too ' +
        'few are 402, and nothing starts. Prospects that are unlocked already cost nothing; unknown ids are ' +
        'failed items. With `dry_run` the response is an estimate, and nothing happens.',
      {
        body: schemas.UnlockSelectedContacts,
        response: { 200: Type.Union([schemas.JobStarted, schemas.Estimate]), 402: ShortageBody, 404: ErrorBody },
      },
      unlocking,
    ),
    async (request, reply) => {
      const { body, catalog } = request;
      const find = body.dry_run ? findChosen : findChosenIfUp;
      return begin(request, reply, body, planSelectedUnlock, () => find(catalog, body.ids));
    },
  );

  app.post(
    '/service-handler/verify-email',
    about(
      'verifyEmails',
      'Verify e-mail addresses',
      'Starts a job that verifies e-mail addresses. It reserves one verification credit for each distinct ' +
        'address; too few are 402, and nothing starts. An address whose verification ends `unknown` costs ' +
        'nothing. So does one that was verified for this customer in the last 24 hours: its result is reused, ' +
        'unless `fresh` is true. With `dry_run` the response is an estimate, and nothing happens.',
      {
        body: schemas.VerifyEmail,
        response: {
          200: Type.Union([schemas.JobStarted, schemas.VerificationEstimate]),
          402: ShortageBody,
          404: ErrorBody,
        },
      },
      verifying,
    ),
    async (request, reply) => begin(request, reply, request.body, planEmailVerification, async () => undefined),
  );

  app.post(
    '/service-handler/enrich-contacts',
    about(
      'enrichContacts',
      'Enrich contacts from the catalog',
      'Starts a job that finds each contact in the catalog (by its e-mail addresses, else as `/prospect/match`), unlocks ' +
        'the person and fills the empty fields of the contact. A person who is unlocked already costs nothing; where a new ' +
        'person would fill nothing, nobody is unlocked. It reserves at most `max_credits`; too few are 402, and nothing ' +
        'starts. With `dry_run` the response is an estimate, and nothing happens.',
      {
        body: EnrichContacts,
        response: {
          200: Type.Union([schemas.JobStarted, EnrichEstimate]),
          402: ShortageBody,
          404: ErrorBody,
        },
      },
      { access: { allScopes: ['payment_prospect:create', 'contacts:update'] }, ...starting },
    ),
    async (request, reply) => {
      const { body, caller, db } = request;
      return begin(
        request,
        reply,
        body,
        async (_sql, _spender, costs, given: EnrichContacts, ids: string[]) => planEnrichment(costs, given, ids),
        () => findEnriched(db, caller.customerId, body),
        toEnrichEstimate,
      );
    },
  );

  app.get(
    '/service-handler/:id',
    about(
      'getJob',
      'Read a job',
      'Returns the progress and the cost of a job. Ask again until `status` is COMPLETED, FAILED or CANCELLED. ' +
        'A job that this key could not have started is 404.',
      { params: IdParams, response: { 200: schemas.Job } },
    ),
    ({ db, caller, params }) =>
      db.lookup((sql) => requireJobView(sql, caller.customerId, params.id, visibleTo(caller))),
  );

  app.post(
    '/service-handler/list',
    about('listJobs', 'List jobs', 'Returns one page of the jobs that this key could have started, newest first.', {
      body: schemas.JobQuery,
      response: { 200: Type.Array(schemas.Job) },
    }),
    async ({ db, caller, body: { filters = {}, paginate } }, reply) => {
      const { customerId } = caller;
      const page = await pageById(['jobs', filters], customerId, paginate, (asked) =>
        db.search((sql) => listJobs(sql, customerId, { filters, paginate: asked }, visibleTo(caller))),
      );
      return rowsOf(reply, page);
    },
  );

  app.post(
    '/service-handler/:id/results',
    about(
      'listJobResults',
      'List the results of a job',
      'Returns one page of the results of a job, one for each item that is done. They are there while the job ' +
        'runs, and for 30 days after it ended. A full page has the header `x-next-cursor`.',
      { params: IdParams, body: schemas.JobItemQuery, response: { 200: Type.Array(schemas.JobItem) } },
    ),
    async ({ db, caller, params, body }, reply) =>
      rowsOf(reply, await listItems(db, caller.customerId, params.id, body.paginate, visibleTo(caller))),
  );

  app.post(
    '/service-handler/:id/cancel',
    about(
      'cancelJob',
      'Cancel a job',
      'Ends a job. Results that are there stay and were charged; credits that were not spent come back. A job ' +
        'that has ended is 409.',
      { params: IdParams, response: { 200: schemas.Job, 409: ErrorBody } },
    ),
    ({ db, caller, params }) =>
      db.transaction(async (sql) => {
        await cancelJob(sql, caller.customerId, params.id, visibleTo(caller));
        return requireJobView(sql, caller.customerId, params.id, visibleTo(caller));
      }),
  );
};

export default serviceJobs;

/**
 * Answers a call that starts a job: starts it, or estimates it if the call is a dry run.
 * @param plan returns the job for the body and what `prepare` has found
 */
function begin<Body extends { dry_run?: boolean; max_credits?: number }, T>(
  request: FastifyRequest,
  reply: FastifyReply,
  body: Body,
  plan: (sql: Transaction, spender: Spender, config: Config, body: Body, prepared: T) => Promise<Plan>,
  prepare: () => Promise<T>,
  estimated: (price: schemas.Estimate) => object = (price) => price,
): Promise<FastifyReply> {
  const { config } = request.server;
  const spender = spenderOf(request.caller, body.max_credits);
  const planned = (sql: Transaction, prepared: T) => plan(sql, spender, config, body, prepared);
  const size = async (sql: Transaction, prepared: T) => {
    const { reserved: credits, total, records = total } = await planned(sql, prepared);
    return { credits, records };
  };
  return request.server.once<T>(
    request,
    reply,
    async (sql, prepared) => {
      const job = await planned(sql, prepared);
      return body.dry_run ? estimated(await estimateOf(sql, spender, job)) : startJob(sql, spender, job);
    },
    { prepare, size: body.dry_run ? undefined : size },
  );
}

const visibleTo = (caller: Caller): schemas.VisibleJobs =>
  schemas.visibleJobs(caller.kind === 'key' ? caller.scopes : []);
