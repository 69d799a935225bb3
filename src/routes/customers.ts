import { Type, type FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { findCredits, listEntries } from '../queries/credits.ts';
import { findCustomerSummary } from '../queries/customers.ts';
import { listUsers } from '../queries/users.ts';
import { Credits, LedgerEntry, LedgerQuery } from '../schemas/credits.ts';
import { CustomerSummary } from '../schemas/customers.ts';
import { User } from '../schemas/users.ts';

const config = { access: { scope: 'customer:read' } } as const;
const tags = ['customer'];

/** Routes for the customer account to which an API key belongs: summary, users, credits. */
const customer: FastifyPluginAsyncTypebox = async (app) => {
  app.get(
    '/customer/summary',
    { config, schema: { summary: 'Read the account summary', tags, response: { 200: CustomerSummary } } },
    (request) => request.db.lookup((sql) => findCustomerSummary(sql, request.caller.customerId)),
  );

  app.get(
    '/customer/users',
    {
      config,
      schema: {
        summary: 'List users, newest first; `assigned_to` accepts their ids',
        tags,
        response: { 200: Type.Array(User) },
      },
    },
    (request) => request.db.lookup((sql) => listUsers(sql, request.caller.customerId)),
  );

  app.get(
    '/customer/credits',
    { config, schema: { summary: 'Read the available and the reserved credits', tags, response: { 200: Credits } } },
    (request) => request.db.lookup((sql) => findCredits(sql, request.caller.customerId)),
  );

  app.post(
    '/customer/credits/ledger',
    {
      config,
      schema: {
        summary: 'List the credit ledger entries, newest first',
        tags,
        body: LedgerQuery,
        response: { 200: Type.Array(LedgerEntry) },
      },
    },
    async ({ db, caller, body }, reply) => {
      const page = await listEntries(db, caller.customerId, body.paginate);
      if (page.nextCursor) void reply.header('x-next-cursor', page.nextCursor);
      return page.rows;
    },
  );
};

export default customer;
