import { Type, type FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { Caller } from '../caller.ts';
import { forbidden } from '../errors.ts';
import { readErrorsFile } from '../jobs/errors-file.ts';
import { previewImport } from '../jobs/preview-import.ts';
import { receiveFile } from '../jobs/receive-file.ts';
import { beginImport, cancelImport, changeImport, startUploaded } from '../jobs/start-import.ts';
import { fileOf, takeFiles } from '../plugins/file-body.ts';
import { sendText } from '../plugins/send-file.ts';
import { listImports, requireImport, visibleImports, type VisibleImports } from '../queries/imports.ts';
import { contentTypes } from '../schemas/files.ts';
import {
  anyImportScope,
  ErrorsFile,
  Import,
  ImportBegun,
  ImportCreate,
  ImportPatch,
  ImportPreview,
  ImportQuery,
  importScopes,
  maxFileBytes,
} from '../schemas/imports.ts';
import { done, ErrorBody, IdParams } from '../schemas/wire.ts';

const tags = ['imports'];
const access = { anyScope: anyImportScope };

/** Routes for imports of contacts and companies from files. */
const imports: FastifyPluginAsyncTypebox = async (app) => {
  app.post(
    '/imports',
    {
      config: { access, limit: 'bulk', idempotent: true },
      schema: {
        summary: 'Begin an import',
        description: 'The file is sent afterwards with `PUT /imports/{id}/file`.',
        tags,
        body: ImportCreate,
        response: { 201: ImportBegun, 404: ErrorBody },
      },
    },
    async (request, reply) => {
      const { caller, body } = request;
      requireScopes(caller, body);
      return app.once(request, reply, async (sql) => {
        const id = await beginImport(sql, caller.customerId, body);
        return { status: 201, body: done('Import created: send its file', id) };
      });
    },
  );

  app.post(
    '/imports/list',
    {
      config: { access },
      schema: { summary: 'List imports', tags, body: ImportQuery, response: { 200: Type.Array(Import) } },
    },
    ({ db, caller, body }) => db.search((sql) => listImports(sql, caller.customerId, body.paginate, visibleTo(caller))),
  );

  app.get(
    '/imports/:id',
    { config: { access }, schema: { summary: 'Read an import', tags, params: IdParams, response: { 200: Import } } },
    ({ db, caller, params }) => db.lookup((sql) => requireImport(sql, caller.customerId, params.id, visibleTo(caller))),
  );

  app.patch(
    '/imports/:id',
    {
      config: { access },
      schema: {
        summary: 'Change an import before it starts',
        tags,
        params: IdParams,
        body: ImportPatch,
        response: { 200: Import, 409: ErrorBody },
      },
    },
    ({ db, caller, params: { id }, body }) =>
      db.transaction(async (sql) => {
        const visible = visibleTo(caller);
        await changeImport(sql, caller.customerId, { id, visible }, body);
        return requireImport(sql, caller.customerId, id, visible);
      }),
  );

  app.get(
    '/imports/:id/preview',
    {
      config: { access },
      schema: {
        summary: 'Show how the file of an import is read',
        tags,
        params: IdParams,
        response: { 200: ImportPreview, 409: ErrorBody },
      },
    },
    ({ db, caller, params: { id } }) => previewImport(db, caller.customerId, { id, visible: visibleTo(caller) }),
  );

  app.post(
    '/imports/:id/start',
    {
      config: { access, limit: 'bulk' },
      schema: {
        summary: 'Start an import',
        tags,
        params: IdParams,
        response: { 200: Import, 409: ErrorBody },
      },
    },
    ({ db, caller, params: { id } }) =>
      db.transaction(async (sql) => {
        const visible = visibleTo(caller);
        await startUploaded(sql, caller.customerId, { id, visible });
        return requireImport(sql, caller.customerId, id, visible);
      }),
  );

  app.post(
    '/imports/:id/cancel',
    {
      config: { access },
      schema: {
        summary: 'Cancel an import; what is written stays',
        tags,
        params: IdParams,
        response: { 200: Import, 409: ErrorBody },
      },
    },
    ({ db, caller, params: { id } }) =>
      db.transaction(async (sql) => {
        const visible = visibleTo(caller);
        await cancelImport(sql, caller.customerId, { id, visible });
        return requireImport(sql, caller.customerId, id, visible);
      }),
  );

  app.get(
    '/imports/:id/errors',
    {
      config: { access, isLong: true },
      schema: {
        summary: 'Download the failed records of an import',
        tags,
        params: IdParams,
        response: { 200: ErrorsFile, 409: ErrorBody },
      },
    },
    async (request, reply) => {
      const { db, caller, params } = request;
      const lines = await readErrorsFile(db, caller.customerId, { id: params.id, visible: visibleTo(caller) });
      return sendText(request, reply, { lines, type: contentTypes.csv, name: 'errors.csv', noun: 'errors file' });
    },
  );

  // Encapsulated, because its body is not JSON.
  void app.register(upload);
};

const upload: FastifyPluginAsyncTypebox = async (app) => {
  takeFiles(app);
  app.put(
    '/imports/:id/file',
    {
      config: { access, limit: 'bulk', isLong: true, takesFile: true },
      schema: {
        summary: 'Send the file of an import',
        tags,
        params: IdParams,
        response: { 200: Import, 409: ErrorBody, 413: ErrorBody, 415: ErrorBody },
      },
    },
    async (request) => {
      const { customerId } = request.caller;
      const given = { id: request.params.id, visible: visibleTo(request.caller) };
      const databases = { db: request.db, cleaner: app.db.for({ customerId }) };
      await receiveFile(databases, customerId, given, fileOf(request, maxFileBytes));
      return request.db.lookup((sql) => requireImport(sql, customerId, given.id, given.visible));
    },
  );
};

export default imports;

/** Returns the kinds of imports that a caller may see: those that its API key could start. */
const visibleTo = (caller: Caller): VisibleImports => visibleImports(caller.kind === 'key' ? caller.scopes : []);

/** @throws forbidden if the caller's key lacks a scope that starting such an import needs */
function requireScopes(caller: Caller, { object, mode }: Pick<ImportCreate, 'object' | 'mode'>): void {
  const scopes: readonly string[] = caller.kind === 'key' ? caller.scopes : [];
  if (!importScopes(object, mode).every((scope) => scopes.includes(scope))) throw forbidden();
}
