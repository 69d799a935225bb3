import type { FastifyInstance, FastifyRequest } from 'fastify';
import { findApiKey, listApiKeys } from '../queries/accounts/api-keys.ts';
import { listApprovals, requireApproval, requirePending } from '../queries/accounts/approvals.ts';
import { decideCall } from '../plugins/approvals.ts';
import { approvalHours, type Approval, type ListedApproval, type AuditEvent, type Role } from '../schemas/accounts.ts';
import type { BatchBody } from '../schemas/batches.ts';
import type { EnrichContacts, Merge } from '../schemas/clean-data.ts';
import type { UnlockSelectedContacts, VerifyEmail } from '../schemas/jobs.ts';
import type { DeclaredType } from '../schemas/wire.ts';
import { forAdmins, addPage, formRoutes, listPage, type FormPage } from './base/layout.ts';
import { filterChoice, filters, pageOf } from './base/forms.ts';
import { lookUp, search, idOf, sentText, queryText, ask, passing, invalid } from './base/requests.ts';
import { when, badge, quiet, html, factCard, line, link, moment, count, counted, someNames } from './base/html.ts';
import { linkButton, type Fact, type Html, type Tone, type Column } from './base/html.ts';
import { plain, roleWords, searchText, typeWords } from './base/words.ts';
import { capsText, section as keySection } from './keys.ts';
import { pathOf, reasons } from './webhooks.ts';
import { listEvents } from '../queries/accounts/customers.ts';
import { listUsers } from '../queries/accounts/users.ts';
import { listEndpoints } from '../queries/accounts/webhook-endpoints.ts';
import { findRecords } from '../queries/history/history.ts';
import { findChosenIfUp } from '../jobs/unlocks.ts';
import { canonicalId } from '../text/ids.ts';
import { nameOf as nameOfRecord, nounOf, plurals } from './changes.ts';

const section = '/app/approvals';

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

/** Returns what a call does, such as “Create contacts”. */
function nameOf({ url }: Pick<ListedApproval, 'url'>): string {
  const { pathname } = new URL(url, 'http://localhost');
  const noun = nounOf(pathname.split('/')[3]);
  const name = kinds.find(([pattern]) => pattern.test(pathname))?.[1] ?? url;
  return noun ? name.replace('records', plurals[noun]) : name;
}

const badgeOf = ({ status }: ListedApproval): Html => badge(...states[status]);

export async function approvals(app: FastifyInstance): Promise<void> {
  addPage(app, '/approvals', forAdmins, async (request) => {
    const rows = await lookUp(request, listApprovals);
    const keys = new Map((await lookUp(request, listApiKeys)).map(({ id, name }) => [id, name]));
    const none = 'Give a key limits for single calls. What exceeds them waits here until you approve it.';
    return listPage({
      title: 'Approvals',
      section: keySection,
      done: { approved: 'The call has run.', refused: 'The call is refused. It will never run.' },
      columns: columns.toSpliced(1, 0, ['Key', ({ api_key_id }) => html`${keys.get(api_key_id) ?? ''}`]),
      none: ['Nothing to approve', none, 'key'],
      ...pageOf(request, rows, 100),
    });
  });

  formRoutes(app, '/approvals/:id', forAdmins, {
    show: showOne,
    act: async (request) => {
      const given = sentText(request, 'approve');
      const done = given === 'true' ? 'approved' : given === 'false' && 'refused';
      if (!done) throw invalid('say whether the call may run');
      await decideCall(request, idOf(request, 'approval'), done === 'approved');
      return `${section}?done=${done}`;
    },
  });

  audit(app);
}

const columns: readonly Column<ListedApproval>[] = [
  ['What', (one) => link(nameOf(one), `${section}/${one.id}`)],
  ['Records', (one) => count(one.records), 'number'],
  ['Credits', (one) => count(one.credits), 'number'],
  ['Sent', (one) => moment(one.created_at)],
  ['State', badgeOf],
];

