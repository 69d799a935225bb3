import type { FastifyInstance, FastifyRequest } from 'fastify';
import { durations, noCaps, KeyRequest, SpendCapsChange, keyLimits, anySize } from '../schemas/accounts.ts';
import type { ApproveOver, capPeriods, SpendCaps, ApiKey } from '../schemas/accounts.ts';
import { scopes, usualScopes, type Scope } from '../schemas/scopes.ts';
import { forMembers, forAdmins, addPage, formRoutes, question, secretPage, issuedBefore } from './base/layout.ts';
import type { Page, FormPage } from './base/layout.ts';
import { versionField, pageOf, doneNotice, faultText, group, choices, controlsFor, tick } from './base/forms.ts';
import { once, lookUp, write, fieldsOf, text, values, integer, idOf, isAdmin, queryText } from './base/requests.ts';
import type { Fields } from './base/requests.ts';
import { requireCurrent, requireValid, type Faults, type Refused } from './base/refusals.ts';
import { badge, empty, table, linkButton, dialogLink, buttons, html, type Html, type Column } from './base/html.ts';
import { dayMs, moment, date, count, counted } from './base/values.ts';
import { pools, type Pool } from '../schemas/jobs.ts';
import { setSpendCaps, issueKey, replaceKey, revokeKey, type Issued } from '../accounts/api-keys.ts';
import { publicUrl } from '../process/config.ts';
import { DomainError, notFound } from '../errors.ts';
import { actorOf } from '../plugins/auth.ts';
import { findApiKey, findKeyVersions, listApiKeys } from '../queries/accounts/api-keys.ts';
import { compile } from '../validation/validator.ts';

type KeyDraft = Required<KeyRequest> & { spend_caps: SpendCaps; approve_over: ApproveOver };

const resources: Record<string, string> = {
  customer: 'Account and credits',
  contacts: 'Contacts',
  companies: 'Companies',
  list_contacts: 'Contact lists (reading also allows to copy and to verify them, which spends credits)',
  list_contact_details: 'Members of lists',
  products: 'Products',
  opportunities: 'Opportunities',
  activities: 'Activities (notes, tasks, calls)',
  pipelines: 'Pipelines',
  stages: 'Stages',
  prospect: 'Prospects',
  payment_prospect: 'Unlocking prospects (spends credits)',
  verify_email: 'Verifying e-mail addresses (spends credits)',
  webhooks: 'Webhooks (makes and changes endpoints to which events are sent)',
  fields: 'Fields (declares what your own fields are)',
};

const resourceOf = (scope: Scope): string => scope.split(':')[0]!;
const actionOf = (scope: Scope): string => scope.split(':')[1]!;
const isPaidFor = (scope: Scope): boolean => ['payment_prospect', 'verify_email'].includes(resourceOf(scope));

const nothing = { amount: 0, per: 'total' } as const;

export const presets: readonly { id: string; label: string; scopes: Scope[]; caps: SpendCaps }[] = [
  {
    id: 'read',
    label: 'Read only',
    scopes: scopes.filter((scope) => actionOf(scope) === 'read'),
    // A scope for reading is enough to verify a list.
    caps: { subscription: nothing, verification: nothing },
  },
  {
    id: 'crm',
    label: 'CRM',
    scopes: usualScopes.filter((scope) => !isPaidFor(scope) && resourceOf(scope) !== 'prospect'),
    caps: noCaps,
  },
  { id: 'all', label: 'Everything', scopes: [...usualScopes], caps: noCaps },
];

