import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { setRole, issueLink, deactivateUnlessLastAdmin, inviteUser, logIn } from '../accounts/users.ts';
import { replacePassword, redeemLink, requireLink, type IssuedLink } from '../accounts/users.ts';
import { DomainError, Unauthorized, type Fault } from '../errors.ts';
import { publicUrl } from '../process/config.ts';
import { actorOf, sessionOf, sessionCookies } from '../plugins/auth.ts';
import { findLinkEnds, listUsers, deleteSession } from '../queries/accounts/users.ts';
import { roles, UserCreate, Login, PasswordChange, PasswordByLink, type Role, type User } from '../schemas/accounts.ts';
import { forMembers, forAdmins, forAll, addPage, addAction, formPage, formRoutes, question } from './base/layout.ts';
import { ownPath, secretPage, listPage, type Page, type FormPage } from './base/layout.ts';
import { pageOf, controlsFor, hidden } from './base/forms.ts';
import { once, lookUp, fieldsOf, text, queryOf, textsIn, oneOf, notSent, requireValid } from './base/requests.ts';
import { refusalOf, type Fields, type Faults, type Refused } from './base/requests.ts';
import { badge, quiet, notice, linkButton, buttons, html, when, folded, acts, submit, moment } from './base/html.ts';
import type { Html } from './base/html.ts';
import { roleWords } from './base/words.ts';
import { LoginAttempts } from '../access/rate-limits.ts';
import { statuses } from '../plugins/error-handler.ts';

const section = '/app/users';

export async function users(app: FastifyInstance): Promise<void> {
  loginAndPasswordPages(app);

  addPage(app, '/users', forAdmins, async (request) => {
    const [rows, ends] = await Promise.all([lookUp(request, listUsers), lookUp(request, findLinkEnds)]);
    const lead = lowestFirst.map((role) => html`<strong>${roleWords[role].word}s</strong> ${roleWords[role].may}.`);
    return listPage({
      title: 'Users',
      done: { role: 'The role is changed.', deactivated: 'The user is deactivated.' },
      lead: lead.join(' '),
      add: linkButton('New user', `${section}/new`),
      columns: [
        ['Name', (user) => html`${user.name}`],
        ['E-mail address', (user) => html`${user.email}`],
        ['Role', (user) => roleWords[user.role].word],
        ['State', (user) => (user.active ? stateOf(ends.get(user.id)) : badge('deactivated', 'plain'))],
        ['Actions', actsOf],
      ],
      ...pageOf(request, rows, 100),
    });
  });

  formRoutes(app, '/users/new', forAdmins, {
    show: showNew,
    act: async (request) => {
      const given = textsIn(fieldsOf(request), 'name', 'email', 'role') as UserCreate;
      requireValid(UserCreate, given);
      const { customerId } = request.caller;
      return showLink(request, await once(request, (sql) => inviteUser(sql, customerId, given, actorOf(request))));
    },
  });

  question(app, '/users/:id/link', forAdmins, {
    about: requireUser,
    title: 'Make a new link',
    text: ({ name }) =>
      html`<strong>${name}</strong> can set a new password with it, once, within 72 hours. A link from before stops
        working. The present password works until then.`,
    tone: '',
    act: async (request, user) =>
      showLink(request, await once(request, (sql) => issueLink(sql, changeOf(request, user)))),
  });

  for (const role of roles)
    question(app, `/users/:id/${role}`, forAdmins, {
      about: requireUser,
      title: `Make ${roleWords[role].word.toLowerCase()}`,
      text: (user) =>
        html`<strong>${user.name}</strong> is ${withArticle(user.role)} now. As ${withArticle(role)}, the user
          ${roleWords[role].may}.`,
      tone: '',
      act: async (request, user) => {
        await request.db.transaction((sql) => setRole(sql, changeOf(request, user), role));
        return `${section}?done=role`;
      },
    });

  question(app, '/users/:id/deactivate', forAdmins, {
    about: requireUser,
    title: 'Deactivate the user',
    text: ({ name }) =>
      html`<strong>${name}</strong> cannot log in any more, and is logged out at once. Contacts and opportunities stay
        assigned, and API keys that this user made go on working.`,
    act: async (request, user) => {
      await request.db.transaction((sql) => deactivateUnlessLastAdmin(sql, changeOf(request, user)));
      return `${section}?done=deactivated`;
    },
  });
}

const lowestFirst = roles.toReversed();

const changeOf = (request: FastifyRequest, { id }: User) => ({
  customerId: request.caller.customerId,
  userId: id,
  by: actorOf(request),
});

const requireUser = async (request: FastifyRequest): Promise<User> =>
  oneOf(request, 'user', await lookUp(request, listUsers));

function actsOf({ id, name, role, active }: User): Html {
  const other = role === 'admin' ? 'member' : 'admin';
  const verbs = { [other]: `Make ${roleWords[other].word.toLowerCase()}`, link: 'New link', deactivate: 'Deactivate' };
  return when(active, acts(`${section}/${id}`, name, verbs));
}

