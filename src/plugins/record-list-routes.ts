import type { FastifyReply } from 'fastify';
import { Type, type FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { TSchema } from '@sinclair/typebox';
import type { Database } from '../database/db.ts';
import type { ExportedRecords } from '../files/open-export.ts';
import { findEnd } from '../queries/events/feed.ts';
import { readDigest } from '../queries/records/digest.ts';
import { Digest, DigestQuery } from '../schemas/events/digest.ts';
import type { ListRequest } from '../filters/record-query.ts';
import { Metadata } from '../schemas/base/wire.ts';
import { ExportedFile, type ExportFormat, type GivenFields } from '../schemas/files.ts';
import { sendExport } from './answers/send-export.ts';

interface Page<Row> {
  rows: Row[];
  nextCursor: string | undefined;
}

/** Sets the header with the cursor of the next page, if one follows. Returns the records of this page. */
export function rowsOf<Row>(reply: FastifyReply, { rows, nextCursor }: Page<Row>): Row[] {
  if (nextCursor !== undefined) void reply.header('x-next-cursor', nextCursor);
  return rows;
}

interface Exportable {
  path: string;
  tags: string[];
  scope: 'contacts' | 'companies' | 'activities' | 'products' | 'opportunities';
  noun: 'contact' | 'company' | 'activity' | 'product' | 'opportunity';
  export: (db: Database, customerId: string, request: ListRequest) => ExportedRecords;
}

interface Kind extends Exportable {
  scope: 'contacts' | 'companies' | 'activities';
  schemas: { list: TSchema; count: TSchema; export: TSchema; shown: TSchema };
  list: (db: Database, customerId: string, request: ListRequest) => Promise<Page<object>>;
  count: (db: Database, customerId: string, request: ListRequest) => Promise<Metadata>;
}

const aboutOf =
  ({ scope: plural, tags }: Exportable) =>
  (verb: string, description: string) => ({
    operationId: `${verb.toLowerCase()}${plural[0]!.toUpperCase()}${plural.slice(1)}`,
    summary: `${verb} ${plural}`,
    description,
    tags,
  });

export function addRecordLists(app: Parameters<FastifyPluginAsyncTypebox>[0], kind: Kind): void {
  const { path, noun, scope: plural, schemas } = kind;
  const access = { scope: `${plural}:read` } as const;
  const about = aboutOf(kind);

  app.post(
    `${path}/list`,
    {
      config: { access },
      schema: {
        ...about(
          'List',
          `Returns one page of the ${plural} that match \`filters\`, newest first unless \`order_by\` says otherwise. ` +
            `Without \`filters\` every ${noun} matches. A full page has the header \`x-next-cursor\`; send its value as ` +
            '`paginate.cursor` for the next page.',
        ),
        body: schemas.list,
        response: { 200: Type.Array(schemas.shown) },
      },
    },
    async ({ db, caller, body }, reply) => rowsOf(reply, await kind.list(db, caller.customerId, body as ListRequest)),
  );

  app.post(
    `${path}/metadata`,
    {
      config: { access },
      schema: {
        ...about(
          'Count',
          `Returns how many ${plural} match, and how many pages they fill. Takes the same body as the list, so the ` +
            'same filters count exactly what the pages hold. A cursor is 400.',
        ),
        body: schemas.count,
        response: { 200: Metadata },
      },
    },
    async ({ db, caller, body }) => kind.count(db, caller.customerId, body as ListRequest),
  );

  addExport(app, kind, schemas.export);

  if (plural === 'activities') return;
  app.post(
    `${path}/digest`,
    {
      config: { access, limit: 'bulk' },
      schema: {
        ...about(
          'Compare',
          `Returns numbers and hashes of all ${plural}, in buckets, as they are at a cursor of the feed of changes. Whoever ` +
            'keeps a copy compares them with those of the copy at the same cursor, and reads the records of a bucket that ' +
            'differs with `bucket`.',
        ),
        body: DigestQuery,
        response: { 200: Digest },
      },
    },
    async ({ db, caller: { customerId }, body }) => {
      const { buckets = 64, bucket } = body;
      const { place, buckets: found } = await readDigest(db, customerId, plural, { buckets, bucket });
      return { cursor: (await app.feedCursors()).encode(customerId, place), buckets: found };
    },
  );
}

export function addExport(app: Parameters<FastifyPluginAsyncTypebox>[0], kind: Exportable, schema: TSchema): void {
  app.post(
    `${kind.path}/export`,
    {
      config: { access: { scope: `${kind.scope}:read` }, limit: 'bulk', concurrent: 'exports', isLong: true },
      schema: {
        ...aboutOf(kind)(
          'Export',
          `Returns every ${kind.noun} that the list would page through, in the same order, as one file. The file is sent ` +
            'while it is read: if the connection breaks off, it is incomplete. Who follows the feed of changes from the ' +
            'cursor in the header `x-events-cursor` misses nothing. Each customer can have two exports running at a ' +
            'time; one more is 429.',
        ),
        body: schema,
        response: { 200: ExportedFile },
      },
    },
    async (request, reply) => {
      const body = request.body as ListRequest & { format: ExportFormat; fields?: GivenFields };
      // Read before the records: what changes while they are read follows this cursor.
      const end = await findEnd(request.db, request.caller.customerId);
      void reply.header('x-events-cursor', (await app.feedCursors()).encode(request.caller.customerId, end));
      return sendExport(request, reply, kind.export(request.db, request.caller.customerId, body), body);
    },
  );
}
