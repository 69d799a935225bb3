import { createHash } from 'node:crypto';
import type { Static } from '@sinclair/typebox';
import type { InjectOptions } from 'fastify';
import type { InsideAnswer } from '../plugins/requester.ts';
import type { Activity } from '../schemas/activities.ts';
import type { Contact } from '../schemas/contacts.ts';
import type { Company } from '../schemas/companies.ts';
import type { JobItem } from '../schemas/jobs.ts';
import type { List } from '../schemas/lists.ts';
import type { Prospect } from '../schemas/prospects.ts';
import type { ErrorBody, Refusal, ShortageBody } from '../schemas/wire.ts';
import { canonicalId } from '../text/ids.ts';
import { tools, type Arguments, type ToolName } from './tools.ts';

export class AgentError extends Error {}

type Refused = Partial<Static<typeof ErrorBody> & Static<typeof ShortageBody>> & Static<typeof Refusal>;

function errorText({ body, headers }: Pick<InsideAnswer, 'body' | 'headers'>): string {
  const { code = '', message, errors = [], required, available, pool } = body as Refused;
  const faults = errors.slice(0, 10).map((fault) => `${argumentOf(fault.path)}: ${fault.message}`);
  const advice = (advices[code] ?? '').replace('{seconds}', String(headers['retry-after'] ?? 1));
  const numbers = required === undefined ? '' : `Required: ${required}, available: ${available}, pool: ${pool}.`;
  const said = code === 'validation_failed' && errors.length > 0 ? [] : [`${message}.`]; // it repeats the faults
  return [...said, ...faults, numbers, advice].filter((line) => line !== '').join('\n');
}

const argumentOf = (path: string): string => path.replace(/^\/paginate(?=\/)/, '') || 'the arguments';

const advices: Record<string, string> = {
  not_found: 'Search for the record again: it may be deleted, or the id is of another kind of record.',
  insufficient_credits: 'Nothing was spent. Ask for less, or ask a person to add credits.',
  spend_cap_exceeded:
    'Nothing was spent. This is the limit of the key or of max_credits, not of the account: ask for less, or ask a person to raise it.',
  idempotency_mismatch: 'This request_id was used with other arguments. Choose a new one for a new intent.',
  rate_limited: 'Wait {seconds} seconds, then try again.',
  unavailable: 'The service is busy. Wait {seconds} seconds, then try again with the same request_id.',
};

type Row = Record<string, unknown>;

const fullName = ({ first_name, last_name }: { first_name: string; last_name: string }): string =>
  `${first_name} ${last_name}`.trim();

const contactRow = (contact: Contact): Row => ({
  id: contact.id,
  name: fullName(contact),
  work_email: contact.work_email,
  verification_status: contact.verification_status,
  job_title: contact.job_title,
  company: contact.company.company_name,
  country: contact.location_country,
  phone: contact.mobile_phone ?? contact.phone_numbers.map((one) => one.country_code + one.number)[0],
});

const companyRow = (company: Company): Row => ({
  id: company.id,
  name: company.company_name,
  industry: company.industry,
  size: company.size,
  locality: company.location_locality,
  country: company.location_country,
});

const listRow = (list: List): Row => ({
  id: list.id,
  name: list.name,
  contacts_count: list.contacts_count,
  has_rules: list.rules.length > 0,
});

const taskRow = (task: Activity): Row => ({
  id: task.id,
  title: task.title,
  body: task.body,
  due_at: task.due_at,
  contact_id: task.contact_id,
  company_id: task.company_id,
  opportunity_id: task.opportunity_id,
  assigned_to: task.assigned_to,
});

const prospectRow = (prospect: Prospect): Row => ({
  id: prospect._id,
  name: fullName(prospect),
  job_title: prospect.job_title,
  company: prospect.job_company_name,
  locality: prospect.location_locality,
  country: prospect.location_country,
  work_email: prospect.work_email,
  mobile_phone: prospect.mobile_phone,
  score: prospect.score,
});

const itemRow = ({ item, contact_id, status, reason, charged, result }: JobItem): Row => ({
  item,
  contact_id,
  status,
  reason,
  charged,
  ...resultRow(result),
});

