import type { FastifyInstance, FastifyRequest } from 'fastify';
import { DomainError, validationFailed } from '../errors.ts';
import { findApiKey, listApiKeys } from '../queries/accounts/api-keys.ts';
import { listApprovals, requireApproval, requirePending } from '../queries/accounts/approvals.ts';
import { decideCall } from '../plugins/approvals.ts';
import { approvalHours } from '../schemas/accounts.ts';
import type { Approval, ListedApproval, AuditEvent, AuditEventName } from '../schemas/accounts.ts';
import { forAdmins, addPage, addAction, type Page } from './base/layout.ts';
import { form, pageOf, numberedPager, doneNotice, hidden } from './base/forms.ts';
import { lookUp, search, idOf, sentText, pageNumberOf } from './base/requests.ts';
import { notSent, refusalOf } from './base/refusals.ts';
import { when, badge, notice, empty, table, facts, quiet, html } from './base/html.ts';
import type { Html, Tone, Column } from './base/html.ts';
import { moment, count, counted, someNames } from './base/values.ts';
import { prospectWords } from './base/words.ts';
import { section as keySection } from './keys.ts';
import { listEvents } from '../queries/accounts/customers.ts';
import { listUsers } from '../queries/accounts/users.ts';
import type { FindRecords } from '../queries/records/finders.ts';
import { findContacts } from '../queries/crm/contacts.ts';
import { findCompanies } from '../queries/crm/companies.ts';
import { findProducts } from '../queries/crm/products.ts';
import { findOpportunities } from '../queries/crm/opportunities.ts';
import { findActivities } from '../queries/crm/activities.ts';
import { allImports, requireImport } from '../queries/jobs/imports.ts';
import { findChosenIfUp } from '../jobs/unlocks.ts';
import type { EventNoun } from '../schemas/events.ts';
import { canonicalId } from '../text/ids.ts';
import { nameOf as nameOfRecord } from './changes.ts';
import { titleOf } from './import-upload.ts';

const section = '/app/approvals';
const pageRows = 100;

const notices: Record<string, string> = {
  approved: 'The call has run.',
  refused: 'The call is refused. It will never run.',
};

const states: Record<Approval['status'], readonly [word: string, tone: Tone]> = {
  pending: ['waits', 'busy'],
  approved: ['approved', 'good'],
  refused: ['refused', 'bad'],
  lapsed: ['too late', 'plain'],
};

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

const nameOf = ({ url }: Pick<ListedApproval, 'url'>): string =>
  kinds.find(([pattern]) => pattern.test(new URL(url, 'http://localhost').pathname))?.[1] ?? url;

const badgeOf = ({ status }: ListedApproval): Html => badge(...states[status]);

export async function approvals(app: FastifyInstance): Promise<void> {
  addPage(app, '/approvals', forAdmins, async (request) => {
    const rows = await lookUp(request, listApprovals);
    const { shown, links } = pageOf(request, section, { rows, size: pageRows });
    const none = 'Give a key limits for single calls. What exceeds them waits here until you approve it.';
    return {
      title: 'Approvals',
      section: keySection,
      body: html`!${doneNotice(request, notices)}
      !${table('Approvals', columns, shown, empty('Nothing to approve', none, 'key'))} !${links}`,
    };
  });

  addPage(app, '/approvals/:id', forAdmins, (request) => pageOfOne(request));

  addAction(app, '/approvals/:id', forAdmins, async (request) => {
    const answer = sentText(request, 'approve');
    const isApproved = answer === 'true';
    try {
      if (!isApproved && answer !== 'false')
        throw validationFailed([{ path: '/approve', message: 'say whether the call may run' }]);
      await decideCall(request, idOf(request, 'approval'), isApproved);
    } catch (error) {
      if (error instanceof DomainError && error.code === 'not_found') throw error;
      return pageOfOne(request, refusalOf(error));
    }
    return `${section}?done=${isApproved ? 'approved' : 'refused'}`;
  });
}

const columns: readonly Column<ListedApproval>[] = [
  ['What', (one) => html`<a href="${section}/${one.id}">${nameOf(one)}</a>`],
  ['Records', (one) => count(one.records), 'number'],
  ['Credits', (one) => count(one.credits), 'number'],
  ['Sent', (one) => moment(one.created_at)],
  ['State', badgeOf],
];

async function pageOfOne(request: FastifyRequest, { faults, status } = notSent): Promise<Page> {
  const one = await lookUp(request, requireApproval, idOf(request, 'approval'));
  const key = await lookUp(request, findApiKey, one.api_key_id);
  const body = html`!${Object.values(faults).map((fault) => notice(fault, 'bad'))}
    <div class="card">
      !${facts([
        ['Key', html`${key?.name ?? 'unknown'}`],
        ['State', badgeOf(one)],
        ['Writes', counted(one.records, 'record')],
        ['Costs at most', counted(one.credits, 'credit')],
        ['Sent', moment(one.created_at)],
        ...(await contentOr(request, one)),
        ['Decided', one.decided_at ? html`!${moment(one.decided_at)} by ${one.decided_by ?? ''}` : undefined],
      ])}
    </div>
    !${when(
      one.status === 'pending',
      html`!${quiet(`Approved, it runs now, once. Else it lapses ${approvalHours} hours after it was sent.`)}
        <div class="buttons">!${decision(one, true)} !${decision(one, false)}</div>`,
    )}`;
  return { title: nameOf(one), section: keySection, status, body };
}

