import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import {
  setRole,
  issueLink,
  deactivateUnlessLastAdmin,
  userCreation,
  type IssuedLink,
  logIn,
  replacePassword,
  redeemLink,
  requireLink,
} from '../accounts/users.ts';
import { notFound, DomainError, Unauthorized, type Fault } from '../errors.ts';
import { publicUrl } from '../process/config.ts';
import { actorOf, sessionOf, sessionCookies } from '../plugins/auth.ts';
import { findLinkEnds, listUsers, deleteSession } from '../queries/accounts/users.ts';
import { roles, UserCreate, type Role, type User, Login, PasswordChange, PasswordByLink } from '../schemas/accounts.ts';
import { compile } from '../validation/validator.ts';
import {
  forMembers,
  forAdmins,
  forAll,
  addPage,
  addAction,
  formPage,
  formRoutes,
  question,
  ownPath,
  secretPage,
  issuedBefore,
} from './base/layout.ts';
import type { Page, FormPage } from './base/layout.ts';
import { pageOf, doneNotice, controlsFor, hidden } from './base/forms.ts';
import { once, lookUp, fieldsOf, text, idOf, queryOf, sentText, type Fields } from './base/requests.ts';
import { notSent, requireValid, refusalOf, type Faults, type Refused } from './base/refusals.ts';
import { badge, notice, table, linkButton, dialogLink, buttons, html, type Html } from './base/html.ts';
import { moment } from './base/values.ts';
import { roleWords } from './base/words.ts';
import { LoginAttempts } from '../access/rate-limits.ts';
import { statuses } from '../plugins/error-handler.ts';

const section = '/app/users';
const noun = 'user';
const pageRows = 100;

export async function users(app: FastifyInstance): Promise<void> {
  const check = compile(UserCreate);

  addPage(app, '/users', forAdmins, async (request) => {
    const [rows, ends] = await Promise.all([lookUp(request, listUsers), lookUp(request, findLinkEnds)]);
    const { shown, links } = pageOf(request, rows, pageRows);
    return {
      title: 'Users',
      actions: linkButton('New user', `${section}/new`),
      lead: roles
        .toReversed()
        .map((role) => html`<strong>${roleWords[role].word}s</strong> ${roleWords[role].may}.`)
        .join(' '),
      body: html`!${doneNotice(request, notices)}
      !${table(
        'Users',
        [
          ['Name', (user) => html`${user.name}`],
          ['E-mail address', (user) => html`${user.email}`],
          ['Role', (user) => roleWords[user.role].word],
          ['State', (user) => (user.active ? stateOf(ends.get(user.id)) : badge('deactivated', 'plain'))],
          ['Actions', actsOf],
        ],
        shown,
      )}
      !${links}`,
    };
  });

  formRoutes(app, '/users/new', forAdmins, {
    show: showNew,
    act: async (request) => {
      const [name, email] = [sentText(request, 'name').trim(), sentText(request, 'email').trim()];
      const given = { name, email, role: sentText(request, 'role') as Role };
      requireValid(check, given);
      const create = await userCreation(request.caller.customerId, given, actorOf(request));
      return showLink(request, await once(request, create));
    },
  });

  const about = { about: requireUser, back: () => section };

  question(app, '/users/:id/link', forAdmins, {
    ...about,
    title: 'Make a new link',
    text: ({ name }) =>
      html`<strong>${name}</strong> can set a new password with it, once, within 72 hours. A link from before stops
        working. The present password works until then.`,
    tone: '',
    act: async (request) => {
      const change = changeOf(request);
      return showLink(request, await once(request, (sql) => issueLink(sql, change)));
    },
  });

  for (const role of roles)
    question(app, `/users/:id/${role}`, forAdmins, {
      ...about,
      title: `Make ${roleWords[role].word.toLowerCase()}`,
      text: (user) =>
        html`<strong>${user.name}</strong> is ${withArticle(user.role)} now. As ${withArticle(role)}, the user
          ${roleWords[role].may}.`,
      tone: '',
      act: async (request) => {
        await request.db.transaction((sql) => setRole(sql, changeOf(request), role));
        return `${section}?done=role`;
      },
    });

  question(app, '/users/:id/deactivate', forAdmins, {
    ...about,
    title: 'Deactivate the user',
    text: ({ name }) =>
      html`<strong>${name}</strong> cannot log in any more, and is logged out at once. Contacts and opportunities stay
        assigned, and API keys that this user made go on working.`,
    act: async (request) => {
      await request.db.transaction((sql) => deactivateUnlessLastAdmin(sql, changeOf(request)));
      return `${section}?done=deactivated`;
    },
  });
}

