import { Type, type FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { Caller } from '../access/credentials.ts';
import { forbidden, notFound } from '../errors.ts';
import { cursorFault } from '../filters/cursor.ts';
import { countUndo, prepareUndo, startUndo, undoerOf } from '../jobs/undo.ts';
import { findChange, listChanges } from '../queries/history/history.ts';
import { undoScopes, routesOf } from '../schemas/scopes.ts';
import * as schemas from '../schemas/events.ts';
import { JobStarted } from '../schemas/jobs.ts';
import { ErrorBody, IdParams } from '../schemas/wire.ts';

const scopeOf = (noun: schemas.EventNoun) => schemas.eventReaders[`${noun}.created`][0];
const about = routesOf('history', { access: { anyScope: schemas.eventNouns.map(scopeOf) } });

const changes: FastifyPluginAsyncTypebox = async (app) => {
  app.post(
    '/changes/list',
    about(
      'listChanges',
      'Read the history of records',
      'Returns who has changed what, newest first, with the values before and after. A key sees the changes of the ' +
        'records that it may read. A page may be shorter than asked, even empty: there is more as long as the header ' +
        '`x-next-cursor` is there. Changes are kept 90 days.',
      { body: schemas.ChangeQuery, response: { 200: Type.Array(schemas.Change) } },
    ),
    async ({ db, caller, body: { filters, paginate = {} } }, reply) => {
      const nouns = readable(caller);
      if (filters?.object && !nouns.includes(filters.object)) throw forbidden([scopeOf(filters.object)]);
      const signer = await app.feedCursors();
      const { cursor, limit = 25 } = paginate;
      const place = cursor === undefined ? undefined : signer.decode(caller.customerId, cursor);
      if (cursor !== undefined && !place) throw cursorFault('is not a cursor from a response to this list');
      const page = await listChanges(db, caller.customerId, nouns, { filters, before: place?.position, limit });
      if (page.next !== undefined)
        void reply.header('x-next-cursor', signer.encode(caller.customerId, { position: page.next, id: null }));
      return page.changes;
    },
  );

  app.get(
    '/changes/:id',
    about(
      'getChange',
      'Read what one change has done',
      'Returns how many records one call, job or import has created, updated and deleted, as far as the key may read ' +
        'them. `change_id` is that of an event, or the id of a job or import.',
      { params: IdParams, response: { 200: schemas.ChangeSummary } },
    ),
    async ({ db, caller, params }) => {
      const change = await findChange(db, caller.customerId, readable(caller), params.id);
      if (!change) throw notFound('change');
      return change;
    },
  );

  const undoRoutes = [
    ['/changes/:id/undo', 'undoChange', 'Undo a change', ''],
    ['/service-handler/:id/undo', 'undoJob', 'Undo what a job has written', ' Credits and unlocks stay.'],
    ['/imports/:id/undo', 'undoImport', 'Undo an import', ''],
  ] as const;
  for (const [url, operationId, summary, more] of undoRoutes)
    app.post(
      url,
      about(
        operationId,
        summary,
        'Starts a job that takes back what one call, job or import has done with records: what it created is deleted, ' +
          'what it deleted stands again, and of what it updated each field gets its value from before, unless it was ' +
          'written since.' +
          more +
          ' The job has a result for each record. It is a change itself and can be undone, but for that of a merge. With ' +
          '`dry_run` the response says what it would do.',
        {
          params: IdParams,
          body: schemas.UndoRequest,
          response: { 200: Type.Union([JobStarted, schemas.UndoEstimate]), 409: ErrorBody },
        },
        { access: { anyScope: undoScopes }, limit: 'bulk', idempotent: true, mayNeedApproval: true },
      ),
      async (request, reply) => {
        const { caller, params, body, db } = request;
        const by = undoerOf(caller);
        if (body.dry_run) return reply.send(await countUndo(db, by, params.id));
        return app.once(request, reply, (sql) => startUndo(sql, by, params.id), {
          size: async (sql) => ({ records: (await prepareUndo(sql, by, params.id)).records }),
        });
      },
    );
};

export default changes;

const readable = (caller: Caller): schemas.EventNoun[] =>
  schemas.eventNouns.filter((noun) => caller.kind === 'key' && caller.scopes.includes(scopeOf(noun)));