const finders: Readonly<Record<string, readonly [EventNoun, FindRecords<object>]>> = {
  contacts: ['contact', findContacts],
  company: ['company', findCompanies],
  products: ['product', findProducts],
  opportunities: ['opportunity', findOpportunities],
  activities: ['activity', findActivities],
};

/**
 * Body of a call that waits for approval. It fits the schema of its route, but the items of a batch are not checked
 * yet.
 */
interface SentBody {
  id?: string;
  merge_ids?: string[];
  ids?: string[];
  contact_ids?: string[];
  purge?: boolean;
  overwrite?: boolean;
  match?: string;
  items?: unknown[];
  emails?: { email: string }[];
  filters?: Record<string, unknown>;
}

/** Returns what a waiting call would change, or its URL if that is not known. The content of other calls is not kept. */
async function contentOr(request: FastifyRequest, one: Approval): Promise<(readonly [string, Html])[]> {
  if (one.status !== 'pending') return [];
  const content = await contentOf(request, one).catch(notThere);
  return content.length > 0 ? content : [['Call', html`<code>POST ${one.url}</code>`]];
}

/** Returns an empty list if records of a call are gone or the call was decided meanwhile. Throws other errors. */
function notThere(error: unknown): [] {
  if (error instanceof DomainError) return [];
  throw error;
}

async function contentOf(request: FastifyRequest, { id, url }: Approval): Promise<(readonly [string, Html])[]> {
  const { body } = await lookUp(request, requirePending, id);
  const sent = (body.length === 0 ? {} : JSON.parse(body.toString())) as SentBody;
  const { pathname } = new URL(url, 'http://localhost');
  const [of = '', target] = [pathname.split('/')[3], /[0-9a-f-]{36}/.exec(pathname)?.[0]];
  const [noun, find] = finders[of] ?? (['contact', findContacts] as const);
  const namesOf = async (given: readonly unknown[]): Promise<(id: unknown) => string | undefined> => {
    const idIn = (id: unknown): string => canonicalId(typeof id === 'string' ? id : '') ?? '';
    const ids = given.slice(0, namesShown).map(idIn).filter(Boolean);
    const rows = (await lookUp(request, find, ids)) as { id: string }[];
    const names = new Map(rows.map((row) => [row.id, nameOfRecord(noun, row)]));
    return (id) => names.get(idIn(id));
  };
  if (of === 'imports' && target) {
    const found = await lookUp(request, requireImport, target, allImports);
    return [['File', html`<a href="/app/imports/${target}">${titleOf(found)}</a>`]];
  }
  if (of === 'changes' && target) return [['Takes back', html`<a href="/app/changes/${target}">this change</a>`]];
  if (of === 'list-contact' && target) return [['List', html`<a href="/app/lists/${target}">this list</a>`]];
  const gone = 'deleted meanwhile';
  const replaced = sent.overwrite ? [['Replaces', html`values that are there, too`] as const] : [];
  if (sent.merge_ids) {
    const nameOfId = await namesOf([sent.id, ...sent.merge_ids]);
    return [
      ['Stays', html`${nameOfId(sent.id) ?? gone}`],
      ['Become part of it', namesOfAll(sent.merge_ids, (one) => nameOfId(one) ?? gone)],
    ];
  }
  if (sent.contact_ids) {
    const nameOfId = await namesOf(sent.contact_ids);
    return [['Contacts', namesOfAll(sent.contact_ids, (one) => nameOfId(one) ?? gone)], ...replaced];
  }
  if (sent.items) {
    const { match = 'id' } = sent;
    const valueIn = (item: unknown): unknown => (item as Record<string, unknown> | null)?.[match];
    const nameOfId = await namesOf(match === 'id' ? sent.items.map(valueIn) : []);
    const nameOfItem = (item: unknown): string => {
      if (item === null || typeof item !== 'object') return 'not a record';
      const texts = Object.entries(item).filter(([, value]) => typeof value === 'string');
      if (pathname.endsWith('/create')) return nameOfRecord(noun, Object.fromEntries(texts));
      // Not by the names that were sent: those are the ones that it would have afterwards.
      const value = valueIn(item);
      if (match === 'id' && typeof value === 'string') return nameOfId(value) ?? gone;
      return `${match.replaceAll('_', ' ')} ${JSON.stringify(value) ?? 'missing'}`;
    };
    return [
      ['Records', namesOfAll(sent.items, nameOfItem)],
      ...(sent.purge ? [['For good', html`their values leave the history: nobody can take this back`] as const] : []),
    ];
  }
  if (sent.emails) return [['Addresses', namesOfAll(sent.emails, ({ email }) => email)]];
  if (of === 'service-handler' && sent.ids) {
    const people = await findChosenIfUp(request.catalog, sent.ids.slice(0, namesShown));
    const names = people.map((one) => nameOfRecord('contact', one));
    return [['Prospects', someNames(names, namesShown, sent.ids.length)]];
  }
  if (!sent.filters) return replaced;
  const filters = Object.entries(sent.filters).map(([name, value]): readonly [string, Html] => [
    Object.hasOwn(prospectWords, name) ? prospectWords[name as keyof typeof prospectWords] : name.replaceAll('_', ' '),
    html`${[value].flat().map(clausesIn).join(', ')}`,
  ]);
  return [...(filters.length === 0 ? [['Filters', html`none: everybody`] as const] : filters), ...replaced];
}

