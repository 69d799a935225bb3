import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { capKey, issueKey, replaceKey, revokeKey, type Issued } from '../../accounts/api-keys.ts';
import { publicUrl } from '../../process/config.ts';
import { DomainError, notFound } from '../../errors.ts';
import { actorOf, sessionOf } from '../../plugins/credentials/auth.ts';
import { findApiKey, findKeyVersions, listApiKeys } from '../../queries/accounts/api-keys.ts';
import { durations, KeyRequest, SpendCapsChange, keyLimits, type ApiKey } from '../../schemas/api-keys.ts';
import { anySize } from '../../schemas/base/approvals.ts';
import { scopes, isUsual, usualScopes } from '../../schemas/base/scopes.ts';
import { compile } from '../../validation/validator.ts';
import {
  forAdmins,
  forMembers,
  formRoutes,
  questionRoutes,
  sendPage,
  type Page,
  type FormPage,
} from '../base/layout.ts';
import {
  conflictOf,
  fieldsOf,
  idOf,
  integer,
  isOutdated,
  once,
  queryOf,
  requireValid,
  selectField,
  text,
  values,
  versionField,
  doneNotice,
  pageOf,
  type Refused,
} from '../base/forms.ts';
import {
  buttons,
  counted,
  date,
  html,
  badge,
  empty,
  linkButton,
  moment,
  table,
  type Html,
  type Column,
} from '../base/html.ts';
import { capFields, limitsIn, keyForm, presets, spentBy, type KeyLimits, type KeyDraft } from './key-form.ts';
import { sendIssuedBefore, sendSecret } from '../base/secret.ts';

export async function keys(app: FastifyInstance): Promise<void> {
  const { KEY_PREFIX } = app.config;
  const check = compile(KeyRequest);
  const checkCaps = compile(SpendCapsChange);

  app.get('/keys', forMembers, async (request, reply) => {
    const rows = await request.db.lookup((sql) => listApiKeys(sql, request.caller.customerId));
    return sendPage(request, reply, keyList(request, rows));
  });

  formRoutes(app, '/keys/new', forAdmins, {
    show: showNew,
    act: async (request, reply) => {
      const draft = draftOf(request);
      requireValid(check, draft);
      const issued = await once(request, (sql) => issueKey(sql, request.caller, draft, KEY_PREFIX, actorOf(request)));
      return showIssued(request, reply, issued);
    },
  });

  formRoutes(app, '/keys/:id/rotate', forAdmins, {
    show: showRotate,
    act: async (request, reply) => {
      const { customerId } = request.caller;
      const id = idOf(request, 'API key');
      const draft = draftOf(request);
      const change = draft.expiration === ('' as never) ? {} : { expiration: draft.expiration };
      requireValid(check, { name: 'unchanged', expiration: 90, ...change });
      const [before] = await app.db.credentials((sql) => findKeyVersions(sql, [{ customer_id: customerId, id }]));
      const issued = await once(request, (sql) => replaceKey(sql, before, change, KEY_PREFIX, actorOf(request)));
      return showIssued(request, reply, issued);
    },
  });

  formRoutes(app, '/keys/:id/caps', forAdmins, {
    show: showCaps,
    act: async (request) => {
      const { customerId } = request.caller;
      const limits = limitsIn(fieldsOf(request));
      const key = await requireKey(request);
      if (isOutdated(request, limitsOf(key))) return conflictOf('key');
      requireValid(checkCaps, limits);
      await request.db.transaction((sql) => capKey(sql, customerId, key.id, limits, actorOf(request)));
      return `${section}?done=capped`;
    },
  });

  questionRoutes(app, '/keys/:id/revoke', forAdmins, {
    ask: async (request) => {
      const key = await requireKey(request);
      return {
        title: 'Revoke the key',
        text: html`<strong>${key.name}</strong> (<code>${key.start}…</code>) stops working at once and for good. Every
          program that uses it gets 401. !${lastUse(key)}`,
        back: section,
      };
    },
    act: async (request) => {
      const { customerId } = request.caller;
      const id = idOf(request, 'API key');
      const isKnown = await request.db.transaction((sql) => revokeKey(sql, customerId, id, actorOf(request)));
      if (!isKnown) throw notFound('API key');
      return `${section}?done=revoked`;
    },
  });
}

