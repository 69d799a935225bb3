import multipart, { type MultipartFile } from '@fastify/multipart';
import type { FastifyError, FastifyInstance, FastifyRequest, onSendAsyncHookHandler } from 'fastify';
import { DomainError } from '../errors.ts';
import { previewImport } from '../jobs/preview-import.ts';
import { beginWithFile, changeImport } from '../jobs/start-import.ts';
import { allImports, listImports } from '../queries/jobs/imports.ts';
import { ImportCreate, importFormats, importObjects, maxFileBytes } from '../schemas/imports.ts';
import type { Import, ImportFormat, ImportMode } from '../schemas/imports.ts';
import { namesContacts } from './mapping.ts';
import { forMembers, addPage, addAction, formPage, type Page, type Answer } from './base/layout.ts';
import { controlsFor, hidden } from './base/forms.ts';
import { requireToken, search, text, queryOf, notSent, requireValid, refusalOf, invalid } from './base/requests.ts';
import { textsIn, type Fields, type Refused } from './base/requests.ts';
import { when, dialogLink, buttons, html, type Html, link, folded, bullets } from './base/html.ts';
import { plain } from './base/words.ts';

export const section = '/app/imports';

export const titleOf = ({ name, object }: Pick<Import, 'name' | 'object'>): string => name || `Import of ${object}`;

export async function importUpload(app: FastifyInstance): Promise<void> {
  // The size of the file is limited by `receiveFile`, which says so; the parser must not cut the file before that.
  await app.register(multipart, {
    throwFileSizeLimit: false,
    limits: { files: 1, fields: 20, parts: 21, fieldSize: 10_000, fileSize: maxFileBytes + 1024 },
  });

  addPage(app, '/imports/new', forMembers, async (request) => showForm(request, queryOf(request)));

  // At the level `trace` the parser logs all headers, so the cookie too.
  const logLevel = app.config.LOG_LEVEL === 'trace' ? 'debug' : app.config.LOG_LEVEL;
  const config = { ...forMembers.config, isLong: true, takesFile: true } as const;
  const options = { ...forMembers, logLevel, config, onSend: discardRest };
  addAction(app, '/imports/new', options, async (request) => {
    const fields = Object.create(null) as Fields;
    try {
      if (!request.isMultipart()) requireToken(request, {});
      for await (const part of request.parts()) {
        if (part.type === 'field') fields[part.fieldname] = typeof part.value === 'string' ? part.value : '';
        else return await receive(request, fields, part);
      }
      requireToken(request, fields);
      return showForm(request, fields, noFile);
    } catch (error) {
      throw isFormFault(error) ? invalid('the form is not valid multipart/form-data') : error;
    }
  });

  /** Receives the file of an upload form. Stores the file only if the fields before it are valid. */
  async function receive(request: FastifyRequest, fields: Fields, { filename, file }: MultipartFile): Promise<Answer> {
    requireToken(request, fields);
    if (!filename) return showForm(request, fields, noFile);
    const draft = draftOf(fields, filename);
    try {
      requireValid(ImportCreate, draft);
      const { customerId, actor } = request.requester;
      // The request's own database stops when the caller hangs up.
      const cleaner = app.db.for({ customerId, ...(actor && { actor }) }, 'page');
      const id = await beginWithFile({ db: request.db, cleaner }, customerId, { ...draft, start: false }, file);
      if (text(fields, 'mode') === '' && draft.mode === 'upsert') await decideByFile(request, id);
      return `${section}/${id}`;
    } catch (error) {
      const isFull = error instanceof DomainError && error.code === 'conflict';
      return showForm(request, fields, refusalOf(error), isFull ? await waitingOf(request) : '');
    }
  }

  async function waitingOf(request: FastifyRequest): Promise<Html> {
    const rows = await search(request, listImports, { limit: 100 }, allImports);
    const waiting = rows
      .filter(({ status }) => status === 'UPLOADING' || status === 'UPLOADED')
      .map((one) => {
        const discard = dialogLink('Discard', `${section}/${one.id}/cancel`, `Discard ${titleOf(one)}`);
        return html`!${link(titleOf(one), `${section}/${one.id}`)} · !${discard}`;
      });
    const lead = '<p>These wait for somebody who starts or discards them:</p>';
    return when(waiting.length > 0, html`!${lead} !${bullets(waiting)}`);
  }
}

