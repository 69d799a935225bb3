import type { ApproveOver } from '../../schemas/base/approvals.ts';
import { capPeriods, type ApiKey, type SpendCaps } from '../../schemas/api-keys.ts';
import { pools, type Pool } from '../../schemas/credits.ts';
import { faultText, integer, select, text, type Faults, type Fields } from '../base/forms.ts';
import { count, html, type Html } from '../base/html.ts';

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
