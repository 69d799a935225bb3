import { Type, type FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { Database, Transaction } from '../database/db.ts';
import type { Caller } from '../access/credentials.ts';
import { forbidden } from '../errors.ts';
import { firstLacking, routesOf } from '../schemas/scopes.ts';
import { openErrorsFile, readFailures } from '../jobs/errors-file.ts';
import { previewImport } from '../jobs/preview-import.ts';
import {
  receiveFile,
  beginImport,
  cancelImport,
  changeImport,
  sizeOfImport,
  startUploaded,
} from '../jobs/start-import.ts';
import { fileOf, takeFiles } from '../plugins/bodies.ts';
import { sendFile } from '../plugins/responses.ts';
import { rowsOf } from '../plugins/record-routes.ts';
import { pageById } from '../queries/records/finders.ts';
import { listImports, requireImport, visibleImports, type VisibleImports } from '../queries/jobs/imports.ts';
import * as schemas from '../schemas/imports.ts';
import { done, ErrorBody, IdParams } from '../schemas/wire.ts';

const about = routesOf('imports', { access: { anyScope: schemas.anyImportScope } });

const imports: FastifyPluginAsyncTypebox = async (app) => {
  app.post(
    '/imports',
    about(
      'createImport',
      'Begin an import',
      'Begins an import of contacts, companies, products or opportunities from a file. Send the file afterwards with `PUT /imports/{id}/file`. ' +
        'The key needs the scopes of the mode for this kind of records: create, update, or both for an upsert; ' +
        'otherwise the response is 403. For a key with `approve_over.records`, a file with more lines, and each workbook, ' +
        'does not start by itself: `POST /imports/{id}/start` then asks for the approval. A customer can have three imports under way, and 20 that wait for their file or their start; one more is 409.',
      { body: schemas.ImportCreate, response: { 201: schemas.ImportBegun, 404: ErrorBody } },
      { limit: 'bulk', idempotent: true },
    ),
    async (request, reply) => {
      const { caller, body } = request;
      requireScopes(caller, body);
      requireNoteScope(caller, body);
      return app.once(request, reply.code(201), async (sql) =>
        done('Import created: send its file', await beginImport(sql, caller.customerId, body)),
      );
    },
  );

  app.post(
    '/imports/list',
    about(
      'listImports',
      'List imports',
      'Returns one page of the imports, newest first. Imports that this key could not have started are left out.',
      { body: schemas.ImportQuery, response: { 200: Type.Array(schemas.Import) } },
    ),
    async ({ db, caller, body }, reply) => {
      const { customerId } = caller;
      const page = await pageById(['imports'], customerId, body.paginate, (paginate) =>
        db.search((sql) => listImports(sql, customerId, paginate, visibleTo(caller))),
      );
      return rowsOf(reply, page);
    },
  );

  app.get(
    '/imports/:id',
    about(
      'getImport',
      'Read an import',
      'Returns the settings and the progress of an import. Ask again until `status` is COMPLETED, FAILED or CANCELLED. ' +
        'Failed records do not fail the import. A dry run that has ended shows what it would change. An import that this key could not have started is 404.',
      { params: IdParams, response: { 200: schemas.Import } },
    ),
    ({ db, caller, params }) => db.lookup((sql) => requireImport(sql, caller.customerId, params.id, visibleTo(caller))),
  );

  app.patch(
    '/imports/:id',
    about(
      'updateImport',
      'Change an import before it starts',
      'Changes the settings that are sent; others stay. The import must be UPLOADED: its file is there, and it was ' +
        'not started. In any other status the response is 409.',
      { params: IdParams, body: schemas.ImportPatch, response: { 200: schemas.Import, 409: ErrorBody } },
    ),
    ({ db, caller, params: { id }, body }) => {
      requireNoteScope(caller, body);
      return changed(db, caller, id, (sql, one) => changeImport(sql, caller.customerId, one, body));
    },
  );

  app.get(
    '/imports/:id/preview',
    about(
      'previewImport',
      'Show how the file of an import is read',
      'Returns the headers of the file, the fields that they become, the first 5 records and their faults. The import ' +
        'must be UPLOADED: its file is there, and it was not started. In any other status the response is 409.',
      { params: IdParams, response: { 200: schemas.ImportPreview, 409: ErrorBody } },
    ),
    ({ db, caller, requester, params: { id } }) =>
      previewImport(db, requester, { id, visible: visibleTo(caller), isTried: true, mayNote: mayNote(caller) }),
  );

  app.post(
    '/imports/:id/start',
    about(
      'startImport',
      'Start an import',
      'Starts an import that was begun with `start` false: it must be UPLOADED. With `dry_run` false it also starts a ' +
        'COMPLETED dry run again, for real: with the file that was checked, which is kept for 24 hours (of a customer the ' +
        'latest three), under the same id and with new numbers. In any other case the response is 409. For a key with ' +
        '`approve_over.records`, an import that was not checked by a dry run has as many records as its file has lines, a workbook 200,000.',
      { params: IdParams, body: schemas.ImportStart, response: { 200: schemas.Import, 409: ErrorBody } },
      { limit: 'bulk', idempotent: true, mayNeedApproval: true },
    ),
    async (request, reply) => {
      const { caller, params, body } = request;
      const one = { id: params.id, visible: visibleTo(caller) };
      return app.once(
        request,
        reply,
        async (sql) => {
          const by = { isApproved: isApproved(caller), mayNote: mayNote(caller) };
          await startUploaded(sql, caller.customerId, { ...one, ...by }, body);
          return requireImport(sql, caller.customerId, one.id, one.visible);
        },
        { size: (sql) => sizeOfImport(sql, caller.customerId, one, body) },
      );
    },
  );

  app.post(
    '/imports/:id/cancel',
    about(
      'cancelImport',
      'Cancel an import; what is written stays',
      'Stops an import. Records that were written stay. An import that has ended is 409.',
      { params: IdParams, response: { 200: schemas.Import, 409: ErrorBody } },
    ),
    ({ db, caller, params: { id } }) =>
      changed(db, caller, id, (sql, one) => cancelImport(sql, caller.customerId, one)),
  );

  app.get(
    '/imports/:id/errors',
    about(
      'getImportErrors',
      'Download the failed records of an import',
      'Returns the records that failed, or were written without a value that cannot be read, as CSV: the columns of the file ' +
        '(of NDJSON the line as `_record`), then `_line`, where the record starts in the file, `_error` and `_warning`. ' +
        'Corrected, it can be imported as it is. Without such records it has only the header line. The response is 409 until ' +
        'the file has arrived. The records are kept for 30 days.',
      { params: IdParams, response: { 200: schemas.ErrorsFile, 409: ErrorBody } },
      { isLong: true },
    ),
    async (request, reply) => {
      const { db, caller, requester, params } = request;
      const file = await openErrorsFile(db, requester, { id: params.id, visible: visibleTo(caller) });
      return sendFile(request, reply, { ...file, name: 'errors.csv', noun: 'errors file' });
    },
  );

  app.get(
    '/imports/:id/failures',
    about(
      'listImportFailures',
      'Read the failed records of an import, and those with warnings',
      'Returns one page of the records that failed (`error`) or were written without a value that cannot be read ' +
        '(`warning`; the first 100,000), in the order of the file. A `warning` of line 1 names columns that are left out. If there are more, ' +
        'the header `x-next-cursor` is there; send its value as `cursor`. A page of large records can be shorter than ' +
        '`limit`. The response is 409 until the file has arrived. Failed records are kept for 30 days.',
      {
        params: IdParams,
        querystring: schemas.FailureQuery,
        response: { 200: Type.Array(schemas.ImportFailure), 409: ErrorBody },
      },
    ),
    async ({ db, caller, requester, params: { id }, query: { limit, cursor } }, reply) => {
      const given = { id, visible: visibleTo(caller) };
      const page = await readFailures(db, requester, given, { limit: Number(limit ?? 25), cursor });
      if (page.nextCursor !== undefined) void reply.header('x-next-cursor', page.nextCursor);
      return page.failures;
    },
  );

  // Encapsulated, because its body is not JSON.
  void app.register(upload);
};

const upload: FastifyPluginAsyncTypebox = async (app) => {
  takeFiles(app);
  app.put(
    '/imports/:id/file',
    about(
      'uploadImportFile',
      'Send the file of an import',
      'Takes the file as the body, of any content type: at most 256 MiB and 1,000,000 records. `Content-Encoding: gzip` ' +
        'is accepted; the limit counts the unpacked file. The import then starts by itself, unless it was begun with ' +
        '`start` false. An upload that breaks off leaves nothing and can be sent again. Once a file is complete, ' +
        'another one is 409.',
      { params: IdParams, response: { 200: schemas.Import, 409: ErrorBody, 413: ErrorBody, 415: ErrorBody } },
      { limit: 'bulk', isLong: true, takesFile: true },
    ),
    async (request) => {
      const { customerId } = request.caller;
      const given = {
        id: request.params.id,
        visible: visibleTo(request.caller),
        mayWrite: maxRecordsWithoutApproval(request.caller),
        mayNote: mayNote(request.caller),
      };
      const databases = { db: request.db, cleaner: app.db.for({ customerId }, 'api') };
      await receiveFile(databases, customerId, given, fileOf(request, schemas.maxFileBytes));
      return request.db.lookup((sql) => requireImport(sql, customerId, given.id, given.visible));
    },
  );
};

export default imports;

const changed = (
  db: Database,
  caller: Caller,
  id: string,
  change: (sql: Transaction, one: { id: string; visible: VisibleImports }) => Promise<unknown>,
): Promise<schemas.Import> =>
  db.transaction(async (sql) => {
    const visible = visibleTo(caller);
    await change(sql, { id, visible });
    return requireImport(sql, caller.customerId, id, visible);
  });

const isApproved = (caller: Caller): boolean => caller.kind === 'key' && caller.approved !== undefined;

const maxRecordsWithoutApproval = (caller: Caller): number =>
  (caller.kind === 'key' ? caller.approveOver.records : null) ?? Infinity;

const visibleTo = (caller: Caller): VisibleImports => visibleImports(caller.kind === 'key' ? caller.scopes : []);

function requireNoteScope(caller: Caller, { mapping }: Pick<schemas.ImportPatch, 'mapping'>): void {
  const makesNotes = Object.values(mapping ?? {}).some((mapped) => schemas.fieldOfMapped(mapped) === 'note');
  if (makesNotes && !mayNote(caller)) throw forbidden([schemas.noteScope]);
}

const mayNote = (caller: Caller): boolean => caller.kind !== 'key' || caller.scopes.includes(schemas.noteScope);

function requireScopes(caller: Caller, { object, mode }: Pick<schemas.ImportCreate, 'object' | 'mode'>): void {
  const scopes: readonly string[] = caller.kind === 'key' ? caller.scopes : [];
  const lacking = firstLacking(scopes, schemas.importScopes(object, mode));
  if (lacking.length > 0) throw forbidden(lacking);
}
