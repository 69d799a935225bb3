import type { FastifyInstance } from 'fastify';
import { sendExport } from '../../plugins/answers/send-export.ts';
import { addMembers, removeMembers } from '../../queries/memberships/list-members.ts';
import { notFound } from '../../errors.ts';
import type { ExportFormat } from '../../schemas/files.ts';
import { canonicalId } from '../../text/ids.ts';
import { forMembers } from '../base/access.ts';
import { fieldsOf, idOf, queryOf, text } from '../base/forms.ts';
import { goTo } from '../base/layout.ts';
import { chosen } from './chosen.ts';
import { companyKind } from './company-kind.ts';
import { contactKind } from './contact-kind.ts';
import { requestOf, viewOfRequest } from './record-address.ts';
import { recordEdit } from './record-edit.ts';
import type { RecordKind, ShownRecord } from './record-kind.ts';
import { recordList } from './record-list.ts';
import { recordView } from './record-view.ts';

/** The pages of contacts and companies. */
export async function records(app: FastifyInstance): Promise<void> {
  addPages(app, contactKind);
  addPages(app, companyKind);

  // The lists of a contact: adds it to one by hand, or takes it out.
  app.post('/contacts/:id/lists', forMembers, async (request, reply) => {
    const { db, caller } = request;
    const fields = fieldsOf(request);
    const [id, list_id] = [idOf(request, 'contact'), canonicalId(text(fields, 'list_id'))];
    if (list_id === undefined) throw notFound('list');
    const change = text(fields, 'do') === 'remove' ? removeMembers : addMembers;
    await db.transaction<unknown>((sql) => change(sql, caller.customerId, { list_id, contact_ids: [id] }));
    return goTo(reply, `/app/contacts/${id}?done=listed`);
  });
}

function addPages<Row extends ShownRecord>(app: FastifyInstance, kind: RecordKind<Row>): void {
  recordList(app, kind);
  recordEdit(app, kind);
  recordView(app, kind);
  chosen(app, kind);
  exporting(app, kind);
}

/** Sends what matches a view as a file. */
function exporting<Row extends ShownRecord>(app: FastifyInstance, kind: RecordKind<Row>): void {
  const config = { ...forMembers.config, isLong: true, concurrent: 'exports' } as const;
  app.get(`${kind.path.replace('/app', '')}/export`, { ...forMembers, config }, async (request, reply) => {
    const format: ExportFormat = text(queryOf(request), 'format') === 'csv' ? 'csv' : 'xlsx';
    const { filters, order_by } = requestOf(kind, viewOfRequest(kind, request), 1);
    const asked = { ...(filters ? { filters } : {}), ...(order_by ? { order_by } : {}) };
    const found = kind.exported(request.db, request.caller.customerId, asked);
    return sendExport(request, reply.header('cache-control', 'no-store'), found, { format, fields: 'readable' });
  });
}