function resultRow(result: JobItem['result']): Row {
  if (result === null) return {};
  if ('_id' in result) return { prospect: withoutEmpty(prospectRow(result)) };
  return 'checks' in result ? { verification: result.status } : result;
}

const withoutEmpty = (row: Row): Row =>
  Object.fromEntries(Object.entries(row).filter(([, value]) => (value ?? '') !== ''));

/** Maximum size of a page in the result of a tool (bytes of JSON). Assistants pay for each byte that they read. */
const pageBytes = 16 * 1024;

/**
 * Returns a page as JSON. If it is larger than `pageBytes`, shortens its texts, except ids.
 * @param beside further members of the page
 */
function pageText(name: string, rows: readonly Row[], nextCursor: unknown, beside: object = {}): string {
  const page = { ...beside, [name]: rows.map(withoutEmpty), next_cursor: nextCursor };
  let text = '';
  for (const most of [80, 40, 20, 10, 3]) {
    text = JSON.stringify(page, (key, value: unknown) =>
      typeof value === 'string' && key !== 'next_cursor' ? shortened(value, most) : value,
    );
    if (Buffer.byteLength(text) <= pageBytes) break;
  }
  return text;
}

function shortened(text: string, most: number): string {
  const characters = [...text];
  const isShort = characters.length <= most || canonicalId(text) !== undefined;
  return isShort ? text : `${characters.slice(0, most - 1).join('')}…`;
}

/**
 * Sends a request to a route of this service with the caller's key.
 * @throws AgentError if the route responds with an error
 */
export type Send = (options: InjectOptions) => Promise<InsideAnswer>;

type Run<N extends ToolName> = (send: Send, args: Arguments<N>) => Promise<string>;

const base = '/api/ext';
const post = (url: string, payload: object, headers = {}): InjectOptions => ({
  method: 'POST',
  url: base + url,
  payload,
  headers: { 'content-type': 'application/json', ...headers },
});

const get = (url: string): InjectOptions => ({ method: 'GET', url: base + url });

const patch = (url: string, payload: object): InjectOptions => ({ ...post(url, payload), method: 'PATCH' });

const answer = async (send: Send, call: InjectOptions): Promise<string> => JSON.stringify((await send(call)).body);

const paging = ({ limit = 10, cursor }: { limit?: number; cursor?: string }) => ({
  limit,
  ...(cursor === undefined ? {} : { cursor }),
});

async function page(
  send: Send,
  call: InjectOptions,
  name: string,
  row: (record: never) => Row,
  beside?: object,
): Promise<string> {
  const { body, headers } = await send(call);
  return pageText(name, (body as never[]).map(row), headers['x-next-cursor'], beside);
}

type Search = { search?: string; filters?: Record<string, unknown>; order_by?: Record<string, string> };

function listBody({ search, filters = {}, order_by, ...rest }: Search & { limit?: number; cursor?: string }): object {
  if (search !== undefined && 'search' in filters)
    throw new AgentError('Give the words either as `search` or in `filters`, not both.');
  return {
    filters: search === undefined ? filters : { ...filters, search },
    ...(order_by && { order_by }),
    paginate: paging(rest),
  };
}

/**
 * Returns JSON with sorted members of objects, so that equal arguments give equal texts. Keeps the order in `order_by`,
 * where it has a meaning.
 */
const canonical = (value: unknown): string =>
  JSON.stringify(value, (name, member: unknown) =>
    typeof member === 'object' && member !== null && !Array.isArray(member) && name !== 'order_by'
      ? Object.fromEntries(Object.entries(member).sort(([a], [b]) => (a < b ? -1 : 1)))
      : member,
  );

/**
 * Sends a POST that takes effect once for each `request_id`, or each time without one. Returns the response as JSON,
 * with `replayed` if it is the response to an earlier call.
 */
