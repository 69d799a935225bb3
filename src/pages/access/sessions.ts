import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { logIn, replacePassword } from '../../accounts/sessions.ts';
import { DomainError, Unauthorized, type Fault } from '../../errors.ts';
import { LoginAttempts } from '../../limits/login-attempts.ts';
import { actorOf, sessionOf } from '../../plugins/credentials/auth.ts';
import { statuses } from '../../plugins/answers/error-handler.ts';
import { sessionCookies } from '../../plugins/credentials/session-cookie.ts';
import { deleteSession } from '../../queries/accounts/sessions.ts';
import { Login, PasswordChange, PasswordByLink } from '../../schemas/users.ts';
import { compile } from '../../validation/validator.ts';
import { forAll, forMembers, goTo, sendForm, sendPage, formRoutes, type FormPage } from '../base/layout.ts';
import { ownPath } from '../base/error-page.ts';
import {
  fieldsOf,
  hidden,
  inputField,
  queryOf,
  refusalOf,
  requireValid,
  text,
  doneNotice,
  type Refused,
  type Faults,
  type Fields,
} from '../base/forms.ts';
import { html, notice, type Html } from '../base/html.ts';
import { redeemLink, requireLink } from '../../accounts/users.ts';

export async function sessions(app: FastifyInstance): Promise<void> {
  const attempts = new LoginAttempts(app.rateLimits);
  const cookies = sessionCookies(app.config);
  const check = compile(Login);

  formRoutes(app, '/login', forAll, {
    guard: ({ address }) => attempts.check(address),
    show: showLogin,
    act: async (request, reply) => {
      const fields = fieldsOf(request);
      const body = { email: text(fields, 'email').trim(), password: text(fields, 'password') };
      try {
        requireValid(check, body);
        const { token } = await attempts.run(request.address, body.email, () =>
          logIn(request.db, body, request.address),
        );
        void reply.setCookie(cookies.session, token, cookies.attributes).clearCookie(cookies.login, cookies.attributes);
        return ownPath(text(fields, 'next'));
      } catch (error) {
        return loginRefusal(error, request, reply);
      }
    },
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

function showLogin(request: FastifyRequest, { faults }: Refused): FormPage {
  const query = queryOf(request);
  const sent = fieldsOf(request);
  const message = query['ended']
    ? notice('Your session has ended. Log in again to continue.', 'warning')
    : query['out']
      ? notice('You are logged out.')
      : query['set']
        ? notice('Your password is set. Log in with it.')
        : '';
  const body = html`!${hidden({ next: ownPath(text('next' in sent ? sent : query, 'next')) })}
    !${inputField(
      { name: 'email', label: 'E-mail address', faults },
      text(sent, 'email').trim(),
      'email',
      'autocomplete="username" required autofocus',
    )}
    !${inputField(
      { name: 'password', label: 'Password', faults },
      '',
      'password',
      'autocomplete="current-password" required',
    )} <button>Log in</button>`;
  return { title: 'Log in', lead: faults[''] ? '' : message, action: '/app/login', body };
}

export async function password(app: FastifyInstance): Promise<void> {
  const attempts = new LoginAttempts(app.rateLimits);
  const check = compile(PasswordChange);

  formRoutes(app, '/password', forMembers, {
    guard: ({ address }) => attempts.check(address),
    show: showPassword,
    act: async (request) => {
      const fields = fieldsOf(request);
      const body = { current_password: text(fields, 'current_password'), new_password: text(fields, 'new_password') };
      const session = sessionOf(request);
      requireValid(check, body, passwordFaults(fields));
      try {
        await attempts.run(request.address, session.email, () =>
          replacePassword(request.db, session, body, actorOf(request)),
        );
        return '/app/password?done=1';
      } catch (error) {
        if (!(error instanceof Unauthorized)) throw error;
        request.log.info({ credential: error.credential, reason: error.reason }, 'refused');
        const faults = { current_password: 'This is not your password.' };
        return { faults, status: statuses.unauthorized };
      }
    },
  });
}

/** Returns the faults of a new password that differs from the repeated one, or not from the current one. */
function passwordFaults(fields: Fields): Fault[] {
  const [current, given, repeated] = ['current_password', 'new_password', 'repeated'].map((name) => text(fields, name));
  return [
    ...(repeated === given ? [] : [{ path: '/repeated', message: 'this differs from the new password' }]),
    ...(current === given && given !== ''
      ? [{ path: '/new_password', message: 'this is the current password. Choose another one' }]
      : []),
  ];
}

const passwordField = (faults: Faults, name: string, label: string, autocomplete: string, hint = ''): Html =>
  inputField(
    { name, label, hint, faults },
    '',
    'password',
    html`autocomplete="${autocomplete}" maxlength="1024" required`,
  );

const newPasswordFields = (faults: Faults): Html =>
  html`!${passwordField(faults, 'new_password', 'New password', 'new-password', '12 to 128 characters.')}
  !${passwordField(faults, 'repeated', 'New password, repeated', 'new-password')}`;

const showPassword = (request: FastifyRequest, { faults }: Refused): FormPage => ({
  title: 'Password',
  lead: html`!${doneNotice(request, { 1: 'Your password is changed. Your other sessions have ended.' })}
    <p class="lead">Changing it ends your other sessions. API keys go on working.</p>`,
  action: '/app/password',
  body: html`<input type="hidden" name="username" value="${sessionOf(request).email}" autocomplete="username" />
    !${passwordField(faults, 'current_password', 'Current password', 'current-password')} !${newPasswordFields(faults)}
    <button>Change the password</button>`,
  isNarrow: true,
});

/** The page to which a link of an admin leads: its user sets the password. Only the sent form uses the link up. */
export async function passwordLinks(app: FastifyInstance): Promise<void> {
  const attempts = new LoginAttempts(app.rateLimits);
  const check = compile(PasswordByLink);
  const limited = {
    ...forAll,
    onRequest: async ({ address }: FastifyRequest, reply: FastifyReply) => {
      void reply.header('referrer-policy', 'no-referrer'); // on error pages too: their files are asked for by a link
      await attempts.check(address);
    },
  };

  app.get('/link/:link', limited, async (request, reply) => show(request, reply, linkIn(request.params)));

  // The form does not name the link in its address, and the link's page tells no other where it is.
  app.post('/link', limited, async (request, reply) => {
    const fields = fieldsOf(request);
    const [link, password] = [text(fields, 'link'), text(fields, 'new_password')];
    try {
      requireValid(check, { new_password: password }, passwordFaults(fields));
      await attempts.run(request.address, 'link', () => redeemLink(request.db, link, password, request.address));
      return await goTo(reply, '/app/login?set=1');
    } catch (error) {
      if (error instanceof Unauthorized) return showEnded(request, reply, error);
      return show(request, reply, link, refusalOf(error));
    }
  });

  async function show(request: FastifyRequest, reply: FastifyReply, link: string, refused?: Refused) {
    try {
      const { user } = await attempts.run(request.address, 'link', () => requireLink(request.db, link));
      return sendForm(
        request,
        reply,
        {
          title: 'Set your password',
          lead: html`<p class="lead">For ${user.email}. You log in with it afterwards.</p>`,
          action: '/app/link',
          body: html`!${hidden({ link })}
            <input type="hidden" name="username" value="${user.email}" autocomplete="username" />
            !${newPasswordFields(refused?.faults ?? {})}
            <button>Set the password</button>`,
        },
        refused,
      );
    } catch (error) {
      if (error instanceof Unauthorized) return showEnded(request, reply, error);
      throw error;
    }
  }
}

const linkIn = (params: unknown): string => (params as { link: string }).link;

function showEnded(request: FastifyRequest, reply: FastifyReply, { reason }: Unauthorized): FastifyReply {
  request.log.info({ credential: 'link', reason }, 'refused');
  return sendPage(request, reply, {
    title: 'This link does not work any more',
    status: 404,
    body: html`<p>It was used, or replaced by a newer one, or is too old. Ask an admin of your team for a new one.</p>
      <p><a href="/app/login">Log in</a></p>`,
  });
}
