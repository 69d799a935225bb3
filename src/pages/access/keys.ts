import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { capKey, issueKey, replaceKey, type Issued } from '../../accounts/api-keys.ts';
import { publicUrl } from '../../process/config.ts';
import { DomainError, notFound } from '../../errors.ts';
import { actorOf } from '../../plugins/credentials/auth.ts';
import { findApiKey, findKeyVersions, listApiKeys, revokeApiKey } from '../../queries/accounts/api-keys.ts';
import { markSent } from '../../queries/records/sent-forms.ts';
import { durations, KeyRequest, SpendCapsChange, type ApiKey, type SpendCaps } from '../../schemas/api-keys.ts';
import { compile } from '../../validation/validator.ts';
import { forAdmins, forMembers } from '../base/access.ts';
import { faultsOf, fieldsOf, idOf, integer, queryOf, text, tokenOf, values, type Faults } from '../base/forms.ts';
import { counted, date, html } from '../base/html.ts';
import { capFields, capsOf } from './key-caps.ts';
import { keyForm, presets, type KeyDraft } from './key-form.ts';
import { keyList, lastUse, section } from './key-list.ts';
import { form, goTo, sendConfirmation, sendPage } from '../base/layout.ts';
import { sendIssuedBefore, sendSecret } from '../base/secret.ts';

export async function keys(app: FastifyInstance): Promise<void> {
  const { KEY_PREFIX } = app.config;
  const check = compile(KeyRequest);
  const checkCaps = compile(SpendCapsChange);

  app.get('/keys', forMembers, async (request, reply) => {
    const rows = await request.db.lookup((sql) => listApiKeys(sql, request.caller.customerId));
    return sendPage(request, reply, keyList(request, rows));
  });

  app.get('/keys/new', forAdmins, async (request, reply) => {
    const preset = presets.find(({ id }) => id === text(queryOf(request), 'preset')) ?? presets[0]!;
    return showNew(request, reply, { name: '', expiration: 90, permissions: preset.scopes, spend_caps: preset.caps });
  });

  app.post('/keys/new', forAdmins, async (request, reply) => {
    const draft = draftOf(request);
    const faults = faultsOf(check, draft);
    if (Object.keys(faults).length > 0) return showNew(request, reply, draft, faults);
    const { caller, db } = request;
    const issued = await db.transaction(async (sql) =>
      (await markSent(sql, caller.customerId, tokenOf(request.body)))
        ? issueKey(sql, caller, draft, KEY_PREFIX, actorOf(request))
        : undefined,
    );
    return issued ? showIssued(request, reply, issued) : showSent(request, reply);
  });

  app.get('/keys/:id/rotate', forAdmins, async (request, reply) => {
    return showRotate(request, reply, await requireActiveKey(request));
  });

  app.post('/keys/:id/rotate', forAdmins, async (request, reply) => {
    const { db, caller } = request;
    const id = idOf(request, 'API key');
    const draft = draftOf(request);
    const change = draft.expiration === ('' as never) ? {} : { expiration: draft.expiration };
    const faults = faultsOf(check, { name: 'unchanged', expiration: 90, ...change });
    if (Object.keys(faults).length > 0) return showRotate(request, reply, await requireKey(request), faults);
    const [before] = await app.db.credentials((sql) => findKeyVersions(sql, [{ customer_id: caller.customerId, id }]));
    const issued = await db.transaction(async (sql) =>
      (await markSent(sql, caller.customerId, tokenOf(request.body)))
        ? replaceKey(sql, before, change, KEY_PREFIX, actorOf(request))
        : undefined,
    );
    return issued ? showIssued(request, reply, issued) : showSent(request, reply);
  });

  app.get('/keys/:id/caps', forAdmins, async (request, reply) => {
    const key = await requireActiveKey(request);
    return showCaps(request, reply, key, key.spend_caps);
  });

  app.post('/keys/:id/caps', forAdmins, async (request, reply) => {
    const { customerId } = request.caller;
    const caps = capsOf(fieldsOf(request));
    const faults = faultsOf(checkCaps, { spend_caps: caps });
    if (Object.keys(faults).length > 0) return showCaps(request, reply, await requireKey(request), caps, faults);
    const id = idOf(request, 'API key');
    await request.db.transaction((sql) => capKey(sql, customerId, id, caps, actorOf(request)));
    return goTo(reply, `${section}?done=capped`);
  });

  app.get('/keys/:id/revoke', forAdmins, async (request, reply) => {
    const key = await requireKey(request);
    return sendConfirmation(request, reply, {
      title: 'Revoke the key',
      section,
      text: html`<strong>${key.name}</strong> (<code>${key.start}…</code>) stops working at once and for good. Every
        program that uses it gets 401. !${lastUse(key)}`,
      action: `${section}/${key.id}/revoke`,
      back: section,
      refusal: 'Leave it as it is',
    });
  });

  app.post('/keys/:id/revoke', forAdmins, async (request, reply) => {
    const { customerId } = request.caller;
    const id = idOf(request, 'API key');
    const isKnown = await request.db.transaction((sql) => revokeApiKey(sql, customerId, id, actorOf(request)));
    if (!isKnown) throw notFound('API key');
    return goTo(reply, `${section}?done=revoked`);
  });
}

