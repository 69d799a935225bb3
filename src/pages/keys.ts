import type { FastifyInstance, FastifyRequest } from 'fastify';
import { anySize, durations, KeyRequest, maxCap, SpendCapsChange } from '../schemas/accounts.ts';
import type { SpendCap, SpendCaps, ApiKey } from '../schemas/accounts.ts';
import { scopes, usualScopes, type Scope } from '../schemas/scopes.ts';
import { forMembers, forAdmins, addPage, formRoutes, question, secretPage, listPage } from './base/layout.ts';
import type { Page, FormPage } from './base/layout.ts';
import { versionField, pageOf, faultText, group, choices, controlsFor, filterChoice, filters } from './base/forms.ts';
import { tick } from './base/forms.ts';
import { once, lookUp, write, fieldsOf, text, values, integer, idOf, isAdmin, queryText } from './base/requests.ts';
import { required, requireCurrent, requireValid, type Fields, type Faults, type Refused } from './base/requests.ts';
import { line, when, badge, linkButton, buttons, html, card, folded, acts, quiet } from './base/html.ts';
import { sideBySide, dayMs, moment, date, count, counted, type Html, type Column } from './base/html.ts';
import { plain, poolWords } from './base/words.ts';
import { pools, type Pool } from '../schemas/jobs.ts';
import { publicUrl } from '../process/config.ts';
import type { Fault } from '../errors.ts';
import { actorOf } from '../plugins/auth.ts';
import { findApiKey, findKeyVersions, issueKey, listApiKeys } from '../queries/accounts/api-keys.ts';
import { replaceKey, revokeKey, setSpendCaps, type Issued } from '../queries/accounts/api-keys.ts';

type KeyDraft = Required<KeyRequest> & KeyLimits & { preset: string };

/** Words for the resources of scopes, where they differ from the names. */
const resourceWords: Record<string, string> = {
  customer: 'Account and credits',
  list_contacts: 'Lists (who reads them can also verify them)',
  list_contact_details: 'Who is in a list',
  activities: 'Notes, tasks and calls',
  prospect: 'Prospects',
  payment_prospect: 'Unlocking prospects (spends credits)',
  verify_email: 'Verifying e-mail addresses (spends credits)',
  fields: 'Your own fields',
};

const wordOf = (resource: string): string => resourceWords[resource] ?? plain(resource);

const actions: Record<string, string> = { update: 'change', manage: 'change' };

const resourceOf = (scope: Scope): string => scope.split(':')[0]!;
const isPaidFor = (scope: Scope): boolean => ['payment_prospect', 'verify_email'].includes(resourceOf(scope));

function actionOf(scope: Scope): string {
  const [, action] = scope.split(':') as [string, string];
  return isPaidFor(scope) ? 'start' : (actions[action] ?? action);
}

const spendingScopes: Record<Pool, readonly Scope[]> = {
  subscription: ['payment_prospect:create'],
  verification: ['verify_email:create', 'list_contacts:read'],
};

const nothing = { amount: 0, per: 'total' } as const;

type Preset = { label: string; advice: string; given: { permissions: Scope[] } & Partial<KeyLimits> };

const presets: Readonly<Record<string, Preset>> = {
  read: {
    label: 'Read only',
    advice: 'It sees everything, changes nothing and spends no credits.',
    given: {
      permissions: scopes.filter((scope) => scope.endsWith(':read')),
      // A scope for reading is enough to verify a list.
      spend_caps: { subscription: nothing, verification: nothing },
      approve_over: anySize,
    },
  },
  crm: {
    label: 'Work with records',
    advice: 'It reads, creates, changes and deletes contacts, companies, lists, opportunities and so on.',
    given: { permissions: usualScopes.filter((scope) => !isPaidFor(scope) && resourceOf(scope) !== 'prospect') },
  },
  all: {
    label: 'Everything',
    advice: 'It also finds and unlocks prospects and verifies addresses, which spends credits.',
    given: { permissions: [...usualScopes] },
  },
};

const own = 'own';

function permissionsText(permissions: readonly Scope[]): string {
  const byResource = Map.groupBy(permissions, resourceOf);
  const verbsOf = (some: readonly Scope[]): string => some.map(actionOf).join(', ');
  return [...Map.groupBy(byResource, ([, some]) => verbsOf(some))]
    .map(([verbs, some]) => `${verbs}: ${some.map(([resource]) => wordOf(resource)).join(', ')}`)
    .join('; ');
}

