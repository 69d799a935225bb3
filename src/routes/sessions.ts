import { Type, type FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { Database } from '../db.ts';
import { Unauthorized, type RefusalCause } from '../errors.ts';
import { hashPassword, verifyPassword } from '../passwords.ts';
import { actorOf, sessionOf } from '../plugins/auth.ts';
import { nobody, recordEvent, recordFailedLogin } from '../queries/audit.ts';
import { deleteSession, insertSession } from '../queries/sessions.ts';
import { changePassword, findAccount, findAccountByEmail, type Account } from '../queries/users.ts';
import { Login, PasswordChange, Session } from '../schemas/sessions.ts';
import { Refusal } from '../schemas/wire.ts';
import { mintToken, sessionPrefix } from '../tokens.ts';

const config = { access: { session: 'member' } } as const;
const tags = ['sessions'];

/** How a user gets a session token, is rid of it, and changes the password. */
const sessions: FastifyPluginAsyncTypebox = async (app) => {
  app.post(
    '/login',
    {
      config: { access: { public: true } },
      schema: { summary: 'Log in', tags, body: Login, response: { 200: Session, 401: Refusal } },
    },
    async (request, reply) => {
      const { email, password } = request.body;
      const account = await request.db.lookup((sql) => findAccountByEmail(sql, email));
      const refusal = refusalOf(account, await verifyPassword(account?.password_hash, password));
      if (!account || refusal) return refuseLogin(request.db, account, refusal ?? 'unknown', request.address);
      const token = mintToken(sessionPrefix);
      const by = { actor: account.email, address: request.address };
      const expires_at = await request.db.transaction((sql) => insertSession(sql, account, token.hash(), by));
      if (!expires_at) return refuseLogin(request.db, account, 'wrong_password', request.address);
      return reply.header('cache-control', 'no-store').send({ token: token.reveal(), expires_at, user: account });
    },
  );

  /** Every refusal takes the same way, so that neither answer nor time tells one from another. */
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
    { config, schema: { summary: 'End this session', tags, response: { 204: Type.Null() } } },
    async (request, reply) => {
      await request.db.transaction((sql) => deleteSession(sql, sessionOf(request), actorOf(request)));
      return reply.code(204).send(null);
    },
  );

  app.post(
    '/password',
    {
      config,
      schema: {
        summary: "Change the password; ends the user's other sessions",
        tags,
        body: PasswordChange,
        response: { 204: Type.Null() },
      },
    },
    async (request, reply) => {
      const { customerId, userId, tokenHash } = sessionOf(request);
      const by = actorOf(request);
      const account = await request.db.lookup((sql) => findAccount(sql, customerId, userId));
      const right = await verifyPassword(account?.password_hash, request.body.current_password);
      const hash = right ? await hashPassword(request.body.new_password) : '';
      const done = await request.db.transaction(async (sql) => {
        if (account && right && (await changePassword(sql, account, hash, tokenHash, by))) return true;
        await recordEvent(sql, { event: 'user.password_change_failed', customerId, userId, by });
        return false;
      });
      if (!done) throw new Unauthorized('login', 'wrong_password');
      return reply.code(204).send(null);
    },
  );
};

export default sessions;

/** Why this login is refused, for the log; undefined when it is not. */
function refusalOf(account: Account | undefined, right: boolean): RefusalCause | undefined {
  if (!account) return 'unknown';
  return right ? (account.refusal ?? undefined) : 'wrong_password';
}