async function showOne(request: FastifyRequest): Promise<FormPage> {
  const one = await lookUp(request, requireApproval, idOf(request, 'approval'));
  const key = await lookUp(request, findApiKey, one.api_key_id);
  const decision = html`!${quiet(`Approved, it runs now, once. Else it lapses ${approvalHours} hours after it was sent.`)}
    <div class="buttons">
      <button name="approve" value="true">Approve and run</button>
      <button name="approve" value="false" class="danger outline">Refuse</button>
    </div>`;
  return {
    title: nameOf(one),
    section: keySection,
    body: html`!${factCard([
      ['Key', html`${key?.name ?? 'unknown'}`],
      ['State', badgeOf(one)],
      ['Writes', counted(one.records, 'record')],
      ['Costs at most', counted(one.credits, 'credit')],
      ['Sent', moment(one.created_at)],
      // It can have been decided meanwhile.
      ...(one.status === 'pending' ? await contentOf(request, one).catch(passing('conflict', [])) : []),
      ['Decided', one.decided_at ? html`!${moment(one.decided_at)} by ${one.decided_by ?? ''}` : undefined],
    ])}
    !${when(one.status === 'pending', decision)}`,
  };
}

/**
 * Body of a call that waits for approval. It fits the schema of its route, but the items of a batch are not checked
 * yet.
 */
type SentBody = Partial<Merge & BatchBody & UnlockSelectedContacts & EnrichContacts & VerifyEmail>;

/** The record that a call changes: its name in words and the path of its pages, by the part of the URL before its id. */
const targets: Readonly<Record<string, readonly [name: string, section: string]>> = {
  imports: ['File', 'imports'],
  changes: ['Takes back', 'changes'],
  'list-contact': ['List', 'lists'],
};

async function contentOf(request: FastifyRequest, { id, url }: Approval): Promise<Fact[]> {
  const { body } = await lookUp(request, requirePending, id);
  const sent = (body.length === 0 ? {} : JSON.parse(body.toString())) as SentBody;
  const { pathname } = new URL(url, 'http://localhost');
  const [of = '', target] = [pathname.split('/')[3], /[0-9a-f-]{36}/.exec(pathname)?.[0]];
  const about = target && targets[of];
  if (about) return [[about[0], html`<a href="/app/${about[1]}/${target}">Open</a>`]];
  const noun = nounOf(of) ?? 'contact';
  const { match = 'id', items, merge_ids, contact_ids, ids, emails, filters } = sent;
  const valueIn = (item: unknown): unknown => (item as Record<string, unknown> | null)?.[match];
  const idIn = (given: unknown): string => canonicalId(typeof given === 'string' ? given : '') ?? '';
  const ofItems = match === 'id' ? items?.map(valueIn) : [];
  const wanted = [sent.id, ...(merge_ids ?? contact_ids ?? ofItems ?? [])].slice(0, namesShown + 1);
  const rows = await ask(request, findRecords, noun, wanted.map(idIn).filter(Boolean));
  const names = new Map(rows.map((row) => [row.id, nameOfRecord(noun, row)]));
  const nameOfId = (given: unknown): string => names.get(idIn(given)) ?? 'deleted meanwhile';
  const nameOfItem = (item: unknown): string => {
    if (item === null || typeof item !== 'object') return 'not a record';
    const texts = Object.entries(item).filter(([, value]) => typeof value === 'string');
    if (pathname.endsWith('/create')) return nameOfRecord(noun, Object.fromEntries(texts));
    // Not by the names that were sent: those are the ones that it would have afterwards.
    const value = valueIn(item);
    if (match === 'id' && typeof value === 'string') return nameOfId(value);
    return `${match.replaceAll('_', ' ')} ${JSON.stringify(value) ?? 'missing'}`;
  };
  const people = of === 'service-handler' && ids ? await findChosenIfUp(request.catalog, ids.slice(0, namesShown)) : [];
  const prospects = people.map((one) => nameOfRecord('contact', one));
  const all: Fact[] = [
    ['Stays', merge_ids && html`${nameOfId(sent.id)}`],
    ['Become part of it', namesOfAll(merge_ids, nameOfId)],
    ['Contacts', namesOfAll(contact_ids, nameOfId)],
    ['Records', namesOfAll(items, nameOfItem)],
    ['Addresses', namesOfAll(emails, ({ email }) => email)],
    ['Prospects', of === 'service-handler' && ids && someNames(prospects, namesShown, ids.length)],
    ['Who', html`${searchText(filters)}`],
    ['Replaces', sent.overwrite && html`values that are there, too`],
    ['For good', sent.purge && html`their values leave the history: nobody can take this back`],
  ];
  const known = all.filter(([, value]) => value);
  return known.length > 0 ? known : [['Call', html`<code>POST ${url}</code>`]];
}

