import type { Catalog, Search } from '../../catalog/catalog.ts';
import { toSearch } from '../../catalog/prospects.ts';
import type { Config } from '../../process/config.ts';
import type { Sql, Transaction } from '../../database/db.ts';
import { findAvailableCredits } from '../../queries/jobs/credits.ts';
import { findUnlocked } from '../../queries/catalog/unlocks.ts';
import type { Estimate, JobStarted, UnlockContacts, UnlockSelectedContacts } from '../../schemas/jobs.ts';
import { startJob, toInputs } from '../start-job.ts';

type Costs = Pick<Config, 'UNLOCK_COST'>;

const pool = 'subscription';

/**
 * Returns the catalog query for a request to unlock prospects by filters. The query finds the prospects that match the
 * filters and that the customer has not unlocked yet.
 * @throws DomainError `validation_failed` if the request is invalid.
 */
export const searchOf = (
  customerId: string,
  { filters, order_by }: Pick<UnlockContacts, 'filters' | 'order_by'>,
): Search => toSearch(customerId, { ...(filters ? { filters } : {}), ...(order_by === undefined ? {} : { order_by }) });

/**
 * Creates a job that unlocks the first prospects that match the filters.
 * @param matches Number of prospects that matched the filters when the request arrived. The job unlocks at most this
 * number.
 * @throws InsufficientCredits if the customer has fewer credits than the job may cost.
 */
export async function startUnlock(
  sql: Transaction,
  customerId: string,
  { UNLOCK_COST: cost }: Costs,
  { filters = {}, order_by, total_records, sync_crm = false }: UnlockContacts,
  matches: number,
): Promise<JobStarted> {
  const total = Math.min(total_records, matches);
  const request = { filters, total_records, ...(order_by === undefined ? {} : { order_by }) };
  const given = { type: 'unlock_contacts', sync_crm, request, pool, total, cost, reserved: total * cost } as const;
  return startJob(sql, customerId, { ...given, inputs: [] });
}

/** Estimates the cost in credits of unlocking prospects by filters. Does not start a job. */
export async function estimateUnlock(
  sql: Transaction,
  customerId: string,
  { UNLOCK_COST }: Costs,
  { total_records }: UnlockContacts,
  matches: number,
): Promise<Estimate> {
  const cost = Math.min(total_records, matches) * UNLOCK_COST;
  return { matches, cost, available: await findAvailableCredits(sql, customerId, pool) };
}

/**
 * Creates a job that unlocks the prospects with the given ids. Does not check whether these prospects exist; the job
 * checks this later.
 * @throws InsufficientCredits if the customer has fewer credits than the job may cost.
 */
export async function startSelectedUnlock(
  sql: Transaction,
  customerId: string,
  { UNLOCK_COST: cost }: Costs,
  { ids, sync_crm = false }: UnlockSelectedContacts,
): Promise<JobStarted> {
  const { inputs } = toInputs(
    ids,
    (id) => id,
    (item) => ({ item, contact_ids: [] }),
  );
  const reserved = (await countLocked(sql, customerId, ids)) * cost;
  const given = { type: 'unlock_selected_contacts', sync_crm, request: {}, pool, total: ids.length, cost } as const;
  return startJob(sql, customerId, { ...given, reserved, inputs });
}

/**
 * Estimates the cost in credits of unlocking the prospects with the given ids. Does not start a job.
 * @param matches Number of the given prospects that exist in the catalog.
 */
export async function estimateSelectedUnlock(
  sql: Transaction,
  customerId: string,
  { UNLOCK_COST }: Costs,
  { ids }: UnlockSelectedContacts,
  matches: number,
): Promise<Estimate> {
  const cost = (await countLocked(sql, customerId, ids)) * UNLOCK_COST;
  return { matches, cost, available: await findAvailableCredits(sql, customerId, pool) };
}

/** Returns how many of the given prospects exist in the catalog. A repeated id counts once. */
export const countExisting = async (catalog: Pick<Catalog, 'find'>, ids: string[]): Promise<number> =>
  (await catalog.find(distinct(ids))).length;

async function countLocked(sql: Sql | Transaction, customerId: string, ids: string[]): Promise<number> {
  const wanted = distinct(ids);
  return wanted.length - (await findUnlocked(sql, customerId, wanted)).size;
}

const distinct = (ids: string[]): string[] => [...new Set(ids)];
