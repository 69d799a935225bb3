import type { FastifyContextConfig, FastifyInstance, FastifyRequest, FastifyReply } from 'fastify';
import { type FastifyPluginAsyncTypebox, Type } from '@fastify/type-provider-typebox';
import type { Static, TSchema } from '@sinclair/typebox';
import { DomainError, notFound } from '../errors.ts';
import { unlessAborted } from '../access/credentials.ts';
import { recordReader, type Database } from '../database/db.ts';
import { readDigest } from '../queries/records/finders.ts';
import type { CreateRecord, DeleteRecord, FindRecords, RecordPage, UpdateRecord } from '../queries/records/finders.ts';
import { findSuccessors } from '../queries/records/merged-records.ts';
import { GoneBody } from '../schemas/clean-data.ts';
import { type Scope, routesOf } from '../schemas/scopes.ts';
import { done, DoneWithId, ErrorBody, IdParams, PurgeQuery, Metadata } from '../schemas/wire.ts';
import { etagOf, readIfMatch } from '../text/ids.ts';
import type { ExportedRecords } from '../files/write-records.ts';
import { findEnd } from '../queries/records/feed.ts';
import { Digest, DigestQuery } from '../schemas/events.ts';
import type { ListRequest } from '../filters/parse.ts';
import { ExportedFile, fieldsForScopes, type ExportFormat, type GivenFields } from '../schemas/files.ts';
import { sendExport } from './responses.ts';

interface Kind {
  path: string;
  scope: Scope extends infer S ? (S extends `${infer Name}:delete` ? Name : never) : never;
  noun: string;
  /** Name of a record in the API document. Default: `noun`. */
  title?: string;
  /** Chapter of the API document. Default: `scope`. */
  tag?: string;
}

interface About {
  description: string;
  errors?: number[];
}

const actions = {
  create: ['create', 'Create'],
  get: ['read', 'Read'],
  update: ['update', 'Update'],
  delete: ['delete', 'Delete'],
} as const;

export const recordRoutes = (app: Parameters<FastifyPluginAsyncTypebox>[0], kind: Kind) => {
  const { path, scope, noun, title = noun, tag = scope } = kind;
  const operation = title.replaceAll(/(?:^| )([a-z])/g, (_, letter: string) => letter.toUpperCase());
  const named = `${/^[aeiou]/.test(title) ? 'an' : 'a'} ${title}`;
  const about = <S extends object>(
    verb: 'create' | 'get' | 'update' | 'delete',
    { description }: About,
    schemas: S,
    config: FastifyContextConfig = {},
  ) => {
    const [action, summary] = actions[verb];
    const access = { scope: `${scope}:${action}` } as const;
    const common: FastifyContextConfig = verb === 'get' ? { access } : { access, isChange: true };
    return routesOf(tag, common)(`${verb}${operation}`, `${summary} ${named}`, description, schemas, config);
  };
  const message = (verb: string) => `${noun.charAt(0).toUpperCase()}${noun.slice(1)} ${verb}`;

  return {
    create<B extends TSchema>(body: B, insert: CreateRecord<Static<B>>, texts: About): void {
      app.post(
        path,
        about('create', texts, { body, response: { 201: DoneWithId, ...declared(texts) } }, { idempotent: true }),
        async (request, reply) =>
          app.once(request, reply.code(201), async (sql) =>
            done(message('created'), await insert(sql, request.caller.customerId, request.body)),
          ),
      );
    },

    /**
     * Adds the route that reads one record.
     * @param texts with `nullForUnknown`, the response for an unknown id is null; with `mayBeMerged`, the error for an
     * unknown id names the record into which it was merged
     */
    read<Row extends { id: string }>(
      record: TSchema,
      find: FindRecords<Row>,
      texts: About & { nullForUnknown?: true; mayBeMerged?: true },
    ): void {
      const { nullForUnknown, mayBeMerged } = texts;
      app.get(
        `${path}/:id`,
        about(
          'get',
          texts,
          { params: IdParams, response: { 200: record, ...(mayBeMerged && { 404: GoneBody }) } },
          { etag: true, ...(nullForUnknown && { nullForUnknown }) },
        ),
        readOne(app, noun, find, texts),
      );
    },

    update<B extends TSchema>(body: B, update: UpdateRecord<Static<B>>, texts: About): void {
      app.patch(
        `${path}/:id`,
        about('update', texts, {
          params: IdParams,
          body,
          response: { 200: DoneWithId, 412: ErrorBody, ...declared(texts) },
        }),
        async ({ db, caller, params: { id }, body: patch, headers }) => {
          await db.transaction((sql) => update(sql, caller.customerId, id, patch, ifMatchOf(headers)));
          return done(message('updated'), id);
        },
      );
    },

    remove(remove: DeleteRecord, texts: About & { mayPurge?: true }): void {
      app.delete(
        `${path}/:id`,
        about('delete', texts, {
          params: IdParams,
          ...(texts.mayPurge && { querystring: PurgeQuery }),
          response: { 200: DoneWithId, 412: ErrorBody },
        }),
        async ({ db, caller, params: { id }, query, headers }) => {
          const isPurged = texts.mayPurge === true && (query as PurgeQuery).purge === 'true';
          await db.transaction((sql) => remove(sql, caller.customerId, id, ifMatchOf(headers), isPurged));
          return done(message('deleted'), id);
        },
      );
    },
  };
};

