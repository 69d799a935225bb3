import type { FastifyInstance, FastifyRequest } from 'fastify';
import { durations, noCaps, KeyRequest, SpendCapsChange } from '../schemas/accounts.ts';
import type { ApproveOver, capPeriods, SpendCaps, ApiKey } from '../schemas/accounts.ts';
import { scopes, usualScopes, type Scope } from '../schemas/scopes.ts';
import { forMembers, forAdmins, addPage, formRoutes, question, secretPage, issuedBefore } from './base/layout.ts';
import type { Page, FormPage } from './base/layout.ts';
import { versionField, pageOf, doneNotice, faultText, group, choices, controlsFor, tick } from './base/forms.ts';
import { once, lookUp, write, fieldsOf, text, values, integer, idOf, isAdmin, queryText } from './base/requests.ts';
import type { Fields } from './base/requests.ts';
import { requireCurrent, requireValid, type Faults, type Refused } from './base/refusals.ts';
import {
  when,
  badge,
  empty,
  table,
  linkButton,
  dialogLink,
  buttons,
  html,
  type Html,
  type Column,
} from './base/html.ts';
import { dayMs, moment, date, count, counted } from './base/values.ts';
import { poolWords } from './base/words.ts';
import { pools, type Pool } from '../schemas/jobs.ts';
import { setSpendCaps, issueKey, replaceKey, revokeKey, type Issued } from '../accounts/api-keys.ts';
import { publicUrl } from '../process/config.ts';
import { DomainError, notFound, type Fault } from '../errors.ts';
import { actorOf } from '../plugins/auth.ts';
import { findApiKey, findKeyVersions, listApiKeys } from '../queries/accounts/api-keys.ts';
import { compile } from '../validation/validator.ts';

type KeyDraft = Required<KeyRequest> & KeyLimits & { preset: string };

const resources: Record<string, string> = {
  customer: 'Account and credits',
  contacts: 'Contacts',
  companies: 'Companies',
  list_contacts: 'Lists (who reads them can also verify them)',
  list_contact_details: 'Who is in a list',
  products: 'Products',
  opportunities: 'Opportunities',
  activities: 'Notes, tasks and calls',
  pipelines: 'Pipelines',
  stages: 'Stages',
  prospect: 'Prospects',
  payment_prospect: 'Unlocking prospects (spends credits)',
  verify_email: 'Verifying e-mail addresses (spends credits)',
  webhooks: 'Webhooks',
  fields: 'Your own fields',
};

const actions: Record<string, string> = {
  read: 'read',
  create: 'create',
  update: 'change',
  delete: 'delete',
  manage: 'change',
};

const resourceOf = (scope: Scope): string => scope.split(':')[0]!;
const isPaidFor = (scope: Scope): boolean => ['payment_prospect', 'verify_email'].includes(resourceOf(scope));

const actionOf = (scope: Scope): string => (isPaidFor(scope) ? 'start' : actions[scope.split(':')[1]!]!);

/** Scopes of which a key needs one to spend credits of a pool. */
const spending: Record<Pool, readonly Scope[]> = {
  subscription: ['payment_prospect:create'],
  verification: ['verify_email:create', 'list_contacts:read'],
};

const nothing = { amount: 0, per: 'total' } as const;

interface Preset {
  id: string;
  label: string;
  advice: string;
  scopes: readonly Scope[];
  caps: SpendCaps;
}

const presets: readonly Preset[] = [
  {
    id: 'read',
    label: 'Read only',
    advice: 'It sees everything, changes nothing and spends no credits.',
    scopes: scopes.filter((scope) => scope.endsWith(':read')),
    // A scope for reading is enough to verify a list.
    caps: { subscription: nothing, verification: nothing },
  },
  {
    id: 'crm',
    label: 'Work with records',
    advice: 'It reads, creates, changes and deletes contacts, companies, lists, opportunities and so on.',
    scopes: usualScopes.filter((scope) => !isPaidFor(scope) && resourceOf(scope) !== 'prospect'),
    caps: noCaps,
  },
  {
    id: 'all',
    label: 'Everything',
    advice: 'It also finds and unlocks prospects and verifies addresses, which spends credits.',
    scopes: usualScopes,
    caps: noCaps,
  },
];

const own = 'own';
const ownLabel = 'Only what is ticked here';

function permissionsText(permissions: readonly Scope[]): string {
  const byResource = Map.groupBy(permissions, resourceOf);
  const verbsOf = (some: readonly Scope[]): string => some.map(actionOf).join(', ');
  const byVerbs = Map.groupBy(byResource, ([, some]) => verbsOf(some));
  return [...byVerbs]
    .map(([verbs, some]) => `${verbs}: ${some.map(([resource]) => resources[resource]).join(', ')}`)
    .join('; ');
}

