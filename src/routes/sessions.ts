import { Type, type FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { FastifyRequest } from 'fastify';
import { logIn, replacePassword } from '../accounts/users.ts';
import { LoginAttempts } from '../access/rate-limits.ts';
import { actorOf, sessionOf } from '../plugins/auth.ts';
import { deleteSession } from '../queries/accounts/users.ts';
import { Login, PasswordChange, Session } from '../schemas/accounts.ts';
import { ErrorBody, Refusal } from '../schemas/wire.ts';

const config = { access: { session: 'member' } } as const;
const tags = ['sessions'];

const sessions: FastifyPluginAsyncTypebox = async (app) => {
  const attempts = new LoginAttempts(app.rateLimits);
  const refuseGuessers = ({ address }: FastifyRequest) => attempts.check(address);

  app.post(
    '/login',
    {
      config: { access: { public: true } },
      onRequest: refuseGuessers,
      schema: {
        operationId: 'logIn',
        summary: 'Log in',
        description:
          'Opens a session of 12 hours for a user. Its token is for the endpoints under `/api/auth`, `/api/api-key` and ' +
          '`/api/webhook`; the external API takes API keys only. A wrong e-mail address or password is 401, whether ' +
          'or not the user exists. Too many failed logins are 429.',
        tags,
        body: Login,
        response: { 200: Session, 401: Refusal, 429: ErrorBody },
      },
    },
    async ({ db, body, address }, reply) => {
      const session = await attempts.run(address, body.email, () => logIn(db, body, address));
      return reply.header('cache-control', 'no-store').send(session);
    },
  );

  app.post(
    '/logout',
    {
      config,
      schema: {
        operationId: 'logOut',
        summary: 'Log out',
        description: 'Ends the session of the token. The token is refused from then on.',
        tags,
        response: { 204: Type.Null() },
      },
    },
    async (request, reply) => {
      await request.db.transaction((sql) => deleteSession(sql, sessionOf(request), actorOf(request)));
      return reply.code(204).send(null);
    },
  );

  app.post(
    '/password',
    {
      config,
      onRequest: refuseGuessers,
      schema: {
        operationId: 'changePassword',
        summary: 'Change the password',
        description:
          "Changes the password of the logged-in user and ends the user's other sessions. A wrong current password " +
          'is 401, and counts as a failed login.',
        tags,
        body: PasswordChange,
        response: { 204: Type.Null() },
      },
    },
    async (request, reply) => {
      // Limited like logins: somebody using another user's open session could guess the password here.
      await attempts.run(request.address, sessionOf(request).email, () =>
        replacePassword(request.db, sessionOf(request), request.body, actorOf(request)),
      );
      return reply.code(204).send(null);
    },
  );
};

export default sessions;