const notices: Readonly<Record<string, string>> = {
  role: 'The role is changed.',
  deactivated: 'The user is deactivated.',
};

const otherThan = (role: Role): Role => (role === 'admin' ? 'member' : 'admin');

const changeOf = (request: FastifyRequest) => ({
  customerId: request.caller.customerId,
  userId: idOf(request, noun),
  by: actorOf(request),
});

async function requireUser(request: FastifyRequest): Promise<User> {
  const id = idOf(request, noun);
  const found = (await lookUp(request, listUsers)).find((user) => user.id === id);
  if (!found) throw notFound(noun);
  return found;
}

function actsOf({ id, name, role, active }: User): Html {
  if (!active) return '';
  const act = (verb: string, label: string) => dialogLink(label, `${section}/${id}/${verb}`, `${label}: ${name}`);
  const other = otherThan(role);
  return html`<span class="acts">
    !${act(other, `Make ${roleWords[other].word.toLowerCase()}`)} · !${act('link', 'New link')} ·
    !${act('deactivate', 'Deactivate')}
  </span>`;
}

function stateOf(linkEnds: string | undefined): Html {
  if (linkEnds === undefined) return badge('active', 'good');
  const isOver = new Date(linkEnds) < new Date();
  return isOver
    ? badge('link has ended', 'warning')
    : html`!${badge('has a link', 'busy')} <span class="quiet">until !${moment(linkEnds)}</span>`;
}

const withArticle = (role: Role): string => (role === 'admin' ? 'an admin' : 'a member');

function showNew(request: FastifyRequest, { faults }: Refused): FormPage {
  const { input, choice } = controlsFor(fieldsOf(request), faults);
  const more = 'maxlength="255" autocomplete="off" required';
  const choices = roles.toReversed().map((role) => [role, roleWords[role].word] as const);
  const hint = roles.toReversed().map((role) => `${roleWords[role].word}: ${roleWords[role].may}.`);
  return {
    title: 'New user',
    lead: html`<p class="lead">You get a link to send to the user, who sets a password with it.</p>`,
    body: html`!${input('name', 'Name', { more })} !${input('email', 'E-mail address', { type: 'email', more })}
    !${choice('role', 'Role', choices, hint.join(' '))} !${buttons('Create the user', section)}`,
    attributes: 'data-once data-keep',
    isNarrow: true,
  };
}