function keyForm({ name, expiration, permissions, preset }: KeyDraft, limits: Fields, faults: Faults): Html {
  const { input, choice } = controlsFor({ name, expiration: String(expiration) }, faults);
  const hint = 'What the key is for, such as “Nightly import”.';
  const ends = durations.map((days) => [String(days), `${days} days`] as const);
  const nameInput = input('name', 'Name', { hint, more: 'maxlength="120" autocomplete="off" required' });
  const ofPresets = Object.entries(presets).map(([id, { label, advice }]) => {
    const words = html`<span><strong>${label}</strong> <span class="quiet">${advice}</span></span>`;
    return tick('radio', ['preset', id], words, id === preset);
  });
  const ofResources = [...Map.groupBy(scopes, resourceOf)].map(([resource, some]) => {
    const ticks = some.map((scope) => {
      const action = actionOf(scope);
      const spoken = html`aria-label="${wordOf(resource)}: ${action}"`;
      return tick('checkbox', ['permissions', scope], action, permissions.includes(scope), spoken);
    });
    return choices(wordOf(resource), ticks);
  });
  return html`!${card(html`!${nameInput} !${choice('expiration', 'Ends after', ends)}`)}
  !${group(
    'What it may do',
    html`!${ofPresets} !${tick('radio', ['preset', own], '<strong>Only what is ticked here</strong>', preset === own)}
      !${faultText('permissions', faults)}
      <div class="columns of-choices">!${ofResources}</div>`,
    'permissions',
  )}
  !${limitFields(limits, faults)} !${buttons('Issue the key', section)}`;
}

const periods: Record<SpendCap['per'], string> = { day: 'per day (UTC)', month: 'per month (UTC)', total: 'in total' };

/** Returns in words the caps that the audit log tells, such as `subscription 100/day, verification none`. */
export const capsText = (told: string): string =>
  told.replaceAll(/(\w+) (?:(\d+)\/(\w+)|none)/g, (_, pool: Pool, amount, per: keyof typeof periods) => {
    return `${poolWords[pool].word}: ${per ? `at most ${amount} credits ${periods[per]}` : 'no cap'}`;
  });

type KeyLimits = Pick<ApiKey, 'spend_caps' | 'approve_over'>;

const limitTexts = ({ spend_caps: caps, approve_over: over }: KeyLimits): Fields => ({
  ...Object.fromEntries(pools.map((pool) => [`cap_${pool}`, String(caps[pool]?.amount ?? '')])),
  ...Object.fromEntries(pools.map((pool) => [`cap_${pool}_per`, caps[pool]?.per ?? 'day'])),
  ...Object.fromEntries(Object.entries(over).map(([name, most]) => [`over_${name}`, String(most ?? '')])),
});

/** Returns the controls of the limits of a key. The style sheet hides them from a key that only reads. */
function limitFields(values: Fields, faults: Faults): Html {
  const { input, choice } = controlsFor(values, faults);
  const amount = (name: string, label: string, none: string) =>
    input(name, label, { more: html`inputmode="numeric" autocomplete="off" placeholder="${none}"` });
  const capOfPool = (pool: Pool) =>
    sideBySide(
      amount(`cap_${pool}`, `Credits ${poolWords[pool].purpose}`, 'no cap'),
      choice(`cap_${pool}_per`, `In which time, ${poolWords[pool].purpose}`, periods),
    );
  const caps = 'How many credits this key may spend. Empty: as many as your company has. 0: none.';
  const over =
    'A single call that writes more records or costs more credits waits until an admin approves it. Empty: none waits.';
  const sizes = sideBySide(
    amount('over_records', 'Records', 'no approval'),
    amount('over_credits', 'Credits', 'no approval'),
  );
  return html`<div class="of-limits">
    !${group('Spend caps', html`!${quiet(caps)} !${pools.map(capOfPool)}`)}
    !${group('Approval of large calls', html`!${quiet(over)} !${sizes}`)}
  </div>`;
}

/** Returns an amount in a form: null if it is empty, undefined if it is not an amount. */
function amountIn(fields: Fields, name: string): number | null | undefined {
  const given = text(fields, name).trim();
  if (given === '') return null;
  return /^\d{1,10}$/.test(given) && Number(given) <= maxCap ? Number(given) : undefined;
}

/** Returns the limits in a form, without amounts that are not numbers, which `limitFaults` names. */
function limitsIn(fields: Fields): KeyLimits {
  const amount = (name: string) => amountIn(fields, name) ?? null;
  const caps = pools.map((pool) => {
    const credits = amount(`cap_${pool}`);
    return [pool, credits === null ? null : { amount: credits, per: text(fields, `cap_${pool}_per`) }];
  });
  const approve_over = { credits: amount('over_credits'), records: amount('over_records') };
  return { spend_caps: Object.fromEntries(caps) as SpendCaps, approve_over };
}

