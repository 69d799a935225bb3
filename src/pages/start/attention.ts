import type { FastifyRequest } from 'fastify';
import { sessionOf } from '../../plugins/credentials/auth.ts';
import { listApiKeys } from '../../queries/accounts/api-keys.ts';
import { allImports, listImports } from '../../queries/imports/imports.ts';
import { findCredits, findLastGrants } from '../../queries/jobs/credits.ts';
import { listEndpoints } from '../../queries/webhooks/endpoints.ts';
import { pools } from '../../schemas/credits.ts';
import { count, counted, date, html, type Html } from '../base/html.ts';
import { poolWords } from '../base/words.ts';
import { pathOf, troubleOf } from '../webhooks/endpoint-view.ts';

/** Something that a person should look at: a sentence with a link. */
type Concern = Html;

const dayMs = 24 * 60 * 60 * 1000;

/** Days before the end of an API key at which it is named. */
const keyDays = 14;

/** Days for which an import with failures is named. */
const importDays = 7;

/** Share of the last grant of credits below which they are low. */
const lowShare = 0.1;

/** Each returns what the user should look at in one part of the pages. */
const sources: readonly ((request: FastifyRequest) => Promise<Concern[]>)[] = [
  failedImports,
  failingEndpoints,
  lowCredits,
  endingKeys,
];

/** Returns everything that needs a person, most urgent first. */
export const concernsOf = async (request: FastifyRequest): Promise<Concern[]> =>
  (await Promise.all(sources.map((find) => find(request)))).flat();

async function failedImports({ db, caller }: FastifyRequest): Promise<Concern[]> {
  const rows = await db.search((sql) => listImports(sql, caller.customerId, {}, allImports));
  const since = new Date(Date.now() - importDays * dayMs).toISOString();
  const failed = rows.filter(
    ({ status, failed, dry_run, created_at }) =>
      created_at >= since && !dry_run && (status === 'FAILED' || (status === 'COMPLETED' && failed > 0)),
  );
  return failed.map(({ id, name, object, status, failed }) => {
    const what = status === 'FAILED' ? 'could not be read' : `left out ${counted(failed, 'record')}`;
    return html`<a href="/app/imports/${id}">${name || `Import of ${object}`}</a> ${what}.`;
  });
}

/** For admins, who manage endpoints. */
async function failingEndpoints(request: FastifyRequest): Promise<Concern[]> {
  if (sessionOf(request).role !== 'admin') return [];
  const endpoints = await request.db.lookup((sql) => listEndpoints(sql, request.caller.customerId));
  return endpoints
    .filter((endpoint) => troubleOf(endpoint) !== '')
    .map((endpoint) => html`The webhook <a href="${pathOf(endpoint)}">${endpoint.url}</a>: !${troubleOf(endpoint)}`);
}

async function lowCredits({ db, caller: { customerId } }: FastifyRequest): Promise<Concern[]> {
  const [balances, grants] = await Promise.all([
    db.lookup((sql) => findCredits(sql, customerId)),
    db.search((sql) => findLastGrants(sql, customerId)),
  ]);
  const isLow = (pool: (typeof pools)[number]) => balances[pool].balance < (grants[pool] ?? 0) * lowShare;
  return pools.filter(isLow).map((pool) => {
    const left = count(balances[pool].balance);
    return html`Only ${left} <a href="/app/credits">credits</a> are left ${poolWords[pool].purpose}.`;
  });
}

async function endingKeys({ db, caller }: FastifyRequest): Promise<Concern[]> {
  const keys = await db.lookup((sql) => listApiKeys(sql, caller.customerId));
  const until = new Date(Date.now() + keyDays * dayMs).toISOString();
  return keys
    .filter(({ status, expires_at }) => status === 'active' && expires_at < until)
    .map(({ name, expires_at }) => html`The key <a href="/app/keys">${name}</a> ends on !${date(expires_at)}.`);
}