/**
 * Sets the mode of an import of contacts. The import updates stored contacts if a column has their e-mail addresses, and
 * otherwise creates all records.
 * @param had whether a column had addresses before a change. If that has not changed, the mode stays
 */
export async function decideByFile({ db, requester }: FastifyRequest, id: string, had?: boolean): Promise<void> {
  const ref = { id, visible: allImports };
  const { mapping } = await previewImport(db, requester, ref);
  if (!mapping || namesContacts(mapping) === had) return;
  const changes = namesContacts(mapping)
    ? ({ mode: 'upsert', match: 'work_email' } as const)
    : ({ mode: 'create', match: null } as const);
  await db.transaction((sql) => changeImport(sql, requester.customerId, ref, changes));
}

/** Reads and discards the rest of a rejected upload. Otherwise the browser would not get the response. */
const discardRest: onSendAsyncHookHandler = async ({ raw }, _reply, payload) => {
  raw.unpipe();
  raw.resume();
  return payload;
};

const isFormFault = (error: unknown): boolean =>
  error instanceof Error &&
  !(error instanceof DomainError) &&
  (formErrorCode.test((error as FastifyError).code) || /multipart|boundary/i.test(error.message));

/** Error codes of @fastify/multipart. Errors of the parser that it uses have no code. */
const formErrorCode = /^FST_((PARTS|FILES|FIELDS)_LIMIT|PROTO_VIOLATION|INVALID_JSON_FIELD_ERROR)$/;

function draftOf(fields: Fields, filename: string): ImportCreate {
  const ofFile = [...filename.replaceAll(/\p{C}/gu, '')].slice(0, 100).join('').trim();
  const name = text(fields, 'name').trim() || ofFile;
  const object = text(fields, 'object') as ImportCreate['object'];
  const byFile = object === 'contacts' ? (['upsert', 'work_email'] as const) : (['create', ''] as const);
  const [mode, match] = text(fields, 'mode') === '' ? byFile : [text(fields, 'mode'), text(fields, 'match')];
  return {
    object,
    mode: mode as ImportMode,
    format: (text(fields, 'format') || 'auto') as ImportFormat,
    guess: true,
    ...(name === '' ? {} : { name }),
    ...(object === 'contacts' && text(fields, 'list_id') !== '' ? { list_ids: [text(fields, 'list_id')] } : {}),
    ...(match === '' || mode === 'create' ? {} : { match: match as NonNullable<ImportCreate['match']> }),
  };
}

const noFile: Refused = { faults: { file: 'Choose a file.' }, status: 400 };

function showForm(request: FastifyRequest, fields: Fields, refused = notSent, waiting: Html = ''): Page {
  const { faults } = refused;
  const isOpen = text(fields, 'name') !== '' || faults['format'] || faults['name'];
  const { input, choice } = controlsFor(fields, faults);
  const objects = importObjects.map((one) => [one, plain(one)] as const);
  const formats = importFormats.map((one) => [one, one === 'auto' ? 'As the file shows' : one.toUpperCase()] as const);
  const hint = 'Excel (.xlsx), CSV or NDJSON. At most 1,000,000 records and 256 MiB; of Excel 200,000 rows and 50 MiB.';
  const more = 'accept=".csv,.tsv,.txt,.xlsx,.xlsm,.ndjson,.jsonl" required';
  const nameInput = input('name', 'Name of the import', { hint: 'Optional. Else the name of the file.' });
  const page = {
    title: 'New import',
    lead: 'Nothing is written yet: next you see how the file is read.',
    action: `${section}/new`,
    body: html`!${waiting} !${hidden(textsIn(fields, 'mode', 'match', 'list_id'))}
      <div class="card narrow">
        !${choice('object', 'The file contains', objects)}
        !${folded('Name and format', html`!${nameInput} !${choice('format', 'Format', formats)}`, isOpen)}
        !${input('file', 'File', { hint, type: 'file', more })}
      </div>
      !${buttons('Upload and preview', section)}`,
    attributes: 'enctype="multipart/form-data" data-once data-keep',
  };
  return formPage(request, page, refused);
}