/** Returns what is wrong with the limits in a form, by control. */
function limitFaults(fields: Fields, { spend_caps: caps }: KeyLimits, permissions: readonly Scope[]): Fault[] {
  const names = ['over_records', 'over_credits', ...pools.map((pool) => `cap_${pool}`)];
  const wrong = names.filter((name) => amountIn(fields, name) === undefined);
  const needless = pools.filter((pool) => caps[pool]?.amount && !maySpend(pool, permissions));
  const useless = 'the key may not do this, so it needs no cap: empty this field';
  return [
    ...wrong.map((name) => ({ path: `/${name}`, message: `must be a whole number from 0 to ${count(maxCap)}` })),
    ...needless.map((pool) => ({ path: `/cap_${pool}`, message: useless })),
  ];
}

const maySpend = (pool: Pool, permissions: readonly Scope[]): boolean =>
  spendingScopes[pool].some((scope) => permissions.includes(scope));

const spentBy = ({ spent, spend_caps: caps, permissions }: ApiKey): Html => {
  const texts = pools
    .filter((pool) => spent[pool] > 0 || (caps[pool]?.amount !== 0 && maySpend(pool, permissions)))
    .map((pool) => {
      const cap = caps[pool];
      const most = cap === null ? '' : ` of ${count(cap.amount)} ${periods[cap.per]}`;
      return line(`${poolWords[pool].word}: ${count(spent[pool])}${most}`);
    });
  return texts.join('') || '<span class="quiet">may not spend</span>';
};

export async function keys(app: FastifyInstance): Promise<void> {
  const { KEY_PREFIX } = app.config;

  addPage(app, '/keys', forMembers, async (request) => keyList(request, await lookUp(request, listApiKeys)));

  formRoutes(app, '/keys/new', forAdmins, {
    show: showNew,
    act: async (request) => {
      const { preset, ...draft } = draftOf(request);
      const { given } = presets[preset] ?? {};
      const key = { ...draft, ...given };
      requireValid(KeyRequest, key, given?.spend_caps ? [] : limitFaults(fieldsOf(request), key, key.permissions));
      const issued = await once(request, (sql) => issueKey(sql, request.caller, key, KEY_PREFIX, actorOf(request)));
      return showIssued(request, issued);
    },
  });

  question(app, '/keys/:id/rotate', forAdmins, {
    about: requireKey,
    title: 'Rotate the key',
    text: (key) =>
      html`!${named(key)} gets a new value, which lasts as long as the present one did, counted from now. The present
      one stops working at once: each program that uses it is refused until it has the new one. !${lastUse(key)}`,
    tone: '',
    act: async (request, { id }) => {
      const key = { customer_id: request.caller.customerId, id };
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
      requireValid(SpendCapsChange, limits, limitFaults(fieldsOf(request), limits, key.permissions));
      await write(request, setSpendCaps, key.id, limits, actorOf(request));
      return `${section}?done=capped`;
    },
  });

  question(app, '/keys/:id/revoke', forAdmins, {
    about: requireKey,
    title: 'Revoke the key',
    text: (key) =>
      html`!${named(key)} stops working at once and for good: each program that uses it is refused. !${lastUse(key)}`,
    act: async (request, { id }) => {
      await write(request, revokeKey, id, actorOf(request));
      return `${section}?done=revoked`;
    },
  });
}

const requireKey = async (request: FastifyRequest): Promise<ApiKey> =>
  required(await lookUp(request, findApiKey, idOf(request, 'API key')), 'API key');

function draftOf(request: FastifyRequest): KeyDraft {
  const fields = fieldsOf(request);
  return {
    preset: Object.hasOwn(presets, text(fields, 'preset')) ? text(fields, 'preset') : own,
    name: text(fields, 'name'),
    expiration: integer(fields, 'expiration') as KeyDraft['expiration'],
    permissions: values(fields, 'permissions', scopes.length) as Scope[],
    ...limitsIn(fields),
  };
}

const blank = { preset: 'read', expiration: 90 } as const;

const showNew = (request: FastifyRequest, { faults }: Refused): FormPage => ({
  title: 'New API key',
  lead: 'A program needs a key to work with your data. Give each program its own, which may do only what it needs. The key is shown once.',
  body: keyForm({ ...draftOf(request), ...(request.method !== 'POST' && blank) }, fieldsOf(request), faults),
  attributes: 'data-once data-keep',
});