/** @throws DomainError `not_found` if the customer has no key with the id in the request's path */
async function requireKey(request: FastifyRequest): Promise<ApiKey> {
  const id = idOf(request, 'API key');
  const key = await request.db.lookup((sql) => findApiKey(sql, request.caller.customerId, id));
  if (!key) throw notFound('API key');
  return key;
}

/** @throws DomainError `not_found`; `conflict` if the key is not active */
async function requireActiveKey(request: FastifyRequest): Promise<ApiKey> {
  const key = await requireKey(request);
  if (key.status !== 'active')
    throw new DomainError('conflict', `This key is ${key.status}. Only an active key can be changed`);
  return key;
}

function draftOf(request: FastifyRequest): KeyDraft {
  const fields = fieldsOf(request);
  return {
    name: text(fields, 'name'),
    expiration: integer(fields, 'expiration') as KeyDraft['expiration'],
    permissions: values(fields, 'permissions') as KeyDraft['permissions'],
    spend_caps: capsOf(fields),
  };
}

function showNew(request: FastifyRequest, reply: FastifyReply, draft: KeyDraft, faults: Faults = {}): FastifyReply {
  return sendPage(request, reply, {
    title: 'New API key',
    section,
    status: Object.keys(faults).length > 0 ? 400 : 200,
    body: html`<p class="lead">
        Give each program its own key, with only the scopes that it needs. The key is shown once.
      </p>
      !${form(request, reply, { action: `${section}/new`, body: keyForm(draft, faults), attributes: 'data-once data-keep' })}`,
  });
}

const showIssued = (request: FastifyRequest, reply: FastifyReply, { name, key, expires_at, permissions }: Issued) =>
  sendSecret(request, reply, {
    title: 'Your new key',
    section,
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

const showSent = (request: FastifyRequest, reply: FastifyReply): FastifyReply =>
  sendIssuedBefore(request, reply, { what: 'key', section, advice: 'rotate it to get a new one, or revoke it.' });

function showRotate(request: FastifyRequest, reply: FastifyReply, key: ApiKey, faults: Faults = {}): FastifyReply {
  const body = html`<p>
      <strong>${key.name}</strong> (<code>${key.start}…</code>) gets a new value. The present one stops working at once,
      and every program that uses it gets 401 until it has the new one. !${lastUse(key)}
    </p>
    <label for="expiration">It then expires after</label>
    <select id="expiration" name="expiration">
      <option value="">the same time as until now</option>
      !${durations.map((days) => html`<option value="${days}">${days} days</option>`)}
    </select>
    !${faults['expiration'] ? html`<small class="fault">${faults['expiration']}</small>` : ''}
    <div class="buttons">
      <button>Rotate the key</button>
      <a role="button" class="secondary outline" href="${section}" data-close>Leave it as it is</a>
    </div>`;
  return sendPage(request, reply, {
    title: 'Rotate the key',
    section,
    status: Object.keys(faults).length > 0 ? 400 : 200,
    body: html`<div class="card narrow">
      !${form(request, reply, { action: `${section}/${key.id}/rotate`, body, attributes: 'data-once' })}
    </div>`,
  });
}

const showCaps = (request: FastifyRequest, reply: FastifyReply, key: ApiKey, caps: SpendCaps, faults: Faults = {}) =>
  sendPage(request, reply, {
    title: 'Spend caps of the key',
    section,
    status: Object.keys(faults).length > 0 ? 400 : 200,
    body: form(request, reply, {
      action: `${section}/${key.id}/caps`,
      body: html`<p><strong>${key.name}</strong> (<code>${key.start}…</code>) keeps its value.</p>
        !${capFields(caps, faults)}
        <div class="buttons">
          <button>Change the caps</button>
          <a role="button" class="secondary outline" href="${section}" data-close>Leave them as they are</a>
        </div>`,
    }),
  });
