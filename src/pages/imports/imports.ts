import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { openErrorsFile } from '../../jobs/imports/errors-file.ts';
import { cancelImport, changeImport, startUploaded } from '../../jobs/imports/start-import.ts';
import { sessionOf } from '../../plugins/credentials/auth.ts';
import { sendFile } from '../../plugins/answers/send-file.ts';
import { allImports, listImports, requireImport } from '../../queries/imports/imports.ts';
import { ImportPatch, type Import } from '../../schemas/imports.ts';
import { finalStatuses, type FinalStatus } from '../../schemas/jobs.ts';
import { defaultLimit } from '../../schemas/base/wire.ts';
import { compile } from '../../validation/validator.ts';
import { forAdmins, forMembers } from '../base/access.ts';
import { faultsOf, refusalOf, fieldsOf, formFaults, idOf, pageNumberOf, text, type Faults } from '../base/forms.ts';
import { count, counted, empty, facts, html, moment, notice, pager, table, type Html } from '../base/html.ts';
import { mappingForm, obstaclesTo, readPreview } from './import-mapping.ts';
import { importUpload, modeLabels, section, titleOf } from './import-upload.ts';
import { form, goTo, sendConfirmation, sendPage } from '../base/layout.ts';
import { progressBar, statusBadge } from '../base/progress.ts';

/** The list of imports, the upload, the preview with the column mapping, and the progress. */
export async function imports(app: FastifyInstance): Promise<void> {
  await app.register(importUpload);
  const check = compile(ImportPatch);

  app.get('/imports', forMembers, async (request, reply) => {
    const page = pageNumberOf(request);
    const rows = await request.db.search((sql) => listImports(sql, request.caller.customerId, { page }, allImports));
    const isAdmin = sessionOf(request).role === 'admin';
    const add = html`<a role="button" href="${section}/new">New import</a>`;
    const body =
      rows.length > 0
        ? html`!${table('Imports', ['Import', 'Status', 'Records', 'Failed', 'Created'], rows.map(row))}
          !${pager({
            newer: page > 1 ? `${section}?page=${page - 1}` : undefined,
            older: rows.length === defaultLimit ? `${section}?page=${page + 1}` : undefined,
          })}`
        : empty(
            'No imports yet',
            'An import writes contacts or companies from a CSV or NDJSON file. You see what it would do before it starts.',
            isAdmin ? add : '',
            'file',
          );
    return sendPage(request, reply, {
      title: 'Imports',
      section,
      body,
      actions: isAdmin && rows.length > 0 ? add : '',
    });
  });

  app.get('/imports/:id', forMembers, async (request, reply) => showImport(request, reply));

  app.post('/imports/:id', forAdmins, async (request, reply) => {
    const id = idOf(request, 'import');
    const { db, caller } = request;
    const ref = { id, visible: allImports };
    const fields = fieldsOf(request);
    const action = text(fields, 'do');
    if (!['start', 'check', 'save'].includes(action))
      return showImport(request, reply, { do: 'Say what to do: start, check or save.' }, 400);
    try {
      const { patch } = await readPreview(db, caller.customerId, ref, fields);
      const faults = faultsOf(check, patch);
      if (Object.keys(faults).length > 0) return await showImport(request, reply, faults, 400);
      const changes = { ...patch, dry_run: action === 'check' };
      await db.transaction((sql) => changeImport(sql, caller.customerId, ref, changes));
      if (action !== 'save' && !(await startImport(request, ref.id, changes)))
        return await showImport(request, reply, { do: 'The import is not started: see below why it would fail.' }, 400);
    } catch (error) {
      const { faults, status } = refusalOf(error);
      return showImport(request, reply, faults, status);
    }
    return goTo(reply, `${section}/${id}`);
  });

  app.get('/imports/:id/cancel', forAdmins, async (request, reply) => {
    const found = await findImport(request);
    return sendConfirmation(request, reply, {
      title: 'Cancel the import',
      section,
      text: html`${titleOf(found)}: what is written stays. The file is removed.`,
      action: `${section}/${found.id}/cancel`,
      back: `${section}/${found.id}`,
      refusal: 'Leave it',
    });
  });

  app.post('/imports/:id/cancel', forAdmins, async (request, reply) => {
    const ref = { id: idOf(request, 'import'), visible: allImports };
    await request.db.transaction((sql) => cancelImport(sql, request.caller.customerId, ref));
    return goTo(reply, `${section}/${ref.id}`);
  });

  const download = { ...forMembers, config: { ...forMembers.config, isLong: true } } as const;
  app.get('/imports/:id/errors.csv', download, async (request, reply) => {
    const ref = { id: idOf(request, 'import'), visible: allImports };
    const file = await openErrorsFile(request.db, request.caller.customerId, ref);
    void reply.header('cache-control', 'no-store');
    return sendFile(request, reply, { ...file, name: 'errors.csv', noun: 'errors file' });
  });
}

