import type { Spender } from '../../credentials/caller.ts';
import type { Config } from '../../process/config.ts';
import type { Database, Transaction } from '../../database/db.ts';
import { conflict, missingReferences, validationFailed } from '../../errors.ts';
import { contactSource } from '../../filters/columns.ts';
import { parseRecordQuery } from '../../filters/record-query.ts';
import { readIds } from '../../queries/crm/record-pages.ts';
import { findContactIds } from '../../queries/records/contact-locks.ts';
import { findSpendable } from '../../queries/jobs/credits.ts';
import {
  enrichedFields,
  maxEnriched,
  type EnrichContacts,
  type EnrichEstimate,
} from '../../schemas/clean-data/enrichment.ts';
import type { JobStarted } from '../../schemas/jobs.ts';
import { mostWithin } from '../prices.ts';
import { startJob, toInputs } from '../start-job.ts';

type Costs = Pick<Config, 'UNLOCK_COST'>;

const pool = 'subscription';

/**
 * Returns the ids of the contacts that a request names, each once: those with the ids, or those that match the filters.
 * @throws DomainError `validation_failed` if it has both or neither; `not_found` with the JSON pointer of every id that is no contact of the customer; `conflict` if
 *   more than `maxEnriched` contacts match
 */
export async function findEnriched(
  db: Database,
  customerId: string,
  { contact_ids: ids, filters }: EnrichContacts,
): Promise<string[]> {
  if (ids === undefined && filters === undefined)
    throw validationFailed([{ path: '/filters', message: 'is required, or contact_ids in its place' }]);
  if (ids === undefined) return findMatching(db, customerId, filters);
  if (filters !== undefined)
    throw validationFailed([{ path: '/filters', message: 'must not stand beside contact_ids: give one of the two' }]);
  const known = new Set(await db.search((sql) => findContactIds(sql, customerId, ids)));
  const missing = ids.flatMap((id, i) => (known.has(id) ? [] : [{ noun: 'contact', path: `/contact_ids/${i}` }]));
  if (missing.length > 0) throw missingReferences(missing);
  return [...new Set(ids)];
}

async function findMatching(db: Database, customerId: string, filters: EnrichContacts['filters']): Promise<string[]> {
  const query = parseRecordQuery(contactSource, customerId, filters ? { filters } : {});
  const found = await readIds(db, query, maxEnriched + 1);
  if (found.length > maxEnriched)
    throw conflict(`More than ${maxEnriched} contacts match: enrich them in parts`, [
      { path: '/filters', message: `match more than ${maxEnriched} contacts` },
    ]);
  return found;
}

/**
 * Enriches contacts from the catalog.
 * @throws TooExpensive
 */
export async function startEnrichment(
  sql: Transaction,
  spender: Spender,
  { UNLOCK_COST: cost }: Costs,
  { fields = [...enrichedFields], overwrite = false, max_credits }: EnrichContacts,
  ids: readonly string[],
): Promise<JobStarted> {
  const request = { fields: [...new Set(fields)], overwrite };
  const given = { type: 'enrich_contacts', sync_crm: true, request, pool, cost, total: ids.length } as const;
  const reserved = mostWithin(cost, ids.length, max_credits);
  return startJob(sql, spender, { ...given, reserved, inputs: toInputs(ids, (item) => ({ item })) });
}

/** In credits. Does not start a job, and does not search the catalog. */
export async function estimateEnrichment(
  sql: Transaction,
  spender: Spender,
  { UNLOCK_COST: cost }: Costs,
  { max_credits }: EnrichContacts,
  ids: readonly string[],
): Promise<EnrichEstimate> {
  return {
    contacts: ids.length,
    cost: mostWithin(cost, ids.length, max_credits),
    available: await findSpendable(sql, spender, pool),
  };
}