const keyForm = ({ name, expiration, permissions, ...limits }: KeyDraft, faults: Faults): Html =>
  html`<div class="card">
      !${controlsFor({ name }, faults).input('name', 'Name', {
        hint: 'What the key is for, such as “Nightly import”.',
        more: 'maxlength="120" autocomplete="off" required',
      })}
      !${choices(
        'Expires after',
        durations.map((days) =>
          tick('radio', ['expiration', String(days)], `${days} days`, days === expiration, 'required'),
        ),
        faultText('expiration', faults),
      )}
    </div>
    !${group(
      'Scopes',
      html`<p class="row small">
          <span class="quiet">Start with</span>
          !${presets.map(({ id, label, scopes: own, caps }) =>
            linkButton(
              label,
              `/app/keys/new?preset=${id}`,
              'secondary outline',
              html`data-preset="${own.join(' ')}" data-cap="${caps.verification?.amount ?? ''}"`,
            ),
          )}
        </p>
        !${faultText('permissions', faults)}
        <div class="columns">!${Object.entries(resources).map((entry) => scopesOfResource(entry, permissions))}</div>`,
      'permissions',
    )}
    !${capFields(limits, faults)} !${buttons('Issue the key', '/app/keys')}`;

function scopesOfResource([resource, label]: [string, string], chosen: readonly Scope[]): Html {
  const own = scopes.filter((scope) => resourceOf(scope) === resource);
  const ticks = own.map((scope) =>
    tick(
      'checkbox',
      ['permissions', scope],
      actionOf(scope),
      chosen.includes(scope),
      html`aria-label="${label}: ${actionOf(scope)}"`,
    ),
  );
  return choices(label, ticks);
}

const poolLabels: Record<Pool, string> = {
  subscription: 'Unlocking prospects',
  verification: 'Verifying e-mail addresses',
};

const periodLabels: Record<(typeof capPeriods)[number], string> = {
  day: 'per day (UTC)',
  month: 'per month (UTC)',
  total: 'in total',
};

interface KeyLimits {
  spend_caps: SpendCaps;
  approve_over: ApproveOver;
}

function capFields({ spend_caps: caps, approve_over: over }: KeyLimits, faults: Faults): Html {
  const values = {
    ...Object.fromEntries(pools.map((pool) => [`cap_${pool}`, String(caps[pool]?.amount ?? '')])),
    ...Object.fromEntries(pools.map((pool) => [`cap_${pool}_per`, caps[pool]?.per ?? 'day'])),
    over_records: String(over.records ?? ''),
    over_credits: String(over.credits ?? ''),
  };
  const { input, choice } = controlsFor(values, faults);
  const amount = (name: string, label: string, none: string) =>
    input(name, label, { more: html`inputmode="numeric" autocomplete="off" placeholder="${none}"` });
  const capOfPool = (pool: Pool) =>
    html`<div class="columns">
      !${amount(`cap_${pool}`, poolLabels[pool], 'no cap')}
      !${choice(`cap_${pool}_per`, `${poolLabels[pool]}: in which time`, Object.entries(periodLabels))}
    </div>`;
  return html`!${group(
    'Spend caps',
    html`<p class="quiet">
        Credits that jobs of this key may cost. Empty: no cap of its own. 0: the key cannot spend. The customer's
        credits are a limit for all keys together.
      </p>
      !${faultText('spend_caps', faults)} !${pools.map(capOfPool)}`,
    'spend_caps',
  )}
  !${group(
    'Approval of large calls',
    html`<p class="quiet">
        A single call that writes more records or costs more credits waits until an admin approves it. Empty: none
        waits.
      </p>
      !${faultText('approve_over', faults)}
      <div class="columns">
        !${amount('over_records', 'Records', 'no approval')} !${amount('over_credits', 'Credits', 'no approval')}
      </div>`,
    'approve_over',
  )}`;
}

const limitsIn = (fields: Fields): KeyLimits => ({
  spend_caps: Object.fromEntries(pools.map((pool) => [pool, capOf(fields, pool)])) as SpendCaps,
  approve_over: { credits: overOf(fields, 'over_credits'), records: overOf(fields, 'over_records') },
});

const overOf = (fields: Fields, name: string): number | null =>
  text(fields, name).trim() === '' ? null : integer(fields, name);