function stateOf(linkEnds: string | undefined): Html {
  if (linkEnds === undefined) return badge('active', 'good');
  if (new Date(linkEnds) < new Date()) return badge('link has ended', 'warning');
  return html`!${badge('has a link', 'busy')} <span class="quiet">until !${moment(linkEnds)}</span>`;
}

const withArticle = (role: Role): string => (role === 'admin' ? 'an admin' : 'a member');

function showNew(request: FastifyRequest, { faults }: Refused): FormPage {
  const { input, choice } = controlsFor(fieldsOf(request), faults);
  const more = 'maxlength="255" autocomplete="off" required';
  const choices = lowestFirst.map((role) => [role, roleWords[role].word] as const);
  const hint = lowestFirst.map((role) => `${roleWords[role].word}: ${roleWords[role].may}.`);
  return {
    title: 'New user',
    lead: 'You get a link to send to the user, who sets a password with it.',
    body: html`!${input('name', 'Name', { more })} !${input('email', 'E-mail address', { type: 'email', more })}
    !${choice('role', 'Role', choices, hint.join(' '))} !${buttons('Create the user', section)}`,
    attributes: 'data-once data-keep',
    isNarrow: true,
  };
}

const showLink = (request: FastifyRequest, issued: IssuedLink | undefined): Page =>
  secretPage(request, issued, ['link', 'make a new one.'], ({ user, token, expires_at }) => {
    const value = `${publicUrl(request.server.config)}/app/link/${token.reveal()}`;
    const mail = { subject: 'Your log-in', body: `Hello ${user.name},\n\nset your password here, once:\n${value}\n` };
    const encoded = Object.entries(mail).map(([name, text]) => `${name}=${encodeURIComponent(text)}`);
    const address = `mailto:${encodeURIComponent(user.email).replaceAll('%40', '@')}?${encoded.join('&')}`;
    const write = linkButton('Write the e-mail', address, 'secondary outline', 'data-secret');
    return {
      title: `Link for ${user.name}`,
      lead: html`Send this link to ${user.name} (${user.email}), and to nobody else: whoever opens it can set the
      password. It is not shown again.`,
      label: 'Link',
      value,
      advice: html`<p>!${write}</p>
        <p class="quiet">It works once, until !${moment(expires_at)}.</p>`,
      leave: 'Done',
    };
  });

function loginAndPasswordPages(app: FastifyInstance): void {
  const attempts = new LoginAttempts(app.rateLimits);
  const cookies = sessionCookies(app.config);
  const guard = ({ address }: FastifyRequest) => attempts.check(address);

  formRoutes(app, '/login', forAll, {
    guard,
    show: showLogin,
    act: async (request, reply) => {
      const fields = fieldsOf(request);
      const body = { email: text(fields, 'email').trim(), password: text(fields, 'password') };
      requireValid(Login, body);
      const run = () => logIn(request.db, body, request.address);
      try {
        const { token } = await attempts.run(request.address, body.email, run);
        void reply.setCookie(cookies.session, token, cookies.attributes).clearCookie(cookies.login, cookies.attributes);
        return ownPath(text(fields, 'next'));
      } catch (error) {
        if (!(error instanceof DomainError) || error.code !== 'rate_limited')
          return wrongPassword(request, error, { '': 'The e-mail address or the password is wrong.' });
        void reply.header('retry-after', error.retryAfter);
        const wait = `Too many failed logins. Try again in ${error.retryAfter} seconds.`;
        return { status: statuses.rate_limited, faults: { '': wait } };
      }
    },
  });

  addAction(app, '/logout', forMembers, async (request, reply) => {
    await request.db.transaction((sql) => deleteSession(sql, sessionOf(request), actorOf(request)));
    void reply.clearCookie(cookies.session, cookies.attributes);
    return '/app/login?done=out';
  });

  formRoutes(app, '/password', forMembers, {
    guard,
    show: showPassword,
    act: async (request) => {
      const fields = fieldsOf(request);
      const body = { current_password: text(fields, 'current_password'), new_password: text(fields, 'new_password') };
      const session = sessionOf(request);
      requireValid(PasswordChange, body, passwordFaults(fields));
      const run = () => replacePassword(request.db, session, body, actorOf(request));
      try {
        await attempts.run(request.address, session.email, run);
        return '/app/password?done=1';
      } catch (error) {
        return wrongPassword(request, error, { current_password: 'This is not your password.' });
      }
    },
  });

  const limited = {
    ...forAll,
    onRequest: async (request: FastifyRequest, reply: FastifyReply) => {
      void reply.header('referrer-policy', 'no-referrer'); // on error pages too: their files are asked for by a link
      await guard(request);
    },
  };

  addPage(app, '/link/:link', limited, (request) =>
    showSetting(request, (request.params as { link: string }).link).catch(ended(request)),
  );

  // The form does not name the link in its address, and the link's page tells no other where it is.
  addAction(app, '/link', limited, async (request) => {
    const fields = fieldsOf(request);
    const [link, password] = [text(fields, 'link'), text(fields, 'new_password')];
    const set = async () => {
      requireValid(PasswordByLink, { new_password: password }, passwordFaults(fields));
      await attempts.run(request.address, 'link', () => redeemLink(request.db, link, password, request.address));
      return '/app/login?done=set';
    };
    const shownAgain = (error: unknown) => showSetting(request, link, refusalOf(error));
    return set().catch(shownAgain).catch(ended(request));
  });

  /** Shows the form on which a user sets a password. Opening it does not use up the link. */
  async function showSetting(request: FastifyRequest, link: string, refused = notSent): Promise<Page> {
    const { user } = await attempts.run(request.address, 'link', () => requireLink(request.db, link));
    const page: FormPage = {
      title: 'Set your password',
      lead: html`For ${user.email}. You log in with it afterwards.`,
      action: '/app/link',
      isNarrow: true,
      body: html`!${hidden({ link })} !${passwordForm(refused.faults, user.email, 'Set the password')}`,
    };
    return formPage(request, page, refused);
  }
}