const namesShown = 20;
const lettersShown = 100;

function namesOfAll<T>(all: readonly T[] = [], nameOfOne: (one: T) => string): Html {
  const names = all.map((one) => nameOfOne(one).slice(0, lettersShown));
  return someNames(names, namesShown);
}

const maxEvents = 1_000;

function audit(app: FastifyInstance): void {
  addPage(app, '/audit', forAdmins, async (request) => {
    const [users, keys] = await Promise.all([lookUp(request, listUsers), lookUp(request, listApiKeys)]);
    const [all, hooks] = await Promise.all([search(request, listEvents, maxEvents), lookUp(request, listEndpoints)]);
    const links = new Map([
      ...users.map(({ id, email }) => [id, link(email, '/app/users')] as const),
      ...keys.map(({ id, name }) => [id, link(`API key ${name}`, keySection)] as const),
      ...hooks.map((one) => [one.id, link(new URL(one.url).host, pathOf(one))] as const),
    ]);
    const names = new Map([...actors, ...keys.map(({ id, name }) => [`key ${id}`, `API key ${name}`] as const)]);
    const by = ({ actor }: AuditEvent): string => names.get(actor) ?? actor;
    const about = ({ user_id, api_key_id, details: { webhook, host, key, name } }: AuditEvent): Html =>
      (api_key_id && name && link(`API key ${name}`, keySection)) ??
      links.get(user_id ?? api_key_id ?? webhook ?? '') ??
      (key ? link(key, '/app/fields') : html`${host ?? name ?? (api_key_id ? 'an earlier key' : 'your company')}`);
    const choice = (name: string, label: string, textOf: (one: AuditEvent) => string): Html => {
      const pairs = ['', ...new Set(all.map(textOf))].toSorted().map((one) => [one, one || 'any'] as const);
      return filterChoice(name, label, pairs, queryText(request, name));
    };
    const isAsked = (name: string, text: string): boolean => ['', text].includes(queryText(request, name));
    const events = all.filter((one) => isAsked('what', eventWord(one)) && isAsked('by', by(one)));
    return listPage({
      title: 'Audit log',
      lead: `Logins, approvals, and changes of API keys, users, webhooks and fields. They are kept for good; the newest ${count(maxEvents)} are here.`,
      above: filters('/app/audit', html`!${choice('what', 'What', eventWord)} !${choice('by', 'By', by)}`),
      columns: [
        ['When', (one) => moment(one.created_at)],
        ['What', (one) => line(eventWord(one))],
        ['About', about],
        ['By', (one) => html`${by(one)}`],
        ['Address', (one) => html`${one.address ?? '–'}`],
        ['Details', detailsOf, 'long'],
      ],
      none: ['Nothing found', 'No event matches these filters.', 'search', linkButton('Show all', '/app/audit')],
      ...pageOf(request, events, 100),
    });
  });
}

const actors = Object.entries({
  anonymous: 'somebody unknown',
  'command line': 'the operator',
  service: 'the service',
});

const eventWord = ({ event }: AuditEvent): string =>
  plain(event.replace('spend_caps', 'limits').replace('declared', 'set').replace('field.', 'type_of_a_field_'))
    .replace('Api', 'API')
    .replace('link issued', 'password link made');

/** Returns the details of an event in words, without ids. */
function detailsOf({ details: told }: AuditEvent): Html {
  const { approval, url = '', role, object, type, start, spend_caps: caps, reason, attempts } = told;
  const over = [...(told['approve_over'] ?? '').matchAll(/(\w+) (\d+)/g)].map(([, noun, most]) => `${most} ${noun}`);
  const parts = [
    approval && link(nameOf({ url }), `${section}/${approval}`),
    role && roleWords[role as Role].word,
    object && html`of ${object}${when(type, `: ${typeWords[type as DeclaredType]}`)}`,
    start && html`begins with <code>${start}</code>`,
    caps && html`${capsText(caps)}`,
    when(over.length > 0, `approval above ${over.join(' or ')}`),
    reason && html`${((reasons as Readonly<Record<string, string>>)[reason] ?? plain(reason)).split(',')[0]}`,
    attempts && html`${counted(Number(attempts), 'attempt')} since !${moment(told['first_at']!)}`,
  ];
  return parts.filter(Boolean).join(' · ');
}
