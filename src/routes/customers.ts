import { Type, type FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { spenderOf } from '../access/credentials.ts';
import { rowsOf } from '../plugins/record-routes.ts';
import { findCredits, listEntries } from '../queries/jobs/credits.ts';
import { findApiKey } from '../queries/accounts/api-keys.ts';
import { findCustomerSummary } from '../queries/accounts/customers.ts';
import { listUsers } from '../queries/accounts/users.ts';
import { Credits, LedgerEntry, LedgerQuery } from '../schemas/jobs.ts';
import { CustomerSummary, User } from '../schemas/accounts.ts';
import { routesOf } from '../schemas/scopes.ts';

const about = routesOf('customer', { access: { scope: 'customer:read' } });

const customer: FastifyPluginAsyncTypebox = async (app) => {
  app.get(
    '/customer/summary',
    about(
      'getCustomerSummary',
      'Read the account summary',
      'Returns the customer that the API key belongs to, its subscription, and what the key itself is. A good first ' +
        'call: it needs no input.',
      { response: { 200: CustomerSummary } },
    ),
    ({ db, caller }) =>
      db.lookup(async (sql) => {
        const { customerId, apiKeyId } = spenderOf(caller);
        const summary = await findCustomerSummary(sql, customerId);
        return { ...summary, api_key: (await findApiKey(sql, customerId, apiKeyId!))! };
      }),
  );

  app.get(
    '/customer/users',
    about(
      'listUsers',
      'List users',
      'Returns all users of the customer, newest first. `assigned_to` of contacts and `user_id_assigned` of ' +
        'opportunities take their ids.',
      { response: { 200: Type.Array(User) } },
    ),
    (request) => request.db.lookup((sql) => listUsers(sql, request.caller.customerId)),
  );

  app.get(
    '/customer/credits',
    about(
      'getCredits',
      'Read the credits',
      'Returns the credits of both pools: those that can be spent, and those that are reserved for unfinished ' +
        'jobs.',
      { response: { 200: Credits } },
    ),
    (request) => request.db.lookup((sql) => findCredits(sql, request.caller.customerId)),
  );

  app.post(
    '/customer/credits/ledger',
    about(
      'listCreditEntries',
      'List the entries of the credit ledger',
      'Returns one page of the credit ledger, newest first. It has an entry for every change of the credits, so ' +
        'the balance can be recomputed. A full page has the header `x-next-cursor`.',
      { body: LedgerQuery, response: { 200: Type.Array(LedgerEntry) } },
    ),
    async ({ db, caller, body }, reply) => rowsOf(reply, await listEntries(db, caller.customerId, body.paginate)),
  );
};

export default customer;