const showIssued = (request: FastifyRequest, issued: Issued | undefined): Page =>
  secretPage(request, issued, ['key', 'rotate it to get a new one, or revoke it.'], ({ name, key, ...one }) => ({
    title: 'Your new key',
    lead: html`This is the key “${name}”. Store it now, where your program reads its secrets: it is not shown again.`,
    label: 'API key',
    value: key,
    advice: html`<p>Send it with each request, after the word <code>X-API-Key</code> and a space:</p>
      <pre
        tabindex="0"
      ><code>curl -H "Authorization: X-API-Key $KEY" ${publicUrl(request.server.config)}/api/ext/customer/summary</code></pre>
      <p class="quiet">It ends on !${date(one.expires_at)}. It may ${permissionsText(one.permissions)}.</p>`,
  }));

const named = ({ name, start }: ApiKey): Html => html`<strong>${name}</strong> (<code>${start}…</code>)`;

const limitsOf = ({ spend_caps, approve_over }: ApiKey): KeyLimits => ({ spend_caps, approve_over });

async function showCaps(request: FastifyRequest, { faults }: Refused): Promise<FormPage> {
  const key = await requireKey(request);
  const limits = request.method === 'POST' ? fieldsOf(request) : limitTexts(key);
  return {
    title: 'Limits of the key',
    body: html`<p>!${named(key)} keeps its value.</p>
      !${versionField(limitsOf(key))} !${limitFields(limits, faults)}
      !${buttons('Change the limits', section, 'Leave them as they are')}`,
  };
}

export const section = '/app/keys';

export const warningDays = 14;

const isActive = ({ status }: ApiKey): boolean => status === 'active';

function keyList(request: FastifyRequest, all: readonly ApiKey[]): Page {
  const add = linkButton('New key', `${section}/new`);
  const [isEnded, mayChange] = [queryText(request, 'ended') !== '', isAdmin(request)];
  const ended = all.filter((key) => !isActive(key));
  const actions: readonly Column<ApiKey>[] = mayChange && !isEnded ? [['Actions', actsOf]] : [];
  const shown = { '': 'Keys that work', 1: `Keys that no longer work: ${count(ended.length)}` };
  const approvals = linkButton('Approvals', '/app/approvals', 'secondary outline');
  return listPage({
    title: 'API keys',
    lead: 'A program needs a key to work with your data. It may do only what you allow when you issue it.',
    done: {
      revoked: 'The key is revoked. It has stopped working.',
      capped: 'The limits are changed. They count from the next call on.',
    },
    actions: when(mayChange, html`!${approvals} !${add}`),
    above: filters(section, filterChoice('ended', 'Show', shown, isEnded ? '1' : '')),
    columns: [...columns, ...actions],
    ...pageOf(request, isEnded ? ended : all.filter(isActive), 50),
    none: [
      'No keys',
      'Issue one for each program, so that you can revoke it alone.',
      'key',
      mayChange ? add : '<p>Ask an admin of your company for one.</p>',
    ],
  });
}

const columns: readonly Column<ApiKey>[] = [
  ['Key', ({ name, start }) => html`<strong>${name}</strong><br /><code>${start}…</code>`],
  ['State', (key) => stateOf(key)],
  ['May do', (key) => permissionsOf(key)],
  ['Last used', ({ last_used_at }) => (last_used_at === null ? 'Never' : date(last_used_at))],
  ['Ends', (key) => date(key.revoked_at ?? key.expires_at)],
  ['Credits spent', spentBy],
];

const actsOf = ({ id, name }: ApiKey): Html =>
  acts(`${section}/${id}`, name, { rotate: 'Rotate', caps: 'Limits', revoke: 'Revoke' });

function stateOf({ status, expires_at }: ApiKey): Html {
  if (status !== 'active') return badge(status, status === 'revoked' ? 'bad' : 'plain');
  const daysLeft = Math.ceil((Date.parse(expires_at) - Date.now()) / dayMs);
  if (daysLeft > warningDays) return badge('active', 'good');
  return badge(daysLeft <= 1 ? 'ends within a day' : `ends in ${daysLeft} days`, 'warning');
}

function permissionsOf({ permissions }: ApiKey): Html {
  const own = new Set(permissions);
  const like = Object.values(presets).find((one) => own.symmetricDifference(new Set(one.given.permissions)).size === 0);
  return folded(like?.label ?? counted(permissions.length, 'permission'), permissionsText(permissions));
}

export const lastUse = ({ last_used_at }: ApiKey): Html =>
  last_used_at === null ? 'It has never been used.' : html`It was last used on !${moment(last_used_at)}.`;
