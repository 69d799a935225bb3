import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { giveRole, issueLink, shutOut, userCreation, type IssuedLink } from '../../accounts/users.ts';
import { notFound } from '../../errors.ts';
import { publicUrl } from '../../process/config.ts';
import { actorOf } from '../../plugins/credentials/auth.ts';
import { findLinkEnds } from '../../queries/accounts/password-links.ts';
import { listUsers } from '../../queries/accounts/users.ts';
import { markSent } from '../../queries/records/sent-forms.ts';
import { roles, UserCreate, type Role, type User } from '../../schemas/users.ts';
import { compile } from '../../validation/validator.ts';
import { forAdmins } from '../base/access.ts';
import {
  faultsOf,
  field,
  fieldsOf,
  formFaults,
  idOf,
  option,
  pageOf,
  queryOf,
  refusalOf,
  text,
  tokenOf,
  type Faults,
} from '../base/forms.ts';
import { badge, html, moment, notice, table, type Html } from '../base/html.ts';
import { form, goTo, sendConfirmation, sendPage } from '../base/layout.ts';
import { sendIssuedBefore, sendSecret } from '../base/secret.ts';
import { roleWords } from '../base/words.ts';

const section = '/app/users';
const noun = 'user';
const pageRows = 100;

/** The customer's users, whom admins manage. */
export async function users(app: FastifyInstance): Promise<void> {
  const check = compile(UserCreate);

  app.get('/users', forAdmins, async (request, reply) => {
    const { db, caller } = request;
    const [rows, ends] = await Promise.all([
      db.lookup((sql) => listUsers(sql, caller.customerId)),
      db.lookup((sql) => findLinkEnds(sql, caller.customerId)),
    ]);
    const { shown, links } = pageOf(request, section, { rows, size: pageRows });
    const done = text(queryOf(request), 'done');
    return sendPage(request, reply, {
      title: 'Users',
      section,
      actions: html`<a role="button" href="${section}/new">New user</a>`,
      body: html`!${Object.hasOwn(notices, done) ? notice(notices[done]!) : ''}
      !${table(
        'Users',
        ['Name', 'E-mail address', 'Role', 'State', 'Actions'],
        shown.map((user) => row(user, ends.get(user.id))),
      )}
      !${links}`,
    });
  });

  app.get('/users/new', forAdmins, async (request, reply) => showNew(request, reply));

  app.post('/users/new', forAdmins, async (request, reply) => {
    const fields = fieldsOf(request);
    const given = {
      name: text(fields, 'name').trim(),
      email: text(fields, 'email').trim(),
      role: text(fields, 'role') as Role,
    };
    const faults = faultsOf(check, given);
    if (Object.keys(faults).length > 0) return showNew(request, reply, { faults, status: 400 });
    const create = await userCreation(request.caller.customerId, given, actorOf(request));
    try {
      return showLink(request, reply, await once(request, create));
    } catch (error) {
      return showNew(request, reply, refusalOf(error));
    }
  });

  app.get('/users/:id/link', forAdmins, async (request, reply) => {
    const { name, id } = await requireUser(request);
    return confirm(request, reply, id, 'link', {
      title: 'Make a new link',
      text: html`<strong>${name}</strong> can set a new password with it, once, within 72 hours. A link from before
        stops working. The present password works until then.`,
      tone: '',
    });
  });

  app.post('/users/:id/link', forAdmins, async (request, reply) => {
    const change = changeOf(request);
    return showLink(request, reply, await once(request, (sql) => issueLink(sql, change)));
  });

  for (const role of roles) {
    app.get(`/users/:id/${role}`, forAdmins, async (request, reply) => {
      const user = await requireUser(request);
      const { word, may } = roleWords[role];
      return confirm(request, reply, user.id, role, {
        title: `Make ${word.toLowerCase()}`,
        text: html`<strong>${user.name}</strong> is ${withArticle(user.role)} now. As ${withArticle(role)}, the user
          ${may}.`,
        tone: '',
      });
    });

    app.post(`/users/:id/${role}`, forAdmins, async (request, reply) => {
      await request.db.transaction((sql) => giveRole(sql, changeOf(request), role));
      return goTo(reply, `${section}?done=role`);
    });
  }

  app.get('/users/:id/deactivate', forAdmins, async (request, reply) => {
    const { name, id } = await requireUser(request);
    return confirm(request, reply, id, 'deactivate', {
      title: 'Deactivate the user',
      text: html`<strong>${name}</strong> cannot log in any more, and is logged out at once. Contacts and opportunities
        stay assigned, and API keys that this user made go on working.`,
    });
  });

  app.post('/users/:id/deactivate', forAdmins, async (request, reply) => {
    await request.db.transaction((sql) => shutOut(sql, changeOf(request)));
    return goTo(reply, `${section}?done=deactivated`);
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

/** @throws DomainError `not_found` if the customer has no user with the id in the request's path */
async function requireUser(request: FastifyRequest): Promise<User> {
  const id = idOf(request, noun);
  const all = await request.db.lookup((sql) => listUsers(sql, request.caller.customerId));
  const found = all.find((user) => user.id === id);
  if (!found) throw notFound(noun);
  return found;
}

type Issue = Awaited<ReturnType<typeof userCreation>>;

/** Issues a link, unless the form was sent before. */
const once = (request: FastifyRequest, issue: Issue): Promise<IssuedLink | undefined> =>
  request.db.transaction(async (sql) =>
    (await markSent(sql, request.caller.customerId, tokenOf(request.body))) ? issue(sql) : undefined,
  );

function row({ id, name, email, role, active }: User, linkEnds: string | undefined): Html {
  const act = (verb: string, label: string) =>
    html`<a href="${section}/${id}/${verb}" data-dialog aria-label="${label}: ${name}">${label}</a>`;
  return html`<tr>
    <td>${name}</td>
    <td>${email}</td>
    <td>${roleWords[role].word}</td>
    <td>!${active ? stateOf(linkEnds) : badge('deactivated', 'plain')}</td>
    <td>
      !${
        active
          ? html`<span class="acts"
              >!${act(otherThan(role), `Make ${roleWords[otherThan(role)].word.toLowerCase()}`)}
              !${act('link', 'New link')} !${act('deactivate', 'Deactivate')}</span
            >`
          : ''
      }
    </td>
  </tr>`;
}

function stateOf(linkEnds: string | undefined): Html {
  if (linkEnds === undefined) return badge('active', 'good');
  const isOver = new Date(linkEnds) < new Date();
  return isOver
    ? badge('link has ended', 'warning')
    : html`!${badge('has a link', 'busy')} <span class="quiet">until !${moment(linkEnds)}</span>`;
}

/** Returns e.g. `an admin`. */
const withArticle = (role: Role): string => (role === 'admin' ? 'an admin' : 'a member');

function showNew(
  request: FastifyRequest,
  reply: FastifyReply,
  { faults = {}, status = 200 }: { faults?: Faults; status?: number } = {},
): FastifyReply {
  const fields = fieldsOf(request);
  const input = (name: string, label: string, type: string) =>
    field(
      { name, label, faults },
      (attributes) =>
        html`<input
          type="${type}"
          !${attributes}
          value="${text(fields, name)}"
          maxlength="255"
          autocomplete="off"
          required
        />`,
    );
  const body = html`!${formFaults(faults, ['name', 'email', 'role'])} !${input('name', 'Name', 'text')}
    !${input('email', 'E-mail address', 'email')}
    !${field(
      {
        name: 'role',
        label: 'Role',
        hint: roles
          .toReversed()
          .map((role) => `${roleWords[role].word}: ${roleWords[role].may}.`)
          .join(' '),
        faults,
      },
      (attributes) =>
        html`<select !${attributes}>
          !${roles.toReversed().map((role) => option(role, roleWords[role].word, text(fields, 'role')))}
        </select>`,
    )}
    <div class="buttons">
      <button>Create the user</button>
      <a role="button" class="secondary outline" href="${section}">Cancel</a>
    </div>`;
  return sendPage(request, reply, {
    title: 'New user',
    section,
    status,
    body: html`<p class="lead">You get a link to send to the user, who sets a password with it.</p>
      <div class="card narrow">
        !${form(request, reply, { action: `${section}/new`, body, attributes: 'data-once data-keep' })}
      </div>`,
  });
}

function showLink(request: FastifyRequest, reply: FastifyReply, issued: IssuedLink | undefined): FastifyReply {
  if (!issued) return sendIssuedBefore(request, reply, { what: 'link', section, advice: 'make a new one.' });
  const { user, token, expires_at } = issued;
  return sendSecret(request, reply, {
    title: `Link for ${user.name}`,
    section,
    lead: html`Send this link to ${user.name} (${user.email}), and to nobody else: whoever opens it can set the
    password. It is not shown again.`,
    label: 'Link',
    value: `${publicUrl(request.server.config)}/app/link/${token.reveal()}`,
    advice: html`<p class="quiet">It works once, until !${moment(expires_at)}.</p>`,
    next: section,
  });
}

type Question = Pick<Parameters<typeof sendConfirmation>[2], 'title' | 'text' | 'tone'>;

const confirm = (request: FastifyRequest, reply: FastifyReply, id: string, verb: string, question: Question) =>
  sendConfirmation(request, reply, {
    ...question,
    section,
    action: `${section}/${id}/${verb}`,
    back: section,
    refusal: 'Leave it as it is',
  });