async function requireKey(request: FastifyRequest): Promise<ApiKey> {
  const id = idOf(request, 'API key');
  const key = await request.db.lookup((sql) => findApiKey(sql, request.caller.customerId, id));
  if (!key) throw notFound('API key');
  return key;
}

/**
 * Returns the key whose form is shown.
 * @throws DomainError `not_found`; `conflict` if the key is not active. A sent form says so itself
 */
async function requireActiveKey(request: FastifyRequest): Promise<ApiKey> {
  const key = await requireKey(request);
  if (key.status !== 'active' && request.method !== 'POST')
    throw new DomainError('conflict', `This key is ${key.status}. Only an active key can be changed`);
  return key;
}

function draftOf(request: FastifyRequest): KeyDraft {
  const fields = fieldsOf(request);
  return {
    name: text(fields, 'name'),
    expiration: integer(fields, 'expiration') as KeyDraft['expiration'],
    permissions: values(fields, 'permissions', scopes.length) as KeyDraft['permissions'],
    ...limitsIn(fields),
  };
}

/** A preset in the address fills in a new form. */
function presetOf(request: FastifyRequest): KeyDraft {
  const { scopes: permissions, caps } =
    presets.find(({ id }) => id === text(queryOf(request), 'preset')) ?? presets[0]!;
  return { name: '', expiration: 90, permissions, spend_caps: caps, approve_over: anySize };
}

const showNew = (request: FastifyRequest, { faults }: Refused): FormPage => ({
  title: 'New API key',
  lead: html`<p class="lead">
    Give each program its own key, with only the scopes that it needs. The key is shown once.
  </p>`,
  body: keyForm(request.method === 'POST' ? draftOf(request) : presetOf(request), faults),
  attributes: 'data-once data-keep',
});

/** @param issued undefined if the form was sent before */
function showIssued(request: FastifyRequest, reply: FastifyReply, issued: Issued | undefined): FastifyReply {
  if (!issued) {
    const advice = 'rotate it to get a new one, or revoke it.';
    return sendIssuedBefore(request, reply, { what: 'key', advice });
  }
  const { name, key, expires_at, permissions } = issued;
  return sendSecret(request, reply, {
    title: 'Your new key',
    lead: html`This is the key “${name}”. Store it now, in the place where your program reads its secrets: it is not
    shown again.`,
    label: 'API key',
    value: key,
    advice: html`<p>Send it with each request, after the word <code>X-API-Key</code> and a space:</p>
      <pre
        tabindex="0"
      ><code>curl -H "Authorization: X-API-Key $KEY" ${publicUrl(request.server.config)}/api/ext/customer/summary</code></pre>
      <p class="quiet">It has !${counted(permissions.length, 'scope')} and expires on !${date(expires_at)}.</p>`,
    next: section,
  });
}

async function showRotate(request: FastifyRequest, { faults }: Refused): Promise<FormPage> {
  const key = await requireActiveKey(request);
  return {
    title: 'Rotate the key',
    body: html`<p>
        <strong>${key.name}</strong> (<code>${key.start}…</code>) gets a new value. The present one stops working at
        once, and every program that uses it gets 401 until it has the new one. !${lastUse(key)}
      </p>
      !${selectField(
        { name: 'expiration', label: 'It then expires after', faults },
        [['', 'the same time as until now'], ...durations.map((days) => [String(days), `${days} days`] as const)],
        '',
      )}
      !${buttons('Rotate the key', section, 'Leave it as it is')}`,
    attributes: 'data-once',
    isNarrow: true,
  };
}

const limitsOf = ({ spend_caps, approve_over }: ApiKey): KeyLimits => ({ spend_caps, approve_over });

async function showCaps(request: FastifyRequest, { faults }: Refused): Promise<FormPage> {
  const key = await requireActiveKey(request);
  const limits = request.method === 'POST' ? limitsIn(fieldsOf(request)) : key;
  return {
    title: 'Limits of the key',
    body: html`<p><strong>${key.name}</strong> (<code>${key.start}…</code>) keeps its value.</p>
      !${versionField(limitsOf(key))} !${capFields(limits, faults)}
      !${buttons('Change the limits', section, 'Leave them as they are')}`,
  };
}

