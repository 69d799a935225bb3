import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { countContacts, exportContacts, findContacts, listContacts } from '../queries/crm/contacts.ts';
import { contactWrites } from '../queries/crm/record-batches.ts';
import {
  Contact,
  ContactCount,
  ContactCreate,
  ContactDetail,
  ContactPatch,
  ContactQuery,
} from '../schemas/contacts.ts';
import { ContactExport } from '../schemas/files.ts';
import { addRecordLists, recordRoutes } from '../plugins/record-routes.ts';

const contacts: FastifyPluginAsyncTypebox = async (app) => {
  const kind = { path: '/contacts', scope: 'contacts', noun: 'contact' } as const;
  const one = recordRoutes(app, kind);

  addRecordLists(app, {
    ...kind,
    schemas: { list: ContactQuery, count: ContactCount, export: ContactExport, shown: Contact },
    list: listContacts,
    count: countContacts,
    export: exportContacts,
  });

  one.create(ContactCreate, contactWrites.create, {
    description:
      'Creates a contact. Several contacts may have the same e-mail address. `company` finds or creates the ' +
      'company; `list_ids` adds the contact to lists. An unknown id in the body is 404, an `external_id` that ' +
      'another contact has is 409; nothing is created then.',
    errors: [404],
  });

  one.read(ContactDetail, findContacts, {
    description:
      'Returns one contact with the lists to which it was added by hand. The header `etag` holds its version. ' +
      'An id of another customer is 404, like an unknown one. For 400 days after a merge, the 404 of a merged contact ' +
      'has `merged_into`, the id of the contact that replaces it.',
    mayBeMerged: true,
  });

  one.update(ContactPatch, contactWrites.update, {
    description:
      'Changes the fields that are sent; others stay. `null` clears a field that can be null. `custom_fields` ' +
      'is merged key by key; `list_ids` replaces the lists that the contact was added to by hand. With ' +
      '`If-Match` the contact is changed only if it still has that version (else 412).',
    errors: [409],
  });

  one.remove(contactWrites.remove, {
    description:
      'Deletes a contact, and takes it out of lists and opportunities. With `If-Match` it is deleted only if it ' +
      'still has that version (else 412). The deletion can be undone, unless `purge` is `true`.',
    mayPurge: true,
  });
};

export default contacts;