function keyForm({ name, expiration, permissions, preset, ...limits }: KeyDraft, faults: Faults): Html {
  const { input, choice } = controlsFor({ name, expiration: String(expiration) }, faults);
  const hint = 'What the key is for, such as “Nightly import”.';
  const ends = durations.map((days) => [String(days), `${days} days`] as const);
  return html`<div class="card">
      !${input('name', 'Name', { hint, more: 'maxlength="120" autocomplete="off" required' })}
      !${choice('expiration', 'Ends after', ends)}
    </div>
    !${group(
      'What it may do',
      html`!${presets.map(({ id, label, advice }) =>
          tick(
            'radio',
            ['preset', id],
            html`<span><strong>${label}</strong> <span class="quiet">${advice}</span></span>`,
            id === preset,
            'data-preset',
          ),
        )}
        !${tick('radio', ['preset', own], html`<strong>${ownLabel}</strong>`, preset === own)}
        !${faultText('permissions', faults)}
        <details !${when(preset === own || permissions.length > 0, 'open')}>
          <summary>Choose one by one</summary>
          <div class="columns" data-ticks>
            !${Object.entries(resources).map((entry) => scopesOfResource(entry, permissions))}
          </div>
        </details>`,
      'permissions',
    )}
    !${capFields(limits, faults)} !${buttons('Issue the key', '/app/keys')}`;
}

function scopesOfResource([resource, label]: [string, string], chosen: readonly Scope[]): Html {
  const some = scopes.filter((scope) => resourceOf(scope) === resource);
  const ticks = some.map((scope) => {
    const action = actionOf(scope);
    const spoken = html`aria-label="${label}: ${action}"`;
    return tick('checkbox', ['permissions', scope], action, chosen.includes(scope), spoken);
  });
  return choices(label, ticks);
}

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
      !${amount(`cap_${pool}`, `Credits ${poolWords[pool].purpose}`, 'no cap')}
      !${choice(`cap_${pool}_per`, `In which time, ${poolWords[pool].purpose}`, Object.entries(periodLabels))}
    </div>`;
  return html`!${group(
    'Spend caps',
    html`<p class="quiet">
        How many credits this key may spend. Empty: as many as your company has, and none if it only reads. 0: none.
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

/** Returns a fault for each cap of credits that the key cannot spend anyway. */
const needlessCaps = (caps: SpendCaps, permissions: readonly Scope[]): Fault[] =>
  pools
    .filter((pool) => caps[pool]?.amount && !spending[pool].some((scope) => permissions.includes(scope)))
    .map((pool) => ({
      path: `/cap_${pool}`,
      message: 'the key may not do this, so it needs no cap: empty this field',
    }));

const capOf = (fields: Fields, pool: Pool): SpendCaps[Pool] =>
  text(fields, `cap_${pool}`).trim() === ''
    ? null
    : { amount: integer(fields, `cap_${pool}`), per: text(fields, `cap_${pool}_per`) as 'day' };

const spentBy = ({ spent, spend_caps: caps }: ApiKey): Html =>
  html`!${pools.map((pool) => html`<span class="line">${poolWords[pool].word}: !${spentIn(spent[pool], caps[pool])}</span>`)}`;

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
      const key = keyOf(draft);
      requireValid(check, key, [...contraryTicks(draft, key), ...needlessCaps(key.spend_caps, key.permissions)]);
      const issued = await once(request, (sql) => issueKey(sql, request.caller, key, KEY_PREFIX, actorOf(request)));
      return showIssued(request, issued);
    },
  });

  question(app, '/keys/:id/rotate', forAdmins, {
    about: requireActiveKey,
    title: 'Rotate the key',
    text: (key) =>
      html`!${named(key)} gets a new value, which lasts as long as the present one did, counted from now. The present
      one stops working at once: each program that uses it is refused until it has the new one. !${lastUse(key)}`,
    back: () => section,
    tone: '',
    act: async (request) => {
      const key = { customer_id: request.caller.customerId, id: idOf(request, 'API key') };
      const [before] = await app.db.credentials((sql) => findKeyVersions(sql, [key]));
      const issued = await once(request, (sql) => replaceKey(sql, before, {}, KEY_PREFIX, actorOf(request)));
      return showIssued(request, issued);
    },
  });

  formRoutes(app, '/keys/:id/caps', forAdmins, {
    show: showCaps,
    act: async (request) => {
      const limits = limitsIn(fieldsOf(request));
      const key = await requireKey(request);
      requireCurrent(request, limitsOf(key));
      requireValid(checkCaps, limits, needlessCaps(limits.spend_caps, key.permissions));
      await write(request, setSpendCaps, key.id, limits, actorOf(request));
      return `${section}?done=capped`;
    },
  });

  question(app, '/keys/:id/revoke', forAdmins, {
    about: requireKey,
    title: 'Revoke the key',
    text: (key) =>
      html`!${named(key)} stops working at once and for good: each program that uses it is refused. !${lastUse(key)}`,
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
    preset: presets.find(({ id }) => id === text(fields, 'preset'))?.id ?? own,
    name: text(fields, 'name'),
    expiration: integer(fields, 'expiration') as KeyDraft['expiration'],
    permissions: values(fields, 'permissions', scopes.length) as Scope[],
    ...limitsIn(fields),
  };
}

/** Returns the key that a form describes. What the form leaves open is as its preset says. */
function keyOf({ preset: chosen, ...draft }: KeyDraft): Required<KeyRequest> & KeyLimits {
  const preset = presets.find(({ id }) => id === chosen);
  if (!preset) return draft;
  const caps = pools.map((pool) => [pool, draft.spend_caps[pool] ?? preset.caps[pool]]);
  return { ...draft, permissions: [...preset.scopes], spend_caps: Object.fromEntries(caps) as SpendCaps };
}

/** Returns a fault if a preset is chosen and other scopes than its own are ticked. */
const contraryTicks = ({ permissions: ticked }: KeyDraft, { permissions }: KeyRequest): Fault[] =>
  ticked.length > 0 && new Set(ticked).symmetricDifference(new Set<string>(permissions)).size > 0
    ? [{ path: '/permissions', message: `choose “${ownLabel}”, or untick everything below` }]
    : [];

const blank = { preset: 'read', expiration: 90 } as const;

const showNew = (request: FastifyRequest, { faults }: Refused): FormPage => ({
  title: 'New API key',
  lead: html`<p class="lead">
    A program needs a key to work with your data. Give each program its own, which may do only what it needs. The key is
    shown once.
  </p>`,
  body: keyForm({ ...draftOf(request), ...(request.method !== 'POST' && blank) }, faults),
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
      <p class="quiet">It ends on !${date(expires_at)}. It may ${permissionsText(permissions)}.</p>`,
    next: section,
  });
}

