import { Type, type FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { sizeUnlessDryRun } from '../plugins/approvals.ts';
import { rowsOf } from '../plugins/record-routes.ts';
import { spenderOf, type Caller } from '../access/credentials.ts';
import { cancelJob } from '../jobs/start-job.ts';
import {
  estimateSelectedUnlock,
  estimateUnlock,
  findChosen,
  findChosenIfUp,
  searchOf,
  startSelectedUnlock,
  startUnlock,
} from '../jobs/unlocks.ts';
import { estimateEnrichment, findEnriched, startEnrichment } from '../jobs/enrichment.ts';
import { estimateEmailVerification, startEmailVerification } from '../jobs/start-verification.ts';
import { pageById } from '../queries/records/finders.ts';
import { requireJobView, listItems, listJobs } from '../queries/jobs/jobs.ts';
import { EnrichContacts, EnrichEstimate } from '../schemas/clean-data.ts';
import { eventReaders } from '../schemas/events.ts';
import {
  Estimate,
  Job,
  JobItem,
  JobItemQuery,
  JobQuery,
  JobStarted,
  UnlockContacts,
  UnlockSelectedContacts,
  VerificationEstimate,
  VerifyEmail,
  visibleJobs,
  type VisibleJobs,
} from '../schemas/jobs.ts';
import type { Prospect } from '../schemas/prospects.ts';
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
        body: UnlockContacts,
        response: { 200: Type.Union([JobStarted, Estimate]), 402: ShortageBody, 404: ErrorBody },
      },
      unlocking,
    ),
    async (request, reply) => {
      const { body, caller } = request;
      const search = searchOf(caller.customerId, body);
      const act = body.dry_run ? estimateUnlock : startUnlock;
      return app.once(
        request,
        reply,
        (sql, matches) => act(sql, spenderOf(caller, body.max_credits), app.config, body, matches),
        {
          prepare: () => request.catalog.count(search),
          size: sizeUnlessDryRun(body, (sql, matches: number) =>
            estimateUnlock(sql, spenderOf(caller), app.config, body, Math.min(matches, body.total_records)),
          ),
        },
      );
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
        body: UnlockSelectedContacts,
        response: { 200: Type.Union([JobStarted, Estimate]), 402: ShortageBody, 404: ErrorBody },
      },
      unlocking,
    ),
    async (request, reply) => {
      const { body, caller, catalog } = request;
      const [act, find] = body.dry_run ? [estimateSelectedUnlock, findChosen] : [startSelectedUnlock, findChosenIfUp];
      return app.once<Prospect[]>(
        request,
        reply,
        (sql, known) => act(sql, spenderOf(caller, body.max_credits), app.config, body, known),
        {
          prepare: () => find(catalog, body.ids),
          size: sizeUnlessDryRun(body, (sql, known: Prospect[]) =>
            estimateSelectedUnlock(sql, spenderOf(caller), app.config, body, known).then(({ cost }) => ({
              matches: body.ids.length,
              cost,
            })),
          ),
        },
      );
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
        body: VerifyEmail,
        response: { 200: Type.Union([JobStarted, VerificationEstimate]), 402: ShortageBody, 404: ErrorBody },
      },
      verifying,
    ),
    async (request, reply) => {
      const { body, caller } = request;
      const act = body.dry_run ? estimateEmailVerification : startEmailVerification;
      return app.once(request, reply, (sql) => act(sql, spenderOf(caller, body.max_credits), app.config, body), {
        size: sizeUnlessDryRun(body, (sql) => estimateEmailVerification(sql, spenderOf(caller), app.config, body)),
      });
    },
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
          200: Type.Union([JobStarted, EnrichEstimate]),
          402: ShortageBody,
          404: ErrorBody,
        },
      },
      { access: { allScopes: ['payment_prospect:create', 'contacts:update'] }, ...starting },
    ),
    async (request, reply) => {
      const { body, caller, db } = request;
      const act = body.dry_run ? estimateEnrichment : startEnrichment;
      return app.once(request, reply, (sql, ids) => act(sql, spenderOf(caller), app.config, body, ids), {
        prepare: () => findEnriched(db, caller.customerId, body),
        size: sizeUnlessDryRun(body, async (sql, ids: string[]) => {
          const { contacts: matches, cost } = await estimateEnrichment(sql, spenderOf(caller), app.config, body, ids);
          return { matches, cost };
        }),
      });
    },
  );

  app.get(
    '/service-handler/:id',
    about(
      'getJob',
      'Read a job',
      'Returns the progress and the cost of a job. Ask again until `status` is COMPLETED, FAILED or CANCELLED. ' +
        'A job that this key could not have started is 404.',
      { params: IdParams, response: { 200: Job } },
    ),
    ({ db, caller, params }) =>
      db.lookup((sql) => requireJobView(sql, caller.customerId, params.id, visibleTo(caller))),
  );

  app.post(
    '/service-handler/list',
    about('listJobs', 'List jobs', 'Returns one page of the jobs that this key could have started, newest first.', {
      body: JobQuery,
      response: { 200: Type.Array(Job) },
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
      { params: IdParams, body: JobItemQuery, response: { 200: Type.Array(JobItem) } },
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
      { params: IdParams, response: { 200: Job, 409: ErrorBody } },
    ),
    ({ db, caller, params }) =>
      db.transaction(async (sql) => {
        await cancelJob(sql, caller.customerId, params.id, visibleTo(caller));
        return requireJobView(sql, caller.customerId, params.id, visibleTo(caller));
      }),
  );
};

export default serviceJobs;

const visibleTo = (caller: Caller): VisibleJobs => visibleJobs(caller.kind === 'key' ? caller.scopes : []);
