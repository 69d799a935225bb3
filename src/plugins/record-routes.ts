import type { FastifyRequest } from 'fastify';
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { Static, TSchema } from '@sinclair/typebox';
import { DomainError, notFound } from '../errors.ts';
import { unlessAborted } from '../credentials/requester.ts';
import { recordReader } from '../database/batch-lookups.ts';
import type { CreateRecord, DeleteRecord, FindRecords, UpdateRecord } from '../queries/records/finders.ts';
import { findSuccessors } from '../queries/records/merged-records.ts';
import { GoneBody } from '../schemas/clean-data/merges.ts';
import type { Scope } from '../schemas/base/scopes.ts';
import { done, DoneWithId, ErrorBody, IdParams, PurgeQuery } from '../schemas/base/wire.ts';
import { etagOf, readIfMatch } from '../text/etag.ts';

interface Kind {
  path: string;
  tags: string[];
  scope: Scope extends infer S ? (S extends `${infer Name}:delete` ? Name : never) : never;
  /** In operation ids, such as `ContactList`. */
  operation: string;
  /** In summaries, such as `a contact list`. */
  title: string;
  /** In messages and errors, such as `list`. */
  noun: string;
}

/** What the document says of a route. `errors` are statuses that only some kinds of record have. */
interface About {
  description: string;
  errors?: number[];
}

/** Returns functions that add the routes for single records of one kind. Each adds one route. */
export const recordRoutes = (app: Parameters<FastifyPluginAsyncTypebox>[0], kind: Kind) => {
  const { path, tags, scope, operation, title, noun } = kind;
  const about = (verb: string, summary: string, { description }: About) => ({
    operationId: `${verb}${operation}`,
    summary: `${summary} ${title}`,
    description,
    tags,
  });
  const message = (verb: string) => `${noun.charAt(0).toUpperCase()}${noun.slice(1)} ${verb}`;

  return {
    create<B extends TSchema>(body: B, insert: CreateRecord<Static<B>>, texts: About): void {
      app.post(
        path,
        {
          config: { access: { scope: `${scope}:create` }, idempotent: true },
          schema: { ...about('create', 'Create', texts), body, response: { 201: DoneWithId, ...declared(texts) } },
        },
        async (request, reply) =>
          app.once(request, reply.code(201), async (sql) =>
            done(message('created'), await insert(sql, request.caller.customerId, request.body)),
          ),
      );
    },

    /**
     * @param texts `nullForUnknown`: the response for an unknown id is null. `mayBeMerged`: the error for an unknown id
     *   names the record into which the record was merged
     */
    read<Row extends { id: string }>(
      record: TSchema,
      find: FindRecords<Row>,
      texts: About & { nullForUnknown?: true; mayBeMerged?: true },
    ): void {
      const { nullForUnknown, mayBeMerged } = texts;
      const read = recordReader(app.db, find);
      app.get(
        `${path}/:id`,
        {
          config: {
            access: { scope: `${scope}:read` },
            etag: true,
            ...(nullForUnknown && { nullForUnknown }),
          },
          schema: {
            ...about('get', 'Read', texts),
            params: IdParams,
            response: { 200: record, ...(mayBeMerged && { 404: GoneBody }) },
          },
        },
        async (request, reply) => {
          const { caller, params, requester } = request;
          const found = await unlessAborted(read(caller.customerId, params.id), requester.signal);
          if (found) void reply.header('etag', etagOf(found));
          else if (!nullForUnknown) throw await unknown(request, noun, mayBeMerged);
          return reply.send(found ?? null);
        },
      );
    },

    update<B extends TSchema>(body: B, update: UpdateRecord<Static<B>>, texts: About): void {
      app.patch(
        `${path}/:id`,
        {
          config: { access: { scope: `${scope}:update` } },
          schema: {
            ...about('update', 'Update', texts),
            params: IdParams,
            body,
            response: { 200: DoneWithId, 412: ErrorBody, ...declared(texts) },
          },
        },
        async ({ db, caller, params: { id }, body: patch, headers }) => {
          await db.transaction((sql) => update(sql, caller.customerId, id, patch, ifMatchOf(headers)));
          return done(message('updated'), id);
        },
      );
    },

    remove(remove: DeleteRecord, texts: About & { mayPurge?: true }): void {
      app.delete(
        `${path}/:id`,
        {
          config: { access: { scope: `${scope}:delete` } },
          schema: {
            ...about('delete', 'Delete', texts),
            params: IdParams,
            ...(texts.mayPurge && { querystring: PurgeQuery }),
            response: { 200: DoneWithId, 412: ErrorBody },
          },
        },
        async ({ db, caller, params: { id }, query, headers }) => {
          const isPurged = (query as PurgeQuery).purge === 'true';
          await db.transaction((sql) => remove(sql, caller.customerId, id, ifMatchOf(headers), isPurged));
          return done(message('deleted'), id);
        },
      );
    },
  };
};

/** @throws DomainError `validation_failed` if it is not a list of entity tags, also for an id that belongs to no record */
function ifMatchOf({ 'if-match': ifMatch }: FastifyRequest['headers']): string | undefined {
  if (ifMatch !== undefined) readIfMatch(ifMatch);
  return ifMatch;
}

/** Returns the error for an id that belongs to no record, with the id of the record into which it was merged. */
async function unknown(
  { db, caller, params }: FastifyRequest,
  noun: string,
  mayBeMerged: boolean | undefined,
): Promise<DomainError> {
  const { id } = params as { id: string };
  const { message } = notFound(noun);
  const found = mayBeMerged ? await db.lookup((sql) => findSuccessors(sql, caller.customerId, [id])) : new Map();
  return new DomainError('not_found', message, { mergedInto: found.get(id) as string | undefined });
}

const declared = ({ errors = [] }: About) => Object.fromEntries(errors.map((status) => [status, ErrorBody]));
