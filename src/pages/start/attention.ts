import { createHash } from 'node:crypto';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { sessionOf } from '../../plugins/credentials/auth.ts';
import { isHttps, sessionCookies } from '../../plugins/credentials/session-cookie.ts';
import { listApiKeys } from '../../queries/accounts/api-keys.ts';
import { listApprovals } from '../../queries/accounts/approvals.ts';
import { allImports, listImports } from '../../queries/imports/imports.ts';
import { findCredits, findLastGrants } from '../../queries/jobs/credits.ts';
import { listEndpoints } from '../../queries/webhooks/endpoints.ts';
import { pools } from '../../schemas/credits.ts';
import { fieldsOf, text } from '../base/forms.ts';
import { count, counted, date, html, type Html } from '../base/html.ts';
import { poolWords } from '../base/words.ts';
import { pathOf, troubleOf } from '../webhooks/endpoint-view.ts';

/** Something that a person should look at. */
interface Concern {
  /** Names it for as long as it is the same. */
  key: string;
  /** A sentence with a link. */
  text: Html;
}

const keptConcern = (request: FastifyRequest, { key }: Concern): string =>
  createHash('sha256').update(`${request.caller.userId} ${key}`).digest('base64url').slice(0, 12);

const dayMs = 24 * 60 * 60 * 1000;

/** Days before the end of an API key at which it is named. */
const keyDays = 14;

/** Days for which an import with failures is named. */
const importDays = 7;

/** Share of the last grant of credits below which they are low. */
const lowShare = 0.1;

/** Each returns what the user should look at in one part of the pages. */
const sources: readonly ((request: FastifyRequest) => Promise<Concern[]>)[] = [
  waitingCalls,
  failedImports,
  failingEndpoints,
  lowCredits,
  endingKeys,
];

/** Most dismissed concerns that a browser keeps. */
const mostDismissed = 50;

/** The cookie with what this person has dismissed in this browser. */
const cookieOf = ({ server: { config } }: FastifyRequest) => ({
  name: `${isHttps(config.PUBLIC_URL) ? '__Host-' : ''}dismissed`,
  attributes: { ...sessionCookies(config).attributes, maxAge: (90 * dayMs) / 1000 },
});

const dismissedBy = (request: FastifyRequest): string[] =>
  (request.cookies[cookieOf(request).name] ?? '').split('.').filter((one) => /^[\w-]{12}$/.test(one));

/** Lets a concern be shown no more. */
export function dismiss(request: FastifyRequest, reply: FastifyReply): void {
  const { name, attributes } = cookieOf(request);
  const kept = [...dismissedBy(request), text(fieldsOf(request), 'concern')].slice(-mostDismissed);
  void reply.setCookie(name, kept.join('.'), attributes);
}

/** Returns everything that needs a person and was not dismissed, most urgent first: each with its name in the form. */
export async function concernsOf(request: FastifyRequest): Promise<(readonly [name: string, text: Html])[]> {
  const dismissed = new Set(dismissedBy(request));
  const found = (await Promise.all(sources.map((find) => find(request)))).flat();
  return found
    .map((concern) => [keptConcern(request, concern), concern.text] as const)
    .filter(([name]) => !dismissed.has(name));
}

/** For admins, who approve calls. */
async function waitingCalls(request: FastifyRequest): Promise<Concern[]> {
  if (sessionOf(request).role !== 'admin') return [];
  const calls = await request.db.lookup((sql) => listApprovals(sql, request.caller.customerId));
  const waiting = calls.filter(({ status }) => status === 'pending');
  if (waiting.length === 0) return [];
  const text = html`<a href="/app/approvals">${counted(waiting.length, 'call')} of API keys</a>
    wait${waiting.length === 1 ? 's' : ''} for your approval.`;
  // A further call is shown again.
  return [{ key: waiting.map(({ id }) => id).join(), text }];
}

async function failedImports({ db, caller }: FastifyRequest): Promise<Concern[]> {
  const rows = await db.search((sql) => listImports(sql, caller.customerId, {}, allImports));
  const since = new Date(Date.now() - importDays * dayMs).toISOString();
  const failed = rows.filter(
    ({ status, failed, dry_run, created_at }) =>
      created_at >= since && !dry_run && (status === 'FAILED' || (status === 'COMPLETED' && failed > 0)),
  );
  return failed.map(({ id, name, object, status, failed }) => {
    const what = status === 'FAILED' ? 'could not be read' : `left out ${counted(failed, 'record')}`;
    return { key: id, text: html`<a href="/app/imports/${id}">${name || `Import of ${object}`}</a> ${what}.` };
  });
}

/** For admins, who manage endpoints. */
async function failingEndpoints(request: FastifyRequest): Promise<Concern[]> {
  if (sessionOf(request).role !== 'admin') return [];
  const endpoints = await request.db.lookup((sql) => listEndpoints(sql, request.caller.customerId));
  return endpoints
    .filter((endpoint) => troubleOf(endpoint) !== '')
    .map((endpoint) => ({
      key: `${endpoint.id} ${troubleOf(endpoint)}`,
      text: html`The webhook <a href="${pathOf(endpoint)}">${endpoint.url}</a>: !${troubleOf(endpoint)}`,
    }));
}

async function lowCredits({ db, caller: { customerId } }: FastifyRequest): Promise<Concern[]> {
  const [balances, grants] = await Promise.all([
    db.lookup((sql) => findCredits(sql, customerId)),
    db.search((sql) => findLastGrants(sql, customerId)),
  ]);
  const isLow = (pool: (typeof pools)[number]) => balances[pool].balance < (grants[pool] ?? 0) * lowShare;
  return pools.filter(isLow).map((pool) => {
    const left = count(balances[pool].balance);
    const text = html`Only ${left} <a href="/app/credits">credits</a> are left ${poolWords[pool].purpose}.`;
    return { key: `${pool} ${grants[pool]}`, text };
  });
}

async function endingKeys({ db, caller }: FastifyRequest): Promise<Concern[]> {
  const keys = await db.lookup((sql) => listApiKeys(sql, caller.customerId));
  const until = new Date(Date.now() + keyDays * dayMs).toISOString();
  return keys
    .filter(({ status, expires_at }) => status === 'active' && expires_at < until)
    .map(({ id, name, expires_at }) => ({
      key: `${id} ${expires_at}`,
      text: html`The key <a href="/app/keys">${name}</a> ends on !${date(expires_at)}.`,
    }));
}
