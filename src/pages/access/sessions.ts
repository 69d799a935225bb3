import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { logIn } from '../../accounts/sessions.ts';
import { DomainError, Unauthorized } from '../../errors.ts';
import { LoginAttempts } from '../../limits/login-attempts.ts';
import { actorOf, sessionOf } from '../../plugins/credentials/auth.ts';
import { statuses } from '../../plugins/answers/error-handler.ts';
import { sessionCookies } from '../../plugins/credentials/session-cookie.ts';
import { deleteSession } from '../../queries/accounts/sessions.ts';
import { Login } from '../../schemas/sessions.ts';
import { compile } from '../../validation/validator.ts';
import { forAll, forMembers } from '../base/access.ts';
import { ownPath } from '../base/error-page.ts';
import { faultsOf, field, fieldsOf, formFaults, queryOf, text, type Faults } from '../base/forms.ts';
import { html, notice } from '../base/html.ts';
import { form, goTo, sendPage } from '../base/layout.ts';

interface LoginForm {
  email?: string;
  faults?: Faults;
  /** Path to which the user is redirected after the login. */
  next: string;
  status?: number;
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
    const faults = faultsOf(check, body);
    if (Object.keys(faults).length > 0) return showLogin(request, reply, { ...shown, faults, status: 400 });
    try {
      const { token } = await attempts.run(request.address, body.email, () => logIn(request.db, body, request.address));
      void reply.setCookie(cookies.session, token, cookies.attributes).clearCookie(cookies.login, cookies.attributes);
      return goTo(reply, ownPath(shown.next));
    } catch (error) {
      return showLogin(request, reply, { ...shown, ...refusalOf(error, request, reply) });
    }
  });

  app.post('/logout', forMembers, async (request, reply) => {
    await request.db.transaction((sql) => deleteSession(sql, sessionOf(request), actorOf(request)));
    return goTo(reply.clearCookie(cookies.session, cookies.attributes), '/app/login?out=1');
  });
}

/** Returns the message and the HTTP status for a rejected login. Throws every other error. */
function refusalOf(error: unknown, request: FastifyRequest, reply: FastifyReply): Pick<LoginForm, 'faults' | 'status'> {
  if (error instanceof Unauthorized) {
    request.log.info({ credential: error.credential, reason: error.reason }, 'refused');
    return { status: statuses.unauthorized, faults: { '': 'The e-mail address or the password is wrong.' } };
  }
  if (!(error instanceof DomainError) || error.code !== 'rate_limited') throw error;
  void reply.header('retry-after', error.retryAfter);
  const wait = `Too many failed logins. Try again in ${error.retryAfter} seconds.`;
  return { status: statuses.rate_limited, faults: { '': wait } };
}

function showLogin(
  request: FastifyRequest,
  reply: FastifyReply,
  { email = '', faults = {}, next, status = 200 }: LoginForm,
): FastifyReply {
  const query = queryOf(request);
  const message = query['ended']
    ? notice('Your session has ended. Log in again to continue.', 'warning')
    : query['out']
      ? notice('You are logged out.')
      : query['set']
        ? notice('Your password is set. Log in with it.')
        : '';
  const body = html`!${formFaults(faults, ['email', 'password'])}
    <input type="hidden" name="next" value="${ownPath(next)}" />
    !${field(
      { name: 'email', label: 'E-mail address', faults },
      (attributes) =>
        html`<input type="email" !${attributes} value="${email}" autocomplete="username" required autofocus />`,
    )}
    !${field(
      { name: 'password', label: 'Password', faults },
      (attributes) => html`<input type="password" !${attributes} autocomplete="current-password" required />`,
    )}
    <button>Log in</button>`;
  return sendPage(request, reply, {
    title: 'Log in',
    status,
    body: html`!${faults[''] ? '' : message} !${form(request, reply, { action: '/app/login', body })}`,
  });
}
