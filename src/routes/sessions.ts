import { Type, type FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { FastifyRequest } from 'fastify';
import type { SessionCaller } from '../caller.ts';
import type { Database } from '../database/db.ts';
import { Unauthorized, type RefusalCause } from '../errors.ts';
import { LoginAttempts } from '../limits/login-attempts.ts';
import { hashPassword, verifyPassword } from '../passwords.ts';
import { actorOf, sessionOf } from '../plugins/auth.ts';
import { nobody, recordEvent, recordFailedLogin } from '../queries/audit.ts';
import { deleteSession, createSession } from '../queries/sessions.ts';
import { changePassword, findAccount, findAccountByEmail, type Account } from '../queries/users.ts';
import type { Actor } from '../schemas/audit.ts';
import { Login, PasswordChange, Session } from '../schemas/sessions.ts';
import { ErrorBody, Refusal } from '../schemas/wire.ts';
import { mintToken, sessionPrefix } from '../tokens.ts';

const config = { access: { session: 'member' } } as const;
const tags = ['sessions'];

/** Routes to log in, log out and change the password. */
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
          'Opens a session of 12 hours for a user. Its token is for the endpoints under `/api/auth` and ' +
          '`/api/api-key`; the external API takes API keys only. A wrong e-mail address or password is 401, whether ' +
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

  async function logIn(db: Database, { email, password }: Login, address: string): Promise<Session> {
    const account = await db.lookup((sql) => findAccountByEmail(sql, email));
    const refusal = refusalOf(account, await verifyPassword(account?.password_hash, password));
    if (!account || refusal) return refuseLogin(db, account, refusal ?? 'unknown', address);
    const token = mintToken(sessionPrefix);
    const by = { actor: account.email, address };
    const expires_at = await db.transaction((sql) => createSession(sql, account, token.hash(), by));
    if (!expires_at) return refuseLogin(db, account, 'wrong_password', address);
    return { token: token.reveal(), expires_at, user: account };
  }

  /**
   * Records a failed login and throws. Every failed login takes this path, so that neither the response nor its timing
   * reveals the reason.
   * @throws Unauthorized always
   */
  async function refuseLogin(
    db: Database,
    account: Account | undefined,
    reason: RefusalCause,
    address: string,
  ): Promise<never> {
    const { customerId, userId } = account ? { customerId: account.customer_id, userId: account.id } : nobody;
    await db.transaction((sql) => recordFailedLogin(sql, customerId, { userId, reason, address }));
    throw new Unauthorized('login', reason);
  }

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

  async function replacePassword(
    db: Database,
    session: SessionCaller,
    given: PasswordChange,
    by: Actor,
  ): Promise<void> {
    const { customerId, userId, tokenHash } = session;
    const account = await db.lookup((sql) => findAccount(sql, customerId, userId));
    const right = await verifyPassword(account?.password_hash, given.current_password);
    const hash = right ? await hashPassword(given.new_password) : '';
    const done = await db.transaction(async (sql) => {
      if (account && right && (await changePassword(sql, account, hash, tokenHash, by))) return true;
      await recordEvent(sql, { event: 'user.password_change_failed', customerId, userId, by });
      return false;
    });
    if (!done) throw new Unauthorized('login', 'wrong_password');
  }
};

export default sessions;

/**
 * Returns the reason why a login is refused, or undefined if the login is accepted.
 * @param right true if the given password is correct
 */
function refusalOf(account: Account | undefined, right: boolean): RefusalCause | undefined {
  if (!account) return 'unknown';
  return right ? (account.refusal ?? undefined) : 'wrong_password';
}