/** Returns the handler of a route that reads one record, with its version in the header `etag`. */
export function readOne<Row extends { id: string }>(
  app: FastifyInstance,
  noun: string,
  find: FindRecords<Row>,
  { nullForUnknown, mayBeMerged }: { nullForUnknown?: true; mayBeMerged?: true } = {},
) {
  const read = recordReader(app.db, find);
  return async (request: FastifyRequest, reply: FastifyReply): Promise<Row> => {
    const { caller, params, requester } = request;
    const found = await unlessAborted(read(caller.customerId, (params as { id: string }).id), requester.signal);
    if (found) void reply.header('etag', etagOf(found));
    else if (!nullForUnknown) throw await unknownOrMerged(request, noun, mayBeMerged);
    return (found ?? null) as Row; // null only if the route has it for an unknown id
  };
}

function ifMatchOf({ 'if-match': ifMatch }: FastifyRequest['headers']): string | undefined {
  if (ifMatch !== undefined) readIfMatch(ifMatch);
  return ifMatch;
}

async function unknownOrMerged({ db, caller, params }: FastifyRequest, noun: string, mayBeMerged: boolean | undefined) {
  const { id } = params as { id: string };
  const { message } = notFound(noun);
  const found = mayBeMerged ? await db.lookup((sql) => findSuccessors(sql, caller.customerId, [id])) : new Map();
  return new DomainError('not_found', message, { mergedInto: found.get(id) as string | undefined });
}

const declared = ({ errors = [] }: About) => Object.fromEntries(errors.map((status) => [status, ErrorBody]));

/** Returns the records of a page. Sets the header with the cursor of the next page, if there is one. */
export function rowsOf<Row>(reply: FastifyReply, { rows, nextCursor }: RecordPage<Row>): Row[] {
  if (nextCursor !== undefined) void reply.header('x-next-cursor', nextCursor);
  return rows;
}

interface ListKind {
  path: string;
  scope: 'contacts' | 'companies' | 'activities' | 'products' | 'opportunities';
  noun: 'contact' | 'company' | 'activity' | 'product' | 'opportunity';
  schemas: { list: TSchema; count?: TSchema; export: TSchema; shown: TSchema };
  /** End of the sentence that describes the list. Default: how the pages of a list follow each other. */
  listText?: string;
  /** Status of the list. Default: 200. */
  listStatus?: 201;
  list: (db: Database, customerId: string, request: ListRequest) => Promise<RecordPage<object>>;
  count?: (db: Database, customerId: string, request: ListRequest) => Promise<Metadata>;
  export: (db: Database, customerId: string, request: ListRequest) => ExportedRecords;
}