function showLink(request: FastifyRequest, issued: IssuedLink | undefined): Page {
  if (!issued) return issuedBefore(request, 'link', 'make a new one.');
  const { user, token, expires_at } = issued;
  const link = `${publicUrl(request.server.config)}/app/link/${token.reveal()}`;
  const mail = { subject: 'Your log-in', body: `Hello ${user.name},\n\nset your password here, once:\n${link}\n` };
  const encoded = Object.entries(mail).map(([name, text]) => `${name}=${encodeURIComponent(text)}`);
  const address = encodeURIComponent(user.email).replaceAll('%40', '@');
  return secretPage({
    title: `Link for ${user.name}`,
    lead: html`Send this link to ${user.name} (${user.email}), and to nobody else: whoever opens it can set the
    password. It is not shown again.`,
    label: 'Link',
    value: link,
    advice: html`<p>
        !${linkButton('Write the e-mail', `mailto:${address}?${encoded.join('&')}`, 'secondary outline', 'data-secret')}
      </p>
      <p class="quiet">It works once, until !${moment(expires_at)}.</p>`,
    next: section,
  });
}

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

  addAction(app, '/logout', forMembers, async (request, reply) => {
    await request.db.transaction((sql) => deleteSession(sql, sessionOf(request), actorOf(request)));
    void reply.clearCookie(cookies.session, cookies.attributes);
    return '/app/login?out=1';
  });
}

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
  const messages: Record<string, Html> = {
    ended: notice('Your session has ended. Log in again to continue.', 'warning'),
    out: notice('You are logged out.'),
    set: notice('Your password is set. Log in with it.'),
  };
  const message = messages[Object.keys(messages).find((name) => query[name]) ?? ''] ?? '';
  const { input } = controlsFor({ email: text(sent, 'email').trim() }, faults);
  const body = html`!${hidden({ next: ownPath(text('next' in sent ? sent : query, 'next')) })}
    !${input('email', 'E-mail address', { type: 'email', more: 'autocomplete="username" required autofocus' })}
    !${input('password', 'Password', { type: 'password', more: 'autocomplete="current-password" required' })}
    <div class="buttons"><button>Log in</button></div>
    <details>
      <summary>Forgot your password, or new here?</summary>
      <p>
        Ask an admin of your company. Under “Users”, an admin makes a link for you, with which you set a new password.
        If you are the only admin, ask whoever runs this service.
      </p>
    </details>`;
  const lead = faults[''] ? '' : message || html`<p class="lead">Your company's contacts, deals and prospects.</p>`;
  return { title: 'Log in', lead, action: '/app/login', body, isNarrow: true };
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

function passwordFaults(fields: Fields): Fault[] {
  const [current, given, repeated] = ['current_password', 'new_password', 'repeated'].map((name) => text(fields, name));
  return [
    ...(repeated === given ? [] : [{ path: '/repeated', message: 'this differs from the new password' }]),
    ...(current === given && given !== ''
      ? [{ path: '/new_password', message: 'this is the current password. Choose another one' }]
      : []),
  ];
}

const passwordField = (faults: Faults, name: string, label: string, autocomplete: string, hint = ''): Html => {
  const more = html`autocomplete="${autocomplete}" maxlength="1024" required`;
  return controlsFor({}, faults).input(name, label, { hint, type: 'password', more });
};

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
    <div class="buttons"><button>Change the password</button></div>`,
  isNarrow: true,
});

/** Adds the page of a password link, on which a user sets a password. Opening the page does not use up the link. */
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

  addPage(app, '/link/:link', limited, (request) => show(request, (request.params as { link: string }).link));

  // The form does not name the link in its address, and the link's page tells no other where it is.
  addAction(app, '/link', limited, async (request) => {
    const fields = fieldsOf(request);
    const [link, password] = [text(fields, 'link'), text(fields, 'new_password')];
    try {
      requireValid(check, { new_password: password }, passwordFaults(fields));
      await attempts.run(request.address, 'link', () => redeemLink(request.db, link, password, request.address));
      return '/app/login?set=1';
    } catch (error) {
      return error instanceof Unauthorized ? ended(request, error) : show(request, link, refusalOf(error));
    }
  });

  async function show(request: FastifyRequest, link: string, refused = notSent): Promise<Page> {
    try {
      const { user } = await attempts.run(request.address, 'link', () => requireLink(request.db, link));
      const page: FormPage = {
        title: 'Set your password',
        lead: html`<p class="lead">For ${user.email}. You log in with it afterwards.</p>`,
        action: '/app/link',
        isNarrow: true,
        body: html`!${hidden({ link })}
          <input type="hidden" name="username" value="${user.email}" autocomplete="username" />
          !${newPasswordFields(refused.faults)}
          <div class="buttons"><button>Set the password</button></div>`,
      };
      return formPage(request, page, refused);
    } catch (error) {
      if (error instanceof Unauthorized) return ended(request, error);
      throw error;
    }
  }
}

function ended(request: FastifyRequest, { reason }: Unauthorized): Page {
  request.log.info({ credential: 'link', reason }, 'refused');
  return {
    title: 'This link does not work any more',
    status: 404,
    body: html`<p>It was used, or replaced by a newer one, or is too old. Ask an admin of your team for a new one.</p>
      <p><a href="/app/login">Log in</a></p>`,
  };
}
