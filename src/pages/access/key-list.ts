import { keyLimits, type ApiKey } from '../../schemas/api-keys.ts';
import { isUsual, scopes, usualScopes } from '../../schemas/base/scopes.ts';
import type { FastifyRequest } from 'fastify';
import { sessionOf } from '../../plugins/credentials/auth.ts';
import { doneNotice, pageOf } from '../base/forms.ts';
import { badge, counted, date, empty, facts, html, linkButton, moment, type Html } from '../base/html.ts';
import type { Page } from '../base/layout.ts';
import { spentBy } from './key-caps.ts';

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
  const body = html`!${doneNotice(request, doneTexts)}
  !${
    rows.length === 0
      ? empty(
          'No keys yet',
          'A program needs a key to call the API. Issue one for each program, so that you can revoke it alone.',
          isAdmin ? add : html`<p>Ask an admin of your company for one.</p>`,
          'key',
        )
      : html`<ul class="keys">
          !${active.map((key) => card(key, isAdmin))}
        </ul>`
  }
  !${rows.length > 0 && working.length === 0 ? html`<p>No key works at present.</p>` : ''}
  !${
    others.length > 0
      ? html`<details !${active.length === 0 ? 'open' : ''}>
          <summary>
            ${ended < keyLimits.endedShown ? '' : 'The last '}!${counted(ended, 'key')} that no longer
            work${ended === 1 ? 's' : ''}
          </summary>
          <ul class="keys">
            !${others.map((key) => card(key, false))}
          </ul>
        </details>`
      : ''
  }
  !${links}`;
  const approvals = linkButton('Approvals', '/app/approvals', 'secondary outline');
  return { title: 'API keys', section, body, actions: isAdmin && rows.length > 0 ? html`!${approvals} !${add}` : '' };
}

function card(key: ApiKey, isChangeable: boolean): Html {
  const { id, name, start, last_used_at, created_at } = key;
  const act = (verb: string, label: string, spoken: string, style = 'secondary') =>
    linkButton(label, `${section}/${id}/${verb}`, `${style} outline`, html`data-dialog aria-label="${spoken} ${name}"`);
  return html`<li class="card">
    <div class="heading">
      <h2>${name}</h2>
      !${stateOf(key)}
    </div>
    !${facts([
      ['Key', html`<code>${start}…</code>`],
      ['Scopes', scopesOf(key)],
      ['Last used', moment(last_used_at, 'Never')],
      [key.status === 'revoked' ? 'Revoked' : key.status === 'expired' ? 'Expired' : 'Expires', endOf(key)],
      ['Issued', date(created_at)],
      ['Credits spent', spentBy(key)],
    ])}
    !${
      isChangeable
        ? html`<div class="buttons small">
            !${act('rotate', 'Rotate', 'Rotate')} !${act('caps', 'Limits', 'Limits of')}
            !${act('revoke', 'Revoke', 'Revoke', 'danger')}
          </div>`
        : ''
    }
  </li>`;
}

const endOf = ({ revoked_at, expires_at }: ApiKey): Html => date(revoked_at ?? expires_at);

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
