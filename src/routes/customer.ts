import { Type, type FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { findSummary } from '../queries/customers.ts';
import { listUsers } from '../queries/users.ts';
import { CustomerSummary } from '../schemas/customers.ts';
import { User } from '../schemas/users.ts';

const config = { access: { scope: 'customer:read' } } as const;
const tags = ['customer'];

/** The account that a key belongs to. */
const customer: FastifyPluginAsyncTypebox = async (app) => {
  app.get(
    '/customer/summary',
    { config, schema: { summary: 'The account summary', tags, response: { 200: CustomerSummary } } },
    (request) => app.db.lookup((sql) => findSummary(sql, request.caller.customerId)),
  );

  app.get(
    '/customer/users',
    {
      config,
      schema: {
        summary: 'The users, whose ids `assigned_to` takes, newest first',
        tags,
        response: { 200: Type.Array(User) },
      },
    },
    (request) => app.db.lookup((sql) => listUsers(sql, request.caller.customerId)),
  );
};

export default customer;
