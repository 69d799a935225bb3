import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { DomainError, validationFailed } from '../../errors.ts';
import { findApiKey } from '../../queries/accounts/api-keys.ts';
import { listApprovals, requireApproval } from '../../queries/accounts/approvals.ts';
import { decideCall } from '../../plugins/approvals.ts';
import { approvalHours, type Approval, type ListedApproval } from '../../schemas/base/approvals.ts';
import { forAdmins, form, goTo, sendPage } from '../base/layout.ts';
import { doneNotice, fieldsOf, idOf, pageOf, refusalOf, text, type Refused } from '../base/forms.ts';
import {
  badge,
  count,
  counted,
  empty,
  facts,
  html,
  moment,
  notice,
  table,
  type Html,
  type Tone,
} from '../base/html.ts';
import { section as keySection } from './keys.ts';

const section = '/app/approvals';
const pageRows = 100;

const notices: Record<string, string> = {
  approved: 'The call has run.',
  refused: 'The call is refused. It will never run.',
};

const tones: Record<Approval['status'], Tone> = { pending: 'busy', approved: 'good', refused: 'bad', lapsed: 'plain' };
const words: Record<Approval['status'], string> = {
  pending: 'waits',
  approved: 'approved',
  refused: 'refused',
  lapsed: 'too late',
};

/** What a call is, by the end of its path. */
const kinds: readonly (readonly [RegExp, string])[] = [
  [/\/batch\/create$/, 'Create records'],
  [/\/batch\/update$/, 'Change records'],
  [/\/batch\/upsert$/, 'Create or change records'],
  [/\/batch\/delete$/, 'Delete records'],
  [/\/merge$/, 'Merge records'],
  [/\/undo$/, 'Undo a change'],
  [/\/unlock-/, 'Unlock prospects'],
  [/\/enrich-contacts$/, 'Enrich contacts'],
  [/\/verify-/, 'Verify e-mail addresses'],
  [/\/imports\//, 'Import a file'],
];

const nameOf = ({ url }: ListedApproval): string =>
  kinds.find(([pattern]) => pattern.test(new URL(url, 'http://localhost').pathname))?.[1] ?? url;

const badgeOf = ({ status }: ListedApproval): Html => badge(words[status], tones[status]);

export async function approvals(app: FastifyInstance): Promise<void> {
  app.get('/approvals', forAdmins, async (request, reply) => {
    const rows = await request.db.lookup((sql) => listApprovals(sql, request.caller.customerId));
    const { shown, links } = pageOf(request, section, { rows, size: pageRows });
    return sendPage(request, reply, {
      title: 'Approvals',
      section: keySection,
      body: html`!${doneNotice(request, notices)}
      !${table(
        'Approvals',
        [
          ['What', (one) => html`<a href="${section}/${one.id}">${nameOf(one)}</a>`],
          ['Records', (one) => count(one.records), 'number'],
          ['Credits', (one) => count(one.credits), 'number'],
          ['Sent', (one) => moment(one.created_at)],
          ['State', badgeOf],
        ],
        shown,
        empty(
          'Nothing to approve',
          'Give a key limits for single calls. What exceeds them waits here until you approve it.',
          '',
          'key',
        ),
      )}
      !${links}`,
    });
  });

  app.get('/approvals/:id', forAdmins, async (request, reply) =>
    sendPage(request, reply, await pageOfOne(request, reply)),
  );

  app.post('/approvals/:id', forAdmins, async (request, reply) => {
    const answer = text(fieldsOf(request), 'approve');
    const isApproved = answer === 'true';
    try {
      if (!isApproved && answer !== 'false')
        throw validationFailed([{ path: '/approve', message: 'say whether the call may run' }]);
      await decideCall(request, idOf(request, 'approval'), isApproved);
    } catch (error) {
      if (error instanceof DomainError && error.code === 'not_found') throw error;
      const refused = refusalOf(error);
      return sendPage(request, reply.code(refused.status), await pageOfOne(request, reply, refused));
    }
    return goTo(reply, `${section}?done=${isApproved ? 'approved' : 'refused'}`);
  });
}

async function pageOfOne(request: FastifyRequest, reply: FastifyReply, refused?: Refused) {
  const { db, caller } = request;
  const one = await db.lookup((sql) => requireApproval(sql, caller.customerId, idOf(request, 'approval')));
  const key = await db.lookup((sql) => findApiKey(sql, caller.customerId, one.api_key_id));
  const body = html`!${Object.values(refused?.faults ?? {}).map((fault) => notice(fault, 'bad'))}
    <div class="card">
      !${facts([
        ['Key', html`${key?.name ?? 'unknown'}`],
        ['State', badgeOf(one)],
        ['Writes', html`${counted(one.records, 'record')}`],
        ['Costs at most', html`${counted(one.credits, 'credit')}`],
        ['Sent', moment(one.created_at)],
        ['Call', html`<code>POST ${one.url}</code>`],
        ...(one.decided_at
          ? [['Decided', html`!${moment(one.decided_at)} by ${one.decided_by ?? ''}`] as [string, Html]]
          : []),
      ])}
    </div>
    !${
      one.status === 'pending'
        ? html`<p class="quiet">
              Approved, it runs now, once. Else it lapses ${approvalHours} hours after it was sent.
            </p>
            <div class="buttons">!${decision(request, reply, one, true)} !${decision(request, reply, one, false)}</div>`
        : ''
    }`;
  return { title: nameOf(one), section: keySection, body };
}

const decision = (request: FastifyRequest, reply: FastifyReply, { id }: Approval, isApproved: boolean): Html =>
  form(request, reply, {
    action: `${section}/${id}`,
    body: html`<input type="hidden" name="approve" value="${String(isApproved)}" />
      <button class="${isApproved ? '' : 'danger outline'}">${isApproved ? 'Approve and run' : 'Refuse'}</button>`,
  });
