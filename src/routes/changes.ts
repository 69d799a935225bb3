import { Type, type FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { Caller } from '../credentials/caller.ts';
import { forbidden, notFound } from '../errors.ts';
import { cursorFault } from '../filters/cursor.ts';
import { findChange, listChanges } from '../queries/events/history.ts';
import { Change, ChangeQuery, ChangeSummary } from '../schemas/events/changes.ts';
import { eventNouns, eventReaders, type EventNoun } from '../schemas/events/types.ts';
import { IdParams } from '../schemas/base/wire.ts';

const scopeOf = (noun: EventNoun) => eventReaders[`${noun}.created`][0];
const access = { anyScope: eventNouns.map(scopeOf) };
const tags = ['history'];

const changes: FastifyPluginAsyncTypebox = async (app) => {
  app.post(
    '/changes/list',
    {
      config: { access },
      schema: {
        operationId: 'listChanges',
        summary: 'Read the history of records',
        description:
          'Returns who has changed what, newest first, with the values before and after. A key sees the changes of the ' +
          'records that it may read. A page may be shorter than asked, even empty: there is more as long as the header ' +
          '`x-next-cursor` is there. Changes are kept 90 days.',
        tags,
        body: ChangeQuery,
        response: { 200: Type.Array(Change) },
      },
    },
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
    {
      config: { access },
      schema: {
        operationId: 'getChange',
        summary: 'Read what one change has done',
        description:
          'Returns how many records one call, job or import has created, updated and deleted, as far as the key may read ' +
          'them. `change_id` is that of an event, or the id of a job or import.',
        tags,
        params: IdParams,
        response: { 200: ChangeSummary },
      },
    },
    async ({ db, caller, params }) => {
      const change = await findChange(db, caller.customerId, readable(caller), params.id);
      if (!change) throw notFound('change');
      return change;
    },
  );
};

export default changes;

const readable = (caller: Caller): EventNoun[] =>
  eventNouns.filter((noun) => caller.kind === 'key' && caller.scopes.includes(scopeOf(noun)));
