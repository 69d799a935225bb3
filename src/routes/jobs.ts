import { Type, type FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { rowsOf } from '../plugins/record-routes.ts';
import { spenderOf, type Caller } from '../access/credentials.ts';
import type { Transaction } from '../database/db.ts';
import { jobCode, prepareJob, type Planner } from '../jobs/job-types.ts';
import { cancelJob, estimateOf, startJob } from '../jobs/start-job.ts';
import { pageById } from '../queries/records/finders.ts';
import { requireJobView, listItems, listJobs } from '../queries/jobs/jobs.ts';
import * as schemas from '../schemas/jobs.ts';
import { ErrorBody, IdParams, ShortageBody } from '../schemas/wire.ts';
import { routesOf } from '../schemas/scopes.ts';

const about = routesOf('jobs', { access: { anyScope: schemas.jobScopes } });

const serviceJobs: FastifyPluginAsyncTypebox = async (app) => {
  for (const type of schemas.jobTypes) {
    const { call, access, pool } = schemas.jobTable[type];
    if (!call) continue;
    const { operationId, summary, description, body, estimate } = call;
    const answer = estimate ? Type.Union([schemas.JobStarted, estimate]) : schemas.JobStarted;
    const response = { 200: answer, ...(pool && { 402: ShortageBody }), 404: ErrorBody };
    app.post(
      `/service-handler/${type.replaceAll('_', '-')}`,
      about(
        operationId,
        summary,
        description,
        { body, response },
        { access, limit: 'jobs', idempotent: true, mayNeedApproval: true },
      ),
      (request, reply) => startOrEstimate(type, request, reply, { body: request.body }),
    );
  }

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

interface StartOptions {
  body: { dry_run?: boolean; max_credits?: number; list_id?: string };
  toAnswer?: (job: schemas.JobStarted) => object;
}

/** Starts a job, or returns what it would cost with `dry_run`. */
export function startOrEstimate(
  type: schemas.JobType,
  request: FastifyRequest,
  reply: FastifyReply,
  { body, toAnswer = (job) => job }: StartOptions,
): Promise<FastifyReply> {
  const { toEstimate = (estimate: schemas.Estimate) => estimate } = jobCode[type].start!;
  const spender = spenderOf(request.caller, body.max_credits);
  const size = async (sql: Transaction, plan: Planner) => {
    const { reserved: credits, total, records = total } = await plan(sql, spender);
    return { credits, records };
  };
  return request.server.once<Planner>(
    request,
    reply,
    async (sql, plan) => {
      const job = await plan(sql, spender);
      if (body.dry_run) return toEstimate(await estimateOf(sql, spender, job));
      return toAnswer(await startJob(sql, spender, job));
    },
    { prepare: () => prepareJob(type, request, body), size: body.dry_run ? undefined : size },
  );
}

const visibleTo = (caller: Caller): schemas.VisibleJobs =>
  schemas.visibleJobs(caller.kind === 'key' ? caller.scopes : []);