/** Adds the routes that list records, count them if the kind has a count, and export and compare them. */
export function addRecordLists(app: Parameters<FastifyPluginAsyncTypebox>[0], kind: ListKind): void {
  const { path, noun, scope: plural, schemas, listStatus = 200, list, count } = kind;
  const about = <S extends object>(verb: string, text: string, given: S, config: FastifyContextConfig = {}) => {
    const name = `${verb.toLowerCase()}${plural[0]!.toUpperCase()}${plural.slice(1)}`;
    const access = { scope: `${plural}:read` } as const;
    return routesOf(plural, { access })(name, `${verb} ${plural}`, text, given, config);
  };
  const {
    listText = `. Without \`filters\` every ${noun} matches. A full page has the header \`x-next-cursor\`; send its ` +
      'value as `paginate.cursor` for the next page.',
  } = kind;

  app.post(
    `${path}/list`,
    about(
      'List',
      `Returns one page of the ${plural} that match \`filters\`, newest first unless \`order_by\` says otherwise${listText}`,
      { body: schemas.list, response: { [listStatus]: Type.Array(schemas.shown) } },
    ),
    async ({ db, caller, body }, reply) =>
      rowsOf(reply.code(listStatus), await list(db, caller.customerId, body as ListRequest)),
  );

  if (count && schemas.count)
    app.post(
      `${path}/metadata`,
      about(
        'Count',
        `Returns how many ${plural} match, and how many pages they fill. Takes the same body as the list, so the ` +
          'same filters count exactly what the pages hold. A cursor is 400.',
        { body: schemas.count, response: { 200: Metadata } },
      ),
      async ({ db, caller, body }) => count(db, caller.customerId, body as ListRequest),
    );

  app.post(
    `${path}/export`,
    about(
      'Export',
      `Returns every ${noun} that the list would page through, in the same order, as one file. The file is sent ` +
        'while it is read: if the connection breaks off, it is incomplete. Who follows the feed of changes from the ' +
        'cursor in the header `x-events-cursor` misses nothing. Each customer can have two exports running at a ' +
        'time; one more is 429.',
      { body: schemas.export, response: { 200: ExportedFile } },
      { limit: 'bulk', concurrent: 'exports', isLong: true },
    ),
    async (request, reply) => {
      const body = request.body as ListRequest & { format: ExportFormat; fields?: GivenFields };
      // Read before the records: what changes while they are read follows this cursor.
      const end = await findEnd(request.db, request.caller.customerId);
      void reply.header('x-events-cursor', (await app.feedCursors()).encode(request.caller.customerId, end));
      const records = kind.export(request.db, request.caller.customerId, body);
      const { caller } = request;
      const fields = caller.kind === 'key' ? fieldsForScopes(records.fields, caller.scopes) : records.fields;
      return sendExport(request, reply, { ...records, fields }, body);
    },
  );
  if (plural !== 'contacts' && plural !== 'companies') return;
  app.post(
    `${path}/digest`,
    about(
      'Compare',
      `Returns numbers and hashes of all ${plural}, in buckets, as they are at a cursor of the feed of changes. Whoever ` +
        'keeps a copy compares them with those of the copy at the same cursor, and reads the records of a bucket that ' +
        'differs with `bucket`.',
      { body: DigestQuery, response: { 200: Digest } },
      { limit: 'bulk' },
    ),
    async ({ db, caller: { customerId }, body }) => {
      const { buckets = 64, bucket } = body;
      const { place, buckets: found } = await readDigest(db, customerId, plural, { buckets, bucket });
      return { cursor: (await app.feedCursors()).encode(customerId, place), buckets: found };
    },
  );
}