const capOf = (fields: Fields, pool: Pool): SpendCaps[Pool] =>
  text(fields, `cap_${pool}`).trim() === ''
    ? null
    : { amount: integer(fields, `cap_${pool}`), per: text(fields, `cap_${pool}_per`) as 'day' };

const spentBy = ({ spent, spend_caps: caps }: ApiKey): Html =>
  html`!${pools.map((pool) => html`<span class="line">!${spentIn(spent[pool], caps[pool])} ${purposes[pool]}</span>`)}`;

const purposes: Record<Pool, string> = { subscription: 'to unlock', verification: 'to verify' };

const spentIn = (spent: number, cap: SpendCaps[Pool]): Html =>
  cap === null ? count(spent) : html`!${count(spent)} of !${count(cap.amount)} ${periodLabels[cap.per]}`;

export async function keys(app: FastifyInstance): Promise<void> {
  const { KEY_PREFIX } = app.config;
  const check = compile(KeyRequest);
  const checkCaps = compile(SpendCapsChange);

  addPage(app, '/keys', forMembers, async (request) => keyList(request, await lookUp(request, listApiKeys)));

  formRoutes(app, '/keys/new', forAdmins, {
    show: showNew,
    act: async (request) => {
      const draft = draftOf(request);
      requireValid(check, draft);
      const issued = await once(request, (sql) => issueKey(sql, request.caller, draft, KEY_PREFIX, actorOf(request)));
      return showIssued(request, issued);
    },
  });

  formRoutes(app, '/keys/:id/rotate', forAdmins, {
    show: showRotate,
    act: async (request) => {
      const named = { customer_id: request.caller.customerId, id: idOf(request, 'API key') };
      const draft = draftOf(request);
      const change = draft.expiration === ('' as never) ? {} : { expiration: draft.expiration };
      requireValid(check, { name: 'unchanged', expiration: 90, ...change });
      const [before] = await app.db.credentials((sql) => findKeyVersions(sql, [named]));
      const issued = await once(request, (sql) => replaceKey(sql, before, change, KEY_PREFIX, actorOf(request)));
      return showIssued(request, issued);
    },
  });

  formRoutes(app, '/keys/:id/caps', forAdmins, {
    show: showCaps,
    act: async (request) => {
      const limits = limitsIn(fieldsOf(request));
      const key = await requireKey(request);
      requireCurrent(request, limitsOf(key));
      requireValid(checkCaps, limits);
      await write(request, setSpendCaps, key.id, limits, actorOf(request));
      return `${section}?done=capped`;
    },
  });

  question(app, '/keys/:id/revoke', forAdmins, {
    about: requireKey,
    title: 'Revoke the key',
    text: (key) =>
      html`<strong>${key.name}</strong> (<code>${key.start}…</code>) stops working at once and for good. Every program
        that uses it gets 401. !${lastUse(key)}`,
    back: () => section,
    act: async (request) => {
      const isKnown = await write(request, revokeKey, idOf(request, 'API key'), actorOf(request));
      if (!isKnown) throw notFound('API key');
      return `${section}?done=revoked`;
    },
  });
}

async function requireKey(request: FastifyRequest): Promise<ApiKey> {
  const key = await lookUp(request, findApiKey, idOf(request, 'API key'));
  if (!key) throw notFound('API key');
  return key;
}