async function once(send: Send, requestId: string | undefined, url: string, body: object): Promise<string> {
  if (requestId === undefined) return answer(send, post(url, body));
  const key = `agent-${createHash('sha256').update(requestId).digest('hex')}`;
  const call = { ...post(url, {}, { 'idempotency-key': key }), payload: canonical(body) };
  const { body: answered, headers } = await send(call);
  const replayed = headers['idempotency-replayed'] === 'true';
  return JSON.stringify(replayed ? { ...(answered as object), replayed } : answered);
}

function unlocking({
  ids,
  filters,
  order_by,
  total_records,
  ...rest
}: Omit<Partial<Arguments<'unlock_prospects'>>, 'request_id'>) {
  if ((ids === undefined) === (total_records === undefined))
    throw new AgentError('Give either `ids`, or `total_records` with `filters`.');
  if (ids === undefined)
    return {
      url: '/service-handler/unlock-contacts',
      body: { ...(filters && { filters }), ...(order_by && { order_by }), total_records, ...rest },
    };
  if (filters || order_by) throw new AgentError('`ids` name the prospects: leave out `filters` and `order_by`.');
  return { url: '/service-handler/unlock-selected-contacts', body: { ids, ...rest } };
}

export const runs: { readonly [N in ToolName]: Run<N> } = {
  search_contacts: (send, args) => page(send, post('/contacts/list', listBody(args)), 'contacts', contactRow),
  get_contact: (send, { id }) => answer(send, get(`/contacts/${id}`)),
  create_contact: (send, { request_id, ...contact }) =>
    once(send, request_id, '/contacts', { phone_numbers: [], ...contact }),
  update_contact: (send, { id, ...changes }) => answer(send, patch(`/contacts/${id}`, changes)),
  search_companies: (send, args) => page(send, post('/company/list', listBody(args)), 'companies', companyRow),
  list_lists: (send, args) => page(send, post('/list-contact/list', paging(args)), 'lists', listRow),
  add_to_list: (send, args) => answer(send, post('/list-contact-details/add-contacts', args)),
  add_note: (send, { request_id, ...activity }) => once(send, request_id, '/activities', activity),
  list_tasks: (send, { company_id, assigned_to, contact_id, opportunity_id, is_overdue, ...rest }) => {
    const of = { assigned_to, contact_id, opportunity_id, company_or_its_contacts: company_id };
    const filters = { ...of, is_overdue, is_done: false };
    const body = { filters, order_by: { due_at: 'ASC' }, paginate: paging(rest) };
    return page(send, post('/activities/list', body), 'tasks', taskRow);
  },
  complete_task: async (send, { id }) => {
    const { body } = await send(get(`/activities/${id}`));
    // The time at which it was done stays.
    const done = { done_at: (body as Activity).done_at ?? new Date().toISOString() };
    return answer(send, patch(`/activities/${id}`, done));
  },
  search_prospects: (send, { filters = {}, all_contacts = false, ...rest }) =>
    page(send, post('/prospect/list', { filters, all_contacts, paginate: paging(rest) }), 'prospects', prospectRow),
  estimate_unlock: async (send, args) => {
    const { url, body } = unlocking(args);
    return answer(send, post(url, { ...body, dry_run: true }));
  },
  unlock_prospects: (send, { request_id, ...args }) => {
    const { url, body } = unlocking(args);
    return once(send, request_id, url, body);
  },
  verify_emails: (send, { request_id, ...args }) => once(send, request_id, '/service-handler/verify-email', args),
  job_status: async (send, { id, results = false, ...rest }) => {
    const { body: job } = await send(get(`/service-handler/${id}`)).catch((error: unknown) =>
      // An approval that was given has the answer of its call: there is the id of the job.
      send(get(`/approval/${id}`)).catch(() => {
        throw error;
      }),
    );
    if (!results || 'decided_at' in (job as object)) return JSON.stringify(job);
    const call = post(`/service-handler/${id}/results`, { paginate: paging(rest) });
    return page(send, call, 'results', itemRow, { job });
  },
  credits: (send) => answer(send, get('/customer/credits')),
};

export const toolNames = Object.keys(tools) as ToolName[];

export const sender =
  (call: Send): Send =>
  async (options) => {
    const answer = await call(options);
    if (answer.status >= 400) throw new AgentError(errorText(answer));
    return answer;
  };