const findImport = (request: FastifyRequest): Promise<Import> => {
  const id = idOf(request, 'import');
  return request.db.lookup((sql) => requireImport(sql, request.caller.customerId, id, allImports));
};

const row = (one: Import): Html =>
  html`<tr>
    <td>
      <a href="${section}/${one.id}">${titleOf(one)}</a><br />
      <span class="quiet">${modeLabels[one.mode]}${one.dry_run ? ', check only' : ''}</span>
    </td>
    <td>!${statusBadge(one.status)}</td>
    <td class="number">${one.total === null ? '–' : count(one.total)}</td>
    <td class="number">${count(one.failed)}</td>
    <td>!${moment(one.created_at)}</td>
  </tr>`;

/** Changes an import's settings and starts it. Does nothing and returns false if it is certain to fail. */
async function startImport(request: FastifyRequest, id: string, changes: ImportPatch): Promise<boolean> {
  const { db, caller } = request;
  const ref = { id, visible: allImports };
  const { preview } = await readPreview(db, caller.customerId, ref);
  if (obstaclesTo(await findImport(request), preview).length > 0) return false;
  await db.transaction(async (sql) => {
    // Again, because somebody else can have changed the settings, `dry_run` too.
    await changeImport(sql, caller.customerId, ref, changes);
    await startUploaded(sql, caller.customerId, ref);
  });
  return true;
}

async function showImport(
  request: FastifyRequest,
  reply: FastifyReply,
  faults: Faults = {},
  status = 200,
): Promise<FastifyReply> {
  const found = await findImport(request);
  const isAdmin = sessionOf(request).role === 'admin';
  const isFinal = finalStatuses.includes(found.status as FinalStatus);
  const isWaiting = found.status === 'UPLOADED';
  const isRunning = !isFinal && !isWaiting;
  const cancel = html`<a role="button" class="danger outline" href="${section}/${found.id}/cancel" data-dialog
    >Cancel the import</a
  >`;
  return sendPage(request, reply, {
    title: titleOf(found),
    section,
    status,
    isLive: isRunning,
    actions: isAdmin && !isFinal ? cancel : '',
    body: html`!${formFaults(faults, [])}
      <div !${isRunning ? 'data-live' : ''}>
        !${isWaiting ? '' : outcomeOf(found)}
        <div class="card">!${isWaiting ? '' : progressBar(found, 'records')} !${factsOf(found)}</div>
      </div>
      !${isWaiting ? await settings(request, reply, found, isAdmin) : ''}`,
  });
}

/** Returns the preview of an import that has not started, for admins with the form that starts it. */
async function settings(request: FastifyRequest, reply: FastifyReply, found: Import, isAdmin: boolean): Promise<Html> {
  const ref = { id: found.id, visible: allImports };
  const { preview } = await readPreview(request.db, request.caller.customerId, ref);
  const body = mappingForm(found, preview, isAdmin);
  return isAdmin ? form(request, reply, { action: `${section}/${found.id}`, body, attributes: 'data-keep' }) : body;
}

/** Returns a message for an import that has completed or failed, and a link to its failed records, if any. */
function outcomeOf({ status, dry_run, error, failed, total, id }: Import): Html {
  const errors =
    failed > 0
      ? html`<p>
          <a role="button" class="secondary outline" href="${section}/${id}/errors.csv" download
            >Download the failed records</a
          >
        </p>`
      : '';
  if (status === 'FAILED') return html`!${notice(`The import failed: ${error}.`, 'bad')}!${errors}`;
  if (status !== 'COMPLETED') return errors;
  const failures =
    failed > 0 ? ` ${count(failed)} of ${counted(total!, 'record')} ${dry_run ? 'would fail' : 'failed'}.` : '';
  const tone = failed === 0 ? (dry_run ? 'busy' : 'good') : failed === total ? 'bad' : 'warning';
  const done = dry_run
    ? 'Checked. Nothing was written. To import the file, upload it again.'
    : 'The import is complete.';
  return html`!${notice(`${done}${failures}`, tone)}!${errors}`;
}

const factsOf = (found: Import): Html =>
  facts([
    ['Status', statusBadge(found.status)],
    ['What it does', html`${modeLabels[found.mode]}${found.match === null ? '' : `, found by ${found.match}`}`],
    ...(found.dry_run ? ([['Writes', 'nothing: check only']] as const) : []),
    ['Created', count(found.created)],
    ['Changed', count(found.updated)],
    ['Unchanged', count(found.unchanged)],
    ['Failed', count(found.failed)],
    ['Begun', moment(found.created_at)],
    ['Ended', moment(found.finished_at, 'Not yet')],
  ]);