const clausesIn = (part: unknown): string => (typeof part === 'string' ? part : JSON.stringify(part));

const namesShown = 20;
const lettersShown = 100;

const namesOfAll = <T>(all: readonly T[], nameOfOne: (one: T) => string): Html => {
  const names = all.slice(0, namesShown).map((one) => nameOfOne(one).slice(0, lettersShown));
  return someNames(names, namesShown, all.length);
};

const decision = ({ id }: Approval, isApproved: boolean): Html =>
  form(
    `${section}/${id}`,
    html`!${hidden({ approve: String(isApproved) })}
      <button class="${isApproved ? '' : 'danger outline'}">${isApproved ? 'Approve and run' : 'Refuse'}</button>`,
  );

const auditSection = '/app/audit';
const pageEvents = 100;
const maxPages = 10;

export async function audit(app: FastifyInstance): Promise<void> {
  addPage(app, '/audit', forAdmins, async (request) => {
    const page = Math.min(pageNumberOf(request), maxPages);
    const [newest, users, keys] = await Promise.all([
      search(request, listEvents, page * pageEvents),
      lookUp(request, listUsers),
      lookUp(request, listApiKeys),
    ]);
    const names = new Map(keys.map(({ id, name }) => [`key ${id}`, `key ${name}`]));
    const events = newest.slice((page - 1) * pageEvents);
    const isMore = events.length === pageEvents && page < maxPages;
    const columns: readonly Column<AuditEvent>[] = [
      ['When', (one) => moment(one.created_at)],
      ['What', (one) => labels[one.event]],
      ['Whom', (one) => html`${users.find(({ id }) => id === one.user_id)?.email ?? '–'}`],
      ['By', (one) => html`${names.get(one.actor) ?? one.actor}`],
      ['From', (one) => html`${one.address ?? '–'}`],
      ['Details', (one) => detailsOf(one.details)],
    ];
    const none = empty('Nothing yet', 'Logins and changes of keys and users are listed here.', 'clock');
    return {
      title: 'Audit log',
      body: html`<p class="lead">Who did what with keys, users and webhooks, from which address. Newest first.</p>
        !${table('Audit log', columns, events, none)} !${numberedPager(page, isMore, auditSection)}`,
    };
  });
}

const labels: Record<AuditEventName, string> = {
  'api_key.generated': 'Key issued',
  'api_key.rotated': 'Key rotated',
  'api_key.revoked': 'Key revoked',
  'api_key.spend_caps_changed': 'Limits of a key changed',
  'approval.approved': 'Call of a key approved',
  'approval.refused': 'Call of a key refused',
  'user.created': 'User created',
  'user.deactivated': 'User deactivated',
  'user.role_changed': 'Role changed',
  'user.link_issued': 'Link for a password issued',
  'user.logged_in': 'Logged in',
  'user.login_failed': 'Login failed',
  'user.logged_out': 'Logged out',
  'user.password_changed': 'Password changed',
  'user.password_change_failed': 'Password not changed',
  'user.password_reset': 'Password reset',
  'user.password_set': 'Password set by a link',
  'customer.created': 'Customer created',
  'customer.suspended': 'Customer suspended',
  'customer.resumed': 'Customer resumed',
  'webhook.created': 'Webhook created',
  'webhook.changed': 'Webhook changed',
  'webhook.rotated': 'Webhook secret rotated',
  'webhook.deleted': 'Webhook deleted',
  'webhook.disabled': 'Webhook disabled',
  'field.declared': 'Field declared',
  'field.removed': 'Declaration of a field removed',
};

/** Returns the details of an event in words, without ids. */
function detailsOf({ approval, webhook: _id, url, ...details }: AuditEvent['details']): Html {
  const call = approval && html`<a href="${section}/${approval}">${nameOf({ url: url ?? '' })}</a>`;
  const texts = Object.entries(details).map(([name, value]) => html`${`${name.replaceAll('_', ' ')}: ${value}`}`);
  return [...(call ? [call] : []), ...texts].join('; ');
}