export const section = '/app/keys';

const dayMs = 24 * 60 * 60 * 1000;

const pageRows = 50;

/** API keys that expire within this number of days are highlighted. */
const warningDays = 14;

const doneTexts: Record<string, string> = {
  revoked: 'The key is revoked. It has stopped working.',
  capped: 'The limits are changed. They count from the next call on.',
};

/** Shows the keys that work before the others. Only admins get buttons to change keys. */
export function keyList(request: FastifyRequest, all: readonly ApiKey[]): Page {
  const isAdmin = sessionOf(request).role === 'admin';
  const add = linkButton('New key', `${section}/new`);
  const isActive = ({ status }: ApiKey): boolean => status === 'active';
  const working = all.filter(isActive);
  const rows = [...working, ...all.filter((key) => !isActive(key))];
  const ended = rows.length - working.length;
  const { shown, links } = pageOf(request, section, { rows, size: pageRows });
  const [active, others] = [shown.filter(isActive), shown.filter((key) => !isActive(key))];
  const none = empty(
    'No keys yet',
    'A program needs a key to call the API. Issue one for each program, so that you can revoke it alone.',
    isAdmin ? add : html`<p>Ask an admin of your company for one.</p>`,
    'key',
  );
  const actions: readonly Column<ApiKey>[] = isAdmin ? [['Actions', actsOf]] : [];
  const works = table('API keys', [...columns, ...actions], active, html`<p>No key works at present.</p>`);
  const summary = `${ended < keyLimits.endedShown ? '' : 'The last '}${counted(ended, 'key')} that no longer work${ended === 1 ? 's' : ''}`;
  const endedKeys = html`<details !${active.length === 0 ? 'open' : ''}>
    <summary>${summary}</summary>
    !${table('Keys that no longer work', columns, others)}
  </details>`;
  const body = html`!${doneNotice(request, doneTexts)} !${rows.length === 0 ? none : works}
  !${others.length > 0 ? endedKeys : ''} !${links}`;
  const approvals = linkButton('Approvals', '/app/approvals', 'secondary outline');
  return { title: 'API keys', body, actions: isAdmin && rows.length > 0 ? html`!${approvals} !${add}` : '' };
}

const columns: readonly Column<ApiKey>[] = [
  ['Key', ({ name, start }) => html`<strong>${name}</strong><br /><code>${start}…</code>`],
  ['State', (key) => stateOf(key)],
  ['Scopes', (key) => scopesOf(key)],
  ['Last used', ({ last_used_at }) => moment(last_used_at, 'Never')],
  ['Issued', ({ created_at }) => date(created_at)],
  ['Ends', ({ revoked_at, expires_at }) => date(revoked_at ?? expires_at)],
  ['Credits spent', spentBy, 'long'],
];

function actsOf({ id, name }: ApiKey): Html {
  const act = (verb: string, label: string, spoken = label) =>
    html`<a href="${section}/${id}/${verb}" data-dialog aria-label="${spoken} ${name}">${label}</a>`;
  return html`<span class="acts">
    !${act('rotate', 'Rotate')} !${act('caps', 'Limits', 'Limits of')} !${act('revoke', 'Revoke')}
  </span>`;
}

/** Shows the status, or a warning if the key expires soon. */
function stateOf({ status, expires_at }: ApiKey): Html {
  if (status !== 'active') return badge(status, status === 'revoked' ? 'bad' : 'plain');
  const daysLeft = Math.ceil((Date.parse(expires_at) - Date.now()) / dayMs);
  if (daysLeft > warningDays) return badge('active', 'good');
  return badge(daysLeft <= 1 ? 'ends within a day' : `ends in ${daysLeft} days`, 'warning');
}

function scopesOf({ permissions }: ApiKey): Html {
  if (isUsual(permissions)) return html`all ${usualScopes.length}`;
  return html`<details class="inline">
    <summary>${permissions.length} of ${scopes.length}</summary>
    <span class="mono">${permissions.join(', ')}</span>
  </details>`;
}

export const lastUse = ({ last_used_at }: ApiKey): Html =>
  last_used_at === null ? 'It has never been used.' : html`It was last used on !${moment(last_used_at)}.`;
