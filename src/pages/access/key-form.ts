import type { ApproveOver } from '../../schemas/base/approvals.ts';
import { durations, noCaps, type KeyRequest, type SpendCaps } from '../../schemas/api-keys.ts';
import { scopes, usualScopes, type Scope } from '../../schemas/base/scopes.ts';
import { faultText, inputField, tick, type Faults } from '../base/forms.ts';
import { buttons, html, linkButton, type Html } from '../base/html.ts';
import { capFields } from './key-caps.ts';

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

/** Returns checkboxes for the scopes of one resource. */
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