const named = ({ name, start }: ApiKey): Html => html`<strong>${name}</strong> (<code>${start}…</code>)`;

const limitsOf = ({ spend_caps, approve_over }: ApiKey): KeyLimits => ({ spend_caps, approve_over });

async function showCaps(request: FastifyRequest, { faults }: Refused): Promise<FormPage> {
  const key = await requireActiveKey(request);
  const limits = request.method === 'POST' ? limitsIn(fieldsOf(request)) : key;
  return {
    title: 'Limits of the key',
    body: html`<p>!${named(key)} keeps its value.</p>
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

const isActive = ({ status }: ApiKey): boolean => status === 'active';

function keyList(request: FastifyRequest, all: readonly ApiKey[]): Page {
  const add = linkButton('New key', `${section}/new`);
  const [isEnded, mayChange] = [queryText(request, 'ended') !== '', isAdmin(request)];
  const ended = all.filter((key) => !isActive(key));
  const { shown, links } = pageOf(request, isEnded ? ended : all.filter(isActive), pageRows);
  const none = empty(
    'No keys',
    'A program needs a key to work with your data. Issue one for each program, so that you can revoke it alone.',
    'key',
    mayChange ? add : html`<p>Ask an admin of your company for one.</p>`,
  );
  const actions: readonly Column<ApiKey>[] = mayChange && !isEnded ? [['Actions', actsOf]] : [];
  const [label, path] = isEnded
    ? ['Keys that work', section]
    : [`Keys that no longer work: ${count(ended.length)}`, `${section}?ended=1`];
  const approvals = linkButton('Approvals', '/app/approvals', 'secondary outline');
  return {
    title: isEnded ? 'Keys that no longer work' : 'API keys',
    actions: when(mayChange, html`!${approvals} !${add}`),
    body: html`!${doneNotice(request, doneTexts)} !${table('API keys', [...columns, ...actions], shown, none)} !${links}
    !${when(isEnded || ended.length > 0, html`<p><a href="${path}">${label}</a></p>`)}`,
  };
}

const columns: readonly Column<ApiKey>[] = [
  ['Key', ({ name, start }) => html`<strong>${name}</strong><br /><code>${start}…</code>`],
  ['State', (key) => stateOf(key)],
  ['May do', (key) => permissionsOf(key)],
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

function permissionsOf({ permissions }: ApiKey): Html {
  const isLike = ({ scopes: some }: Preset): boolean =>
    new Set(some).symmetricDifference(new Set(permissions)).size === 0;
  return html`<details>
    <summary>${presets.find(isLike)?.label ?? counted(permissions.length, 'permission')}</summary>
    ${permissionsText(permissions)}
  </details>`;
}

export const lastUse = ({ last_used_at }: ApiKey): Html =>
  last_used_at === null ? 'It has never been used.' : html`It was last used on !${moment(last_used_at)}.`;
