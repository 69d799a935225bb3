import { Type, type FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { notFound } from '../errors.ts';
import { etagOf } from '../text/ids.ts';
import { updateList, createList, deleteList, duplicateList, findList, listLists } from '../queries/crm/lists.ts';
import { addMembers, removeMembers } from '../queries/crm/list-members.ts';
import { ListVerification, VerificationEstimate, VerifyList } from '../schemas/jobs.ts';
import * as schemas from '../schemas/lists.ts';
import { done, doneWith, DoneWithId, ErrorBody, IdParams, ShortageBody } from '../schemas/wire.ts';
import { rowsOf, recordRoutes } from '../plugins/record-routes.ts';
import { routesOf } from '../schemas/scopes.ts';
import { startOrEstimate } from './jobs.ts';

const about = routesOf('lists', { access: { scope: 'list_contacts:read' } });

const lists: FastifyPluginAsyncTypebox = async (app) => {
  const one = recordRoutes(app, {
    path: '/list-contact',
    scope: 'list_contacts',
    noun: 'list',
    title: 'contact list',
    tag: 'lists',
  });

  app.post(
    '/list-contact/list',
    about(
      'listContactLists',
      'List contact lists',
      'Returns one page of the lists, newest first, each with its rules and the number of its members. The ' +
        'numbers are exact, but for lists with rules of a customer with more than 20,000 contacts: their numbers can ' +
        'be a minute old, and a little older while many of them are counted again; `counted_at` says when each was counted. ' +
        'Here `page` and `limit` stand at the root of the body, not inside `paginate`. To read the members of a ' +
        'list, list contacts with the filter `list_id`.',
      { body: schemas.ListQuery, response: { 200: Type.Array(schemas.ListedList) } },
    ),
    async ({ db, caller, body }, reply) => rowsOf(reply, await listLists(db, caller.customerId, body)),
  );

  app.post(
    '/list-contact',
    about(
      'createContactList',
      'Create a contact list',
      'Creates a list. Contacts that match its rules become members at once, and later ones as soon as they ' +
        'match. Without rules, members are added by hand. Too many lists with rules are 409.',
      { body: schemas.ListCreate, response: { 201: schemas.ListCreated } },
      { access: { scope: 'list_contacts:create' }, idempotent: true, isChange: true },
    ),
    async (request, reply) =>
      app.once(request, reply.code(201), (sql) =>
        createList(sql, request.caller.customerId, request.caller.userId, request.body),
      ),
  );

  app.get(
    '/list-contact/:id',
    about(
      'getContactList',
      'Read a contact list',
      'Returns one list with its rules and the exact number of its members. The header `etag` holds its version.',
      { params: IdParams, response: { 200: schemas.List } },
      { etag: true },
    ),
    async ({ db, caller, params }, reply) => {
      const list = await findList(db, caller.customerId, params.id);
      if (!list) throw notFound('list');
      return reply.header('etag', etagOf(list)).send(list);
    },
  );

  one.update(schemas.ListPatch, updateList, {
    description:
      'Changes the fields that are sent; others stay. `rules` replaces all rules: contacts that no longer match ' +
      'leave the list, those that match enter it, and members added by hand stay. With `If-Match` the list is ' +
      'changed only if it still has that version (else 412).',
    errors: [409],
  });

  one.remove(deleteList, {
    description:
      'Deletes a list. Its contacts stay. With `If-Match` it is deleted only if it still has that ' +
      'version (else 412).',
  });

  app.post(
    '/list-contact/duplicate',
    // The contract requires only the read scope here.
    about(
      'duplicateContactList',
      'Copy a contact list',
      'Creates a list with the rules and the hand-made members of another one. The response has the id of the ' +
        'copy.',
      { body: schemas.ListDuplicate, response: { 200: DoneWithId, 404: ErrorBody } },
      { idempotent: true, isChange: true },
    ),
    async (request, reply) =>
      app.once(request, reply, async (sql) => {
        const { customerId, userId } = request.caller;
        return done('List duplicated', await duplicateList(sql, customerId, userId, request.body));
      }),
  );

  app.post(
    '/list-contact/verify-contacts/:id',
    // The contract requires only the read scope here.
    about(
      'verifyContactList',
      "Verify the e-mail addresses of a list's contacts",
      'Starts a job that verifies the `work_email` of every member and writes the result to the contacts. It ' +
        'reserves one verification credit for each address; too few are 402, and nothing starts. Addresses that ' +
        'were verified for this customer in the last 24 hours are free: their result is reused, unless `fresh` is ' +
        'true. With `dry_run` the response is an estimate, and nothing happens. A list with more ' +
        'than 100,000 members is 409. Follow the job with `GET /api/ext/service-handler/{id}`.',
      {
        params: IdParams,
        body: VerifyList,
        response: { 200: Type.Union([ListVerification, VerificationEstimate]), 402: ShortageBody },
      },
      { limit: 'jobs', idempotent: true, mayNeedApproval: true },
    ),
    async (request, reply) =>
      startOrEstimate('verify_list', request, reply, {
        body: { ...request.body, list_id: request.params.id },
        toAnswer: (job) => doneWith('Verification started', job),
      }),
  );

  app.post(
    '/list-contact-details/add-contacts',
    about(
      'addContactsToList',
      'Add contacts to a list',
      'Adds existing contacts to a list by hand. Contacts that were members before, also by its rules, count as `already_members`, ' +
        'which is not an error. An unknown contact is 404, and nothing is added.',
      { body: schemas.MembersByHand, response: { 200: schemas.MembersAdded, 404: ErrorBody } },
      { access: { scope: 'list_contact_details:update' } },
    ),
    async ({ db, caller, body }) => {
      const { ids: _ids, ...data } = await db.transaction((sql) => addMembers(sql, caller.customerId, body));
      return doneWith('Contacts added', data);
    },
  );

  app.post(
    '/list-contact-details/remove-contacts',
    about(
      'removeContactsFromList',
      'Remove contacts from a list',
      'Takes contacts out of a list to which they were added by hand. A contact that matches the rules of the ' +
        'list stays a member. An unknown contact is 404, and nothing is removed.',
      { body: schemas.MembersByHand, response: { 200: schemas.MembersRemoved, 404: ErrorBody } },
      { access: { scope: 'list_contact_details:update' } },
    ),
    async ({ db, caller, body }) => {
      const { ids } = await db.transaction((sql) => removeMembers(sql, caller.customerId, body));
      return doneWith('Contacts removed', { removed: ids.length });
    },
  );
};

export default lists;
