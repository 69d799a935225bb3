import type { ApproveOver } from '../../schemas/base/approvals.ts';
import { durations, noCaps, capPeriods, type KeyRequest, type SpendCaps, type ApiKey } from '../../schemas/api-keys.ts';
import { scopes, usualScopes, type Scope } from '../../schemas/base/scopes.ts';
import { faultText, inputField, tick, integer, select, text, type Faults, type Fields } from '../base/forms.ts';
import { buttons, html, linkButton, count, type Html } from '../base/html.ts';
import { pools, type Pool } from '../../schemas/credits.ts';

/** A new API key as submitted, not validated yet. */
export type KeyDraft = Required<KeyRequest> & { spend_caps: SpendCaps; approve_over: ApproveOver };

/** Labels by resource: the part of a scope before the colon. */
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

/** Predefined sets of scopes and spend caps. The first is the default. */
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

export const keyForm = ({ name, expiration, permissions, ...limits }: KeyDraft, faults: Faults): Html =>
  html`<div class="card">
      !${inputField(
        { name: 'name', label: 'Name', hint: 'What the key is for, such as “Nightly import”.', faults },
        name,
        'text',
        'maxlength="120" autocomplete="off" required',
      )}
      <fieldset class="choices">
        <legend>Expires after</legend>
        !${durations.map((days) =>
          tick('radio', ['expiration', String(days)], `${days} days`, days === expiration, 'required'),
        )}
        !${faultText('expiration', faults)}
      </fieldset>
    </div>
    <fieldset class="card" id="permissions">
      <legend>Scopes</legend>
      <p class="presets">
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
      <div class="scopes">!${Object.entries(resources).map((entry) => group(entry, permissions))}</div>
    </fieldset>
    !${capFields(limits, faults)} !${buttons('Issue the key', '/app/keys')}`;

function group([resource, label]: [string, string], chosen: readonly Scope[]): Html {
  const own = scopes.filter((scope) => resourceOf(scope) === resource);
  return html`<fieldset>
    <legend>${label}</legend>
    !${own.map((scope) =>
      tick(
        'checkbox',
        ['permissions', scope],
        actionOf(scope),
        chosen.includes(scope),
        html`aria-label="${label}: ${actionOf(scope)}"`,
      ),
    )}
  </fieldset>`;
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

/** What a key may do at most. */
export interface KeyLimits {
  spend_caps: SpendCaps;
  approve_over: ApproveOver;
}

/**
 * Returns the fields for the limits of a key: for each pool an amount, empty for no cap, and a time; and what one call may
 * do without an approval.
 */
export const capFields = ({ spend_caps: caps, approve_over: over }: KeyLimits, faults: Faults): Html =>
  html`<fieldset class="card" id="spend_caps">
      <legend>Spend caps</legend>
      <p class="quiet">
        Credits that jobs of this key may cost. Empty: no cap of its own. 0: the key cannot spend. The customer's
        credits are a limit for all keys together.
      </p>
      !${faultText('spend_caps', faults)}
      <div class="scopes">!${pools.map((pool) => capField(pool, caps[pool]))}</div>
    </fieldset>
    <fieldset class="card" id="approve_over">
      <legend>Approval of large calls</legend>
      <p class="quiet">
        A single call that writes more records or costs more credits waits until an admin approves it. Empty: none
        waits.
      </p>
      !${faultText('approve_over', faults)}
      <div class="scopes">!${overField('records', 'Records', over)} !${overField('credits', 'Credits', over)}</div>
    </fieldset>`;

const overField = (name: keyof ApproveOver, label: string, over: ApproveOver): Html =>
  html`<fieldset>
    <legend>${label}</legend>
    <input
      type="text"
      name="over_${name}"
      value="${over[name] ?? ''}"
      inputmode="numeric"
      autocomplete="off"
      placeholder="no approval"
      aria-label="${label} of a call above which it needs an approval"
    />
  </fieldset>`;

const capField = (pool: Pool, cap: SpendCaps[Pool]): Html =>
  html`<fieldset>
    <legend>${poolLabels[pool]}</legend>
    <input
      type="text"
      name="cap_${pool}"
      value="${cap === null ? '' : `${cap.amount}`}"
      inputmode="numeric"
      autocomplete="off"
      placeholder="no cap"
      aria-label="${poolLabels[pool]}: most credits"
    />
    !${select(
      html`name="cap_${pool}_per" aria-label="${poolLabels[pool]}: in which time"`,
      capPeriods.map((period) => [period, periodLabels[period]] as const),
      cap?.per ?? 'day',
    )}
  </fieldset>`;

/** Returns the limits in a submitted form, not validated yet. */
export const limitsIn = (fields: Fields): KeyLimits => ({
  spend_caps: Object.fromEntries(pools.map((pool) => [pool, capOf(fields, pool)])) as SpendCaps,
  approve_over: { credits: overOf(fields, 'over_credits'), records: overOf(fields, 'over_records') },
});

const overOf = (fields: Fields, name: string): number | null =>
  text(fields, name).trim() === '' ? null : integer(fields, name);

const capOf = (fields: Fields, pool: Pool): SpendCaps[Pool] =>
  text(fields, `cap_${pool}`).trim() === ''
    ? null
    : { amount: integer(fields, `cap_${pool}`), per: text(fields, `cap_${pool}_per`) as 'day' };

/** Says what a key has spent, of which cap. */
export const spentBy = ({ spent, spend_caps: caps }: ApiKey): Html =>
  html`!${pools.map((pool, i) => html`${i > 0 ? ' · ' : ''}${poolLabels[pool]}: !${spentIn(spent[pool], caps[pool])}`)}`;

const spentIn = (spent: number, cap: SpendCaps[Pool]): Html =>
  cap === null ? count(spent) : html`!${count(spent)} of !${count(cap.amount)} ${periodLabels[cap.per]}`;