/**
 * Returns the key in the request's path.
 * @throws DomainError `not_found`; `conflict` if the key is not active and the request only shows a form
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

function presetOf(request: FastifyRequest): KeyDraft {
  const { scopes: permissions, caps } = presets.find(({ id }) => id === queryText(request, 'preset')) ?? presets[0]!;
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

function showIssued(request: FastifyRequest, issued: Issued | undefined): Page {
  if (!issued) return issuedBefore(request, 'key', 'rotate it to get a new one, or revoke it.');
  const { name, key, expires_at, permissions } = issued;
  return secretPage({
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
      !${controlsFor({}, faults).choice('expiration', 'It then expires after', [
        ['', 'the same time as until now'],
        ...durations.map((days) => [String(days), `${days} days`] as const),
      ])}
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

const pageRows = 50;

const warningDays = 14;

const doneTexts: Record<string, string> = {
  revoked: 'The key is revoked. It has stopped working.',
  capped: 'The limits are changed. They count from the next call on.',
};

function keyList(request: FastifyRequest, all: readonly ApiKey[]): Page {
  const add = linkButton('New key', `${section}/new`);
  const isActive = ({ status }: ApiKey): boolean => status === 'active';
  const working = all.filter(isActive);
  const rows = [...working, ...all.filter((key) => !isActive(key))];
  const ended = rows.length - working.length;
  const { shown, links } = pageOf(request, rows, pageRows);
  const [active, others] = [shown.filter(isActive), shown.filter((key) => !isActive(key))];
  const none = empty(
    'No keys yet',
    'A program needs a key to call the API. Issue one for each program, so that you can revoke it alone.',
    'key',
    isAdmin(request) ? add : html`<p>Ask an admin of your company for one.</p>`,
  );
  const actions: readonly Column<ApiKey>[] = isAdmin(request) ? [['Actions', actsOf]] : [];
  const works = table('API keys', [...columns, ...actions], active, html`<p>No key works at present.</p>`);
  const summary = `${ended < keyLimits.endedShown ? '' : 'The last '}${counted(ended, 'key')} that no longer work${ended === 1 ? 's' : ''}`;
  const endedKeys = html`<details !${active.length === 0 ? 'open' : ''}>
    <summary>${summary}</summary>
    !${table('Keys that no longer work', columns, others)}
  </details>`;
  const body = html`!${doneNotice(request, doneTexts)} !${rows.length === 0 ? none : works}
  !${others.length > 0 ? endedKeys : ''} !${links}`;
  const approvals = linkButton('Approvals', '/app/approvals', 'secondary outline');
  return { title: 'API keys', body, actions: isAdmin(request) && rows.length > 0 ? html`!${approvals} !${add}` : '' };
}

const columns: readonly Column<ApiKey>[] = [
  ['Key', ({ name, start }) => html`<strong>${name}</strong><br /><code>${start}…</code>`],
  ['State', (key) => stateOf(key)],
  ['Scopes', (key) => scopesOf(key)],
  ['Last used', ({ last_used_at }) => moment(last_used_at, 'Never')],
  [
    'Ends',
    ({ created_at, revoked_at, expires_at }) =>
      html`!${date(revoked_at ?? expires_at)}<br /><span class="quiet">issued !${date(created_at)}</span>`,
  ],
  ['Credits spent', spentBy],
];

function actsOf({ id, name }: ApiKey): Html {
  const act = (verb: string, label: string, spoken = label) =>
    dialogLink(label, `${section}/${id}/${verb}`, `${spoken} ${name}`);
  return html`<span class="acts">
    !${act('rotate', 'Rotate')} · !${act('caps', 'Limits', 'Limits of')} · !${act('revoke', 'Revoke')}
  </span>`;
}

function stateOf({ status, expires_at }: ApiKey): Html {
  if (status !== 'active') return badge(status, status === 'revoked' ? 'bad' : 'plain');
  const daysLeft = Math.ceil((Date.parse(expires_at) - Date.now()) / dayMs);
  if (daysLeft > warningDays) return badge('active', 'good');
  return badge(daysLeft <= 1 ? 'ends within a day' : `ends in ${daysLeft} days`, 'warning');
}

function scopesOf({ permissions }: ApiKey): Html {
  return html`<details>
    <summary>${permissions.length} of ${scopes.length}</summary>
    ${permissions.join(', ')}
  </details>`;
}

export const lastUse = ({ last_used_at }: ApiKey): Html =>
  last_used_at === null ? 'It has never been used.' : html`It was last used on !${moment(last_used_at)}.`;
