import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { capKey, issueKey, replaceKey, revokeKey, type Issued } from '../../accounts/api-keys.ts';
import { publicUrl } from '../../process/config.ts';
import { DomainError, notFound } from '../../errors.ts';
import { actorOf } from '../../plugins/credentials/auth.ts';
import { findApiKey, findKeyVersions, listApiKeys } from '../../queries/accounts/api-keys.ts';
import { durations, KeyRequest, SpendCapsChange, type ApiKey, type SpendCaps } from '../../schemas/api-keys.ts';
import { scopes } from '../../schemas/base/scopes.ts';
import { compile } from '../../validation/validator.ts';
import { forAdmins, forMembers } from '../base/access.ts';
import {
  conflictOf,
  fieldsOf,
  idOf,
  integer,
  isOutdated,
  once,
  queryOf,
  refusalOf,
  requireValid,
  selectField,
  text,
  values,
  versionField,
  type Refused,
} from '../base/forms.ts';
import { buttons, counted, date, html } from '../base/html.ts';
import { capFields, capsOf } from './key-caps.ts';
import { keyForm, presets, type KeyDraft } from './key-form.ts';
import { keyList, lastUse, section } from './key-list.ts';
import { goTo, sendConfirmation, sendForm, sendPage } from '../base/layout.ts';
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
    try {
      requireValid(check, draft);
      const issued = await once(request, (sql) => issueKey(sql, request.caller, draft, KEY_PREFIX, actorOf(request)));
      return showIssued(request, reply, issued);
    } catch (error) {
      return showNew(request, reply, draft, refusalOf(error));
    }
  });

  app.get('/keys/:id/rotate', forAdmins, async (request, reply) => {
    return showRotate(request, reply, await requireActiveKey(request));
  });

  app.post('/keys/:id/rotate', forAdmins, async (request, reply) => {
    const { customerId } = request.caller;
    const id = idOf(request, 'API key');
    const draft = draftOf(request);
    const change = draft.expiration === ('' as never) ? {} : { expiration: draft.expiration };
    try {
      requireValid(check, { name: 'unchanged', expiration: 90, ...change });
      const [before] = await app.db.credentials((sql) => findKeyVersions(sql, [{ customer_id: customerId, id }]));
      const issued = await once(request, (sql) => replaceKey(sql, before, change, KEY_PREFIX, actorOf(request)));
      return showIssued(request, reply, issued);
    } catch (error) {
      return showRotate(request, reply, await requireKey(request), refusalOf(error));
    }
  });

  app.get('/keys/:id/caps', forAdmins, async (request, reply) => {
    const key = await requireActiveKey(request);
    return showCaps(request, reply, key, key.spend_caps);
  });

  app.post('/keys/:id/caps', forAdmins, async (request, reply) => {
    const { customerId } = request.caller;
    const caps = capsOf(fieldsOf(request));
    const key = await requireKey(request);
    if (isOutdated(request, key.spend_caps)) return showCaps(request, reply, key, caps, conflictOf('key'));
    try {
      requireValid(checkCaps, { spend_caps: caps });
      await request.db.transaction((sql) => capKey(sql, customerId, key.id, caps, actorOf(request)));
      return await goTo(reply, `${section}?done=capped`);
    } catch (error) {
      return showCaps(request, reply, key, caps, refusalOf(error));
    }
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
    const isKnown = await request.db.transaction((sql) => revokeKey(sql, customerId, id, actorOf(request)));
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
    permissions: values(fields, 'permissions', scopes.length) as KeyDraft['permissions'],
    spend_caps: capsOf(fields),
  };
}

const showNew = (request: FastifyRequest, reply: FastifyReply, draft: KeyDraft, refused?: Refused): FastifyReply =>
  sendForm(request, reply, {
    title: 'New API key',
    section,
    lead: html`<p class="lead">
      Give each program its own key, with only the scopes that it needs. The key is shown once.
    </p>`,
    action: `${section}/new`,
    body: keyForm(draft, refused?.faults ?? {}),
    attributes: 'data-once data-keep',
    fields: ['name', 'expiration', 'permissions', 'spend_caps'],
    refused,
  });

/** @param issued undefined if the form was sent before */
function showIssued(request: FastifyRequest, reply: FastifyReply, issued: Issued | undefined): FastifyReply {
  if (!issued) {
    const advice = 'rotate it to get a new one, or revoke it.';
    return sendIssuedBefore(request, reply, { what: 'key', section, advice });
  }
  const { name, key, expires_at, permissions } = issued;
  return sendSecret(request, reply, {
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
}

const showRotate = (request: FastifyRequest, reply: FastifyReply, key: ApiKey, refused?: Refused): FastifyReply =>
  sendForm(request, reply, {
    title: 'Rotate the key',
    section,
    action: `${section}/${key.id}/rotate`,
    body: html`<p>
        <strong>${key.name}</strong> (<code>${key.start}…</code>) gets a new value. The present one stops working at
        once, and every program that uses it gets 401 until it has the new one. !${lastUse(key)}
      </p>
      !${selectField(
        { name: 'expiration', label: 'It then expires after', faults: refused?.faults ?? {} },
        [['', 'the same time as until now'], ...durations.map((days) => [String(days), `${days} days`] as const)],
        '',
      )}
      !${buttons('Rotate the key', section, 'Leave it as it is')}`,
    attributes: 'data-once',
    fields: ['expiration'],
    refused,
    isNarrow: true,
  });

const showCaps = (request: FastifyRequest, reply: FastifyReply, key: ApiKey, caps: SpendCaps, refused?: Refused) =>
  sendForm(request, reply, {
    title: 'Spend caps of the key',
    section,
    action: `${section}/${key.id}/caps`,
    body: html`<p><strong>${key.name}</strong> (<code>${key.start}…</code>) keeps its value.</p>
      !${versionField(key.spend_caps)} !${capFields(caps, refused?.faults ?? {})}
      !${buttons('Change the caps', section, 'Leave them as they are')}`,
    fields: ['spend_caps'],
    refused,
  });
