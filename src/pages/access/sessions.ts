import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { logIn } from '../../accounts/sessions.ts';
import { DomainError, Unauthorized } from '../../errors.ts';
import { LoginAttempts } from '../../limits/login-attempts.ts';
import { actorOf, sessionOf } from '../../plugins/credentials/auth.ts';
import { statuses } from '../../plugins/answers/error-handler.ts';
import { sessionCookies } from '../../plugins/credentials/session-cookie.ts';
import { deleteSession } from '../../queries/accounts/sessions.ts';
import { Login } from '../../schemas/users.ts';
import { compile } from '../../validation/validator.ts';
import { forAll, forMembers } from '../base/access.ts';
import { ownPath } from '../base/error-page.ts';
import {
  fieldsOf,
  hidden,
  inputField,
  notSent,
  queryOf,
  refusalOf,
  requireValid,
  text,
  type Refused,
} from '../base/forms.ts';
import { html, notice } from '../base/html.ts';
import { goTo, sendForm } from '../base/layout.ts';

interface LoginForm {
  email?: string;
  /** Path to which the user is redirected after the login. */
  next: string;
  refused?: Refused;
}

export async function sessions(app: FastifyInstance): Promise<void> {
  const attempts = new LoginAttempts(app.rateLimits);
  const cookies = sessionCookies(app.config);
  const check = compile(Login);

  app.get('/login', forAll, async (request, reply) =>
    showLogin(request, reply, { next: text(queryOf(request), 'next') }),
  );

  app.post('/login', { ...forAll, onRequest: ({ address }) => attempts.check(address) }, async (request, reply) => {
    const fields = fieldsOf(request);
    const body = { email: text(fields, 'email').trim(), password: text(fields, 'password') };
    const shown = { email: body.email, next: text(fields, 'next') };
    try {
      requireValid(check, body);
      const { token } = await attempts.run(request.address, body.email, () => logIn(request.db, body, request.address));
      void reply.setCookie(cookies.session, token, cookies.attributes).clearCookie(cookies.login, cookies.attributes);
      return goTo(reply, ownPath(shown.next));
    } catch (error) {
      return showLogin(request, reply, { ...shown, refused: loginRefusal(error, request, reply) });
    }
  });

  app.post('/logout', forMembers, async (request, reply) => {
    await request.db.transaction((sql) => deleteSession(sql, sessionOf(request), actorOf(request)));
    return goTo(reply.clearCookie(cookies.session, cookies.attributes), '/app/login?out=1');
  });
}

/** Returns why a login was rejected. Throws every error that says nothing of it. */
function loginRefusal(error: unknown, request: FastifyRequest, reply: FastifyReply): Refused {
  if (error instanceof Unauthorized) {
    request.log.info({ credential: error.credential, reason: error.reason }, 'refused');
    return { status: statuses.unauthorized, faults: { '': 'The e-mail address or the password is wrong.' } };
  }
  if (!(error instanceof DomainError) || error.code !== 'rate_limited') return refusalOf(error);
  void reply.header('retry-after', error.retryAfter);
  const wait = `Too many failed logins. Try again in ${error.retryAfter} seconds.`;
  return { status: statuses.rate_limited, faults: { '': wait } };
}

function showLogin(
  request: FastifyRequest,
  reply: FastifyReply,
  { email = '', next, refused = notSent }: LoginForm,
): FastifyReply {
  const query = queryOf(request);
  const message = query['ended']
    ? notice('Your session has ended. Log in again to continue.', 'warning')
    : query['out']
      ? notice('You are logged out.')
      : query['set']
        ? notice('Your password is set. Log in with it.')
        : '';
  const { faults } = refused;
  const body = html`!${hidden({ next: ownPath(next) })}
    !${inputField(
      { name: 'email', label: 'E-mail address', faults },
      email,
      'email',
      'autocomplete="username" required autofocus',
    )}
    !${inputField(
      { name: 'password', label: 'Password', faults },
      '',
      'password',
      'autocomplete="current-password" required',
    )} <button>Log in</button>`;
  return sendForm(request, reply, {
    title: 'Log in',
    lead: faults[''] ? '' : message,
    action: '/app/login',
    body,
    fields: ['email', 'password'],
    refused,
  });
}