/** Returns what a form shows if the password in it is wrong. Throws every other error again. */
function wrongPassword(request: FastifyRequest, error: unknown, faults: Faults): Refused {
  if (!(error instanceof Unauthorized)) throw error;
  request.log.info({ credential: error.credential, reason: error.reason }, 'refused');
  return { faults, status: statuses.unauthorized };
}

function showLogin(request: FastifyRequest, { faults }: Refused): FormPage {
  const [query, sent] = [queryOf(request), fieldsOf(request)];
  const ended = when(query['ended'], notice('Your session has ended. Log in again to continue.', 'warning'));
  const done = { out: 'You are logged out.', set: 'Your password is set. Log in with it.' };
  const { input } = controlsFor({ email: text(sent, 'email').trim() }, faults);
  // After a wrong password the address is filled in.
  const more = (name: string, focused: boolean) => html`autocomplete="${name}" required !${when(focused, 'autofocus')}`;
  const body = html`!${hidden({ next: ownPath(text('next' in sent ? sent : query, 'next')) })}
  !${input('email', 'E-mail address', { type: 'email', more: more('username', !faults['']) })}
  !${input('password', 'Password', { type: 'password', more: more('current-password', faults[''] !== undefined) })}
  !${submit('Log in')}
  !${folded(
    'Forgot your password, or new here?',
    quiet(
      'Ask an admin of your company. Under “Users”, an admin makes a link for you, with which you set a new password. If you are the only admin, ask whoever runs this service.',
    ),
  )}`;
  const lead = faults[''] || ended || query['done'] ? '' : "Your company's contacts, deals and prospects.";
  return { title: 'Log in', done, above: ended, lead, action: '/app/login', body, isNarrow: true };
}

function passwordFaults(fields: Fields): Fault[] {
  const [current, given, repeated] = ['current_password', 'new_password', 'repeated'].map((name) => text(fields, name));
  const same = 'this is the current password. Choose another one';
  return [
    ...(repeated === given ? [] : [{ path: '/repeated', message: 'this differs from the new password' }]),
    ...(current === given && given !== '' ? [{ path: '/new_password', message: same }] : []),
  ];
}

/** Returns the controls of a password: whose it is, for the browser's password manager; the current one; the new one. */
function passwordForm(faults: Faults, email: string, verb: string, asksCurrent = false): Html {
  const { input } = controlsFor({}, faults);
  const field = (name: string, label: string, kind: 'current' | 'new', hint = ''): Html => {
    const more = html`autocomplete="${kind}-password" maxlength="1024" required`;
    return input(name, label, { hint, type: 'password', more });
  };
  return html`<input type="hidden" name="username" value="${email}" autocomplete="username" />
    !${when(asksCurrent, field('current_password', 'Current password', 'current'))}
    !${field('new_password', 'New password', 'new', '12 to 128 characters.')}
    !${field('repeated', 'New password, repeated', 'new')} !${submit(verb)}`;
}

const showPassword = (request: FastifyRequest, { faults }: Refused): FormPage => ({
  title: 'Password',
  done: { 1: 'Your password is changed. Your other sessions have ended.' },
  lead: 'Changing it ends your other sessions. API keys go on working.',
  action: '/app/password',
  body: passwordForm(faults, sessionOf(request).email, 'Change the password', true),
  isNarrow: true,
});

/** Returns a handler of errors that shows that a link does not work. Throws every other error again. */
const ended =
  (request: FastifyRequest) =>
  (error: unknown): Page => {
    if (!(error instanceof Unauthorized)) throw error;
    request.log.info({ credential: 'link', reason: error.reason }, 'refused');
    return {
      title: 'This link does not work any more',
      status: 404,
      body: html`<p>It was used, or replaced by a newer one, or is too old. Ask an admin of your team for a new one.</p>
        <p><a href="/app/login">Log in</a></p>`,
    };
  };
