import { Type, type FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { FastifyRequest } from 'fastify';
import { logIn, replacePassword } from '../accounts/users.ts';
import { LoginAttempts } from '../access/rate-limits.ts';
import { actorOf, sessionOf } from '../plugins/auth.ts';
import { deleteSession } from '../queries/accounts/users.ts';
import { Login, PasswordChange, Session } from '../schemas/accounts.ts';
import { ErrorBody, Refusal } from '../schemas/wire.ts';
import { routesOf } from '../schemas/scopes.ts';

const about = routesOf('sessions', { access: { session: 'member' } });

const sessions: FastifyPluginAsyncTypebox = async (app) => {
  const attempts = new LoginAttempts(app.rateLimits);
  const refuseGuessers = ({ address }: FastifyRequest) => attempts.check(address);

  app.post(
    '/login',
    {
      onRequest: refuseGuessers,
      ...about(
        'logIn',
        'Log in',
        'Opens a session of 12 hours for a user. Its token is for the endpoints under `/api/auth`, `/api/api-key` and ' +
          '`/api/webhook`; the external API takes API keys only. A wrong e-mail address or password is 401, whether ' +
          'or not the user exists. Too many failed logins are 429.',
        { body: Login, response: { 200: Session, 401: Refusal, 429: ErrorBody } },
        { access: { public: true } },
      ),
    },
    async ({ db, body, address }, reply) => {
      const session = await attempts.run(address, body.email, () => logIn(db, body, address));
      return reply.header('cache-control', 'no-store').send(session);
    },
  );

  app.post(
    '/logout',
    about('logOut', 'Log out', 'Ends the session of the token. The token is refused from then on.', {
      response: { 204: Type.Null() },
    }),
    async (request, reply) => {
      await request.db.transaction((sql) => deleteSession(sql, sessionOf(request), actorOf(request)));
      return reply.code(204).send(null);
    },
  );

  app.post(
    '/password',
    {
      onRequest: refuseGuessers,
      ...about(
        'changePassword',
        'Change the password',
        "Changes the password of the logged-in user and ends the user's other sessions. A wrong current password " +
          'is 401, and counts as a failed login.',
        { body: PasswordChange, response: { 204: Type.Null() } },
      ),
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
