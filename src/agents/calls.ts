import { createHash } from 'node:crypto';
import type { InjectOptions } from 'fastify';
import type { InsideAnswer } from '../plugins/inside-calls.ts';
import { tools, type Arguments, type ToolName } from './tools.ts';
import { AgentError, errorText } from './agent-error.ts';
import { companyRow, contactRow, itemRow, listRow, pageText, prospectRow, taskRow, type Row } from './compact.ts';

/**
 * Sends a request to a route of this service with the caller's key.
 * @throws AgentError if the route responds with an error
 */
export type Send = (options: InjectOptions) => Promise<InsideAnswer>;

/** Runs a tool, and returns its result as text. */
type Run<N extends ToolName> = (send: Send, args: Arguments<N>) => Promise<string>;

const base = '/api/ext';
const post = (url: string, payload: object, headers = {}): InjectOptions => ({
  method: 'POST',
  url: base + url,
  payload,
  headers: { 'content-type': 'application/json', ...headers },
});

const paging = ({ limit = 10, cursor }: { limit?: number; cursor?: string }) => ({
  limit,
  ...(cursor === undefined ? {} : { cursor }),
});

/**
 * Returns one page of a list as text.
 * @param beside what the page tells beside its rows
 */
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

/** Returns the body of a list call. */
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
 * Returns text with the members of all objects in one order: the same arguments make the same text. But for `order_by`,
 * whose members mean something else in another order.
 */
const canonical = (value: unknown): string =>
  JSON.stringify(value, (name, member: unknown) =>
    typeof member === 'object' && member !== null && !Array.isArray(member) && name !== 'order_by'
      ? Object.fromEntries(Object.entries(member).sort(([a], [b]) => (a < b ? -1 : 1)))
      : member,
  );

/** Sends a POST that has its effect once for each `request_id`. Returns its answer, and whether it is an earlier one. */
async function once(send: Send, requestId: string, url: string, body: object): Promise<string> {
  const key = `agent-${createHash('sha256').update(requestId).digest('hex')}`;
  const call = { ...post(url, {}, { 'idempotency-key': key }), payload: canonical(body) };
  const { body: answer, headers } = await send(call);
  const replayed = headers['idempotency-replayed'] === 'true';
  return JSON.stringify(replayed ? { ...(answer as object), replayed } : answer);
}

/** Returns the route that unlocks what the arguments name. */
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

/** How each tool is run. */
export const runs: { readonly [N in ToolName]: Run<N> } = {
  search_contacts: (send, args) => page(send, post('/contacts/list', listBody(args)), 'contacts', contactRow),
  get_contact: async (send, { id }) =>
    JSON.stringify((await send({ method: 'GET', url: `${base}/contacts/${id}` })).body),
  create_contact: async (send, { request_id, ...contact }) => {
    const body = { phone_numbers: [], ...contact };
    if (request_id !== undefined) return once(send, request_id, '/contacts', body);
    return JSON.stringify((await send(post('/contacts', body))).body);
  },
  update_contact: async (send, { id, ...patch }) =>
    JSON.stringify((await send({ ...post(`/contacts/${id}`, patch), method: 'PATCH' })).body),
  search_companies: (send, args) => page(send, post('/company/list', listBody(args)), 'companies', companyRow),
  list_lists: (send, args) => page(send, post('/list-contact/list', paging(args)), 'lists', listRow),
  add_to_list: async (send, args) =>
    JSON.stringify((await send(post('/list-contact-details/add-contacts', args))).body),
  add_note: async (send, { request_id, ...activity }) => {
    if (request_id !== undefined) return once(send, request_id, '/activities', activity);
    return JSON.stringify((await send(post('/activities', activity))).body);
  },
  list_tasks: (send, { company_id, assigned_to, contact_id, opportunity_id, is_overdue, ...rest }) => {
    const of = { assigned_to, contact_id, opportunity_id, company_or_its_contacts: company_id };
    const filters = { ...of, is_overdue, is_done: false };
    const body = { filters, order_by: { due_at: 'ASC' }, paginate: paging(rest) };
    return page(send, post('/activities/list', body), 'tasks', taskRow);
  },
  complete_task: async (send, { id }) => {
    const done = { done_at: new Date().toISOString() };
    return JSON.stringify((await send({ ...post(`/activities/${id}`, done), method: 'PATCH' })).body);
  },
  search_prospects: (send, { filters = {}, all_contacts = false, ...rest }) =>
    page(send, post('/prospect/list', { filters, all_contacts, paginate: paging(rest) }), 'prospects', prospectRow),
  estimate_unlock: async (send, args) => {
    const { url, body } = unlocking(args);
    return JSON.stringify((await send(post(url, { ...body, dry_run: true }))).body);
  },
  unlock_prospects: (send, { request_id, ...args }) => {
    const { url, body } = unlocking(args);
    return once(send, request_id, url, body);
  },
  verify_emails: (send, { request_id, ...args }) => once(send, request_id, '/service-handler/verify-email', args),
  job_status: async (send, { id, results = false, ...rest }) => {
    const { body: job } = await send({ method: 'GET', url: `${base}/service-handler/${id}` });
    if (!results) return JSON.stringify(job);
    const call = post(`/service-handler/${id}/results`, { paginate: paging(rest) });
    return page(send, call, 'results', itemRow, { job });
  },
  credits: async (send) => JSON.stringify((await send({ method: 'GET', url: `${base}/customer/credits` })).body),
};

export const toolNames = Object.keys(tools) as ToolName[];

/**
 * Returns a function that sends requests and throws the errors of routes.
 * @param call sends a request
 */
export const sender =
  (call: Send): Send =>
  async (options) => {
    const answer = await call(options);
    if (answer.status >= 400) throw new AgentError(errorText(answer));
    return answer;
  };
