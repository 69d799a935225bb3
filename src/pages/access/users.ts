import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { giveRole, issueLink, shutOut, userCreation, type IssuedLink } from '../../accounts/users.ts';
import { notFound } from '../../errors.ts';
import { publicUrl } from '../../process/config.ts';
import { actorOf } from '../../plugins/credentials/auth.ts';
import { findLinkEnds } from '../../queries/accounts/password-links.ts';
import { listUsers } from '../../queries/accounts/users.ts';
import { roles, UserCreate, type Role, type User } from '../../schemas/users.ts';
import { compile } from '../../validation/validator.ts';
import { forAdmins, formRoutes, questionRoutes, sendPage, type Confirmation, type FormPage } from '../base/layout.ts';
import {
  doneNotice,
  fieldsOf,
  idOf,
  inputField,
  once,
  pageOf,
  requireValid,
  selectField,
  text,
  type Refused,
} from '../base/forms.ts';
import { badge, buttons, html, linkButton, moment, table, type Html } from '../base/html.ts';
import { sendIssuedBefore, sendSecret } from '../base/secret.ts';
import { roleWords } from '../base/words.ts';

const section = '/app/users';
const noun = 'user';
const pageRows = 100;

export async function users(app: FastifyInstance): Promise<void> {
  const check = compile(UserCreate);

  app.get('/users', forAdmins, async (request, reply) => {
    const { db, caller } = request;
    const [rows, ends] = await Promise.all([
      db.lookup((sql) => listUsers(sql, caller.customerId)),
      db.lookup((sql) => findLinkEnds(sql, caller.customerId)),
    ]);
    const { shown, links } = pageOf(request, section, { rows, size: pageRows });
    return sendPage(request, reply, {
      title: 'Users',
      actions: linkButton('New user', `${section}/new`),
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
    });
  });

  formRoutes(app, '/users/new', forAdmins, {
    show: showNew,
    act: async (request, reply) => {
      const fields = fieldsOf(request);
      const given = {
        name: text(fields, 'name').trim(),
        email: text(fields, 'email').trim(),
        role: text(fields, 'role') as Role,
      };
      requireValid(check, given);
      const create = await userCreation(request.caller.customerId, given, actorOf(request));
      return showLink(request, reply, await once(request, create));
    },
  });

  const question = (verb: string, ask: (user: User) => Question, act: Parameters<typeof questionRoutes>[3]['act']) =>
    questionRoutes(app, `/users/:id/${verb}`, forAdmins, {
      ask: async (request) => ({ ...ask(await requireUser(request)), back: section }),
      act,
    });

  question(
    'link',
    ({ name }) => ({
      title: 'Make a new link',
      text: html`<strong>${name}</strong> can set a new password with it, once, within 72 hours. A link from before
        stops working. The present password works until then.`,
      tone: '',
    }),
    async (request, reply) => {
      const change = changeOf(request);
      return showLink(request, reply, await once(request, (sql) => issueLink(sql, change)));
    },
  );

  for (const role of roles)
    question(
      role,
      (user) => ({
        title: `Make ${roleWords[role].word.toLowerCase()}`,
        text: html`<strong>${user.name}</strong> is ${withArticle(user.role)} now. As ${withArticle(role)}, the user
          ${roleWords[role].may}.`,
        tone: '',
      }),
      async (request) => {
        await request.db.transaction((sql) => giveRole(sql, changeOf(request), role));
        return `${section}?done=role`;
      },
    );

  question(
    'deactivate',
    ({ name }) => ({
      title: 'Deactivate the user',
      text: html`<strong>${name}</strong> cannot log in any more, and is logged out at once. Contacts and opportunities
        stay assigned, and API keys that this user made go on working.`,
    }),
    async (request) => {
      await request.db.transaction((sql) => shutOut(sql, changeOf(request)));
      return `${section}?done=deactivated`;
    },
  );
}

type Question = Pick<Confirmation, 'title' | 'text' | 'tone'>;

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
  const all = await request.db.lookup((sql) => listUsers(sql, request.caller.customerId));
  const found = all.find((user) => user.id === id);
  if (!found) throw notFound(noun);
  return found;
}

function actsOf({ id, name, role, active }: User): Html {
  if (!active) return '';
  const act = (verb: string, label: string) =>
    html`<a href="${section}/${id}/${verb}" data-dialog aria-label="${label}: ${name}">${label}</a>`;
  return html`<span class="acts"
    >!${act(otherThan(role), `Make ${roleWords[otherThan(role)].word.toLowerCase()}`)} !${act('link', 'New link')}
    !${act('deactivate', 'Deactivate')}</span
  >`;
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

function showNew(request: FastifyRequest, { faults }: Refused): FormPage {
  const fields = fieldsOf(request);
  const input = (name: string, label: string, type: string) =>
    inputField({ name, label, faults }, text(fields, name), type, 'maxlength="255" autocomplete="off" required');
  const choices = roles.toReversed().map((role) => ({ role, ...roleWords[role] }));
  const hint = choices.map(({ word, may }) => `${word}: ${may}.`).join(' ');
  return {
    title: 'New user',
    lead: html`<p class="lead">You get a link to send to the user, who sets a password with it.</p>`,
    body: html`!${input('name', 'Name', 'text')} !${input('email', 'E-mail address', 'email')}
    !${selectField(
      { name: 'role', label: 'Role', hint, faults },
      choices.map(({ role, word }) => [role, word] as const),
      text(fields, 'role'),
    )}
    !${buttons('Create the user', section)}`,
    attributes: 'data-once data-keep',
    isNarrow: true,
  };
}

function showLink(request: FastifyRequest, reply: FastifyReply, issued: IssuedLink | undefined): FastifyReply {
  if (!issued) return sendIssuedBefore(request, reply, { what: 'link', advice: 'make a new one.' });
  const { user, token, expires_at } = issued;
  return sendSecret(request, reply, {
    title: `Link for ${user.name}`,
    lead: html`Send this link to ${user.name} (${user.email}), and to nobody else: whoever opens it can set the
    password. It is not shown again.`,
    label: 'Link',
    value: `${publicUrl(request.server.config)}/app/link/${token.reveal()}`,
    advice: html`<p class="quiet">It works once, until !${moment(expires_at)}.</p>`,
    next: section,
  });
}
