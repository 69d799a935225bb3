import type { Catalog, Search } from '../../catalog/catalog.ts';
import { toSearch } from '../../catalog/prospects.ts';
import type { Spender } from '../../credentials/caller.ts';
import type { Config } from '../../process/config.ts';
import type { Transaction } from '../../database/db.ts';
import { DomainError } from '../../errors.ts';
import { parseOrder } from '../../filters/order.ts';
import { findSpendable } from '../../queries/jobs/credits.ts';
import { requireLists } from '../../queries/memberships/list-members.ts';
import type { Estimate, JobStarted, UnlockContacts, UnlockSelectedContacts } from '../../schemas/jobs.ts';
import { type Prospect } from '../../schemas/prospects.ts';
import { mostFor, mostForChosen } from '../prices.ts';
import { startJob, toInputs } from '../start-job.ts';
import type { Listing } from './unlocks.ts';

type Costs = Pick<Config, 'UNLOCK_COST'>;

const pool = 'subscription';

/**
 * Finds the prospects that match the filters and that the customer has not unlocked yet.
 * @throws DomainError `validation_failed`
 */
export const searchOf = (
  customerId: string,
  { filters, order_by }: Pick<UnlockContacts, 'filters' | 'order_by'>,
): Search => toSearch(customerId, { filters, ...(order_by === undefined ? {} : { order_by }) });

/**
 * Unlocks the first prospects that match the filters.
 * @param matches how many matched when the request arrived, and at most are unlocked
 * @throws TooExpensive
 */
export async function startUnlock(
  sql: Transaction,
  spender: Spender,
  { UNLOCK_COST: cost }: Costs,
  { filters, order_by, total_records, ...rest }: UnlockContacts,
  matches: number,
): Promise<JobStarted> {
  const total = Math.min(total_records, matches);
  const { lists, sync_crm } = await destinationOf(sql, spender, rest);
  // As an array: the column is jsonb, which does not keep the order of members.
  const order = order_by === undefined ? {} : { order_by: parseOrder(order_by) };
  const request = { filters, total_records, ...order, ...lists };
  const reserved = mostFor(cost, total);
  const given = { type: 'unlock_contacts', sync_crm, request, pool, total, cost, reserved } as const;
  return startJob(sql, spender, { ...given, inputs: [] });
}

/** In credits. Does not start a job. */
export async function estimateUnlock(
  sql: Transaction,
  spender: Spender,
  { UNLOCK_COST }: Costs,
  { total_records, list_ids }: UnlockContacts,
  matches: number,
): Promise<Estimate> {
  await requireLists(sql, spender.customerId, list_ids);
  const cost = mostFor(UNLOCK_COST, Math.min(total_records, matches));
  return { matches, cost, available: await findSpendable(sql, spender, pool) };
}

/**
 * Starts a job that unlocks the prospects with these ids. The job checks whether they exist.
 * @param known those of the prospects that the catalog has; nothing is reserved for who is free among them
 * @throws TooExpensive
 */
export async function startSelectedUnlock(
  sql: Transaction,
  spender: Spender,
  { UNLOCK_COST: cost }: Costs,
  { ids, ...rest }: UnlockSelectedContacts,
  known: readonly Prospect[],
): Promise<JobStarted> {
  const { lists, sync_crm } = await destinationOf(sql, spender, rest);
  const inputs = toInputs(ids, (item) => ({ item }));
  const reserved = await mostForChosen(sql, spender.customerId, cost, ids, known);
  const given = { type: 'unlock_selected_contacts', sync_crm, request: lists, pool, total: ids.length, cost } as const;
  return startJob(sql, spender, { ...given, reserved, inputs });
}

/**
 * Returns what of a request says where the unlocked people go.
 * @throws DomainError `not_found` with the JSON pointer of every unknown list
 */
async function destinationOf(
  sql: Transaction,
  { customerId }: Spender,
  { list_ids, sync_crm = false }: Pick<UnlockContacts, 'list_ids' | 'sync_crm'>,
): Promise<{ lists: Listing; sync_crm: boolean }> {
  const known = await requireLists(sql, customerId, list_ids);
  return { lists: known.length > 0 ? { list_ids: known } : {}, sync_crm: sync_crm || known.length > 0 };
}

/**
 * In credits. Does not start a job.
 * @param known those of the prospects that the catalog has
 */
export async function estimateSelectedUnlock(
  sql: Transaction,
  spender: Spender,
  { UNLOCK_COST }: Costs,
  { ids, list_ids }: UnlockSelectedContacts,
  known: readonly Prospect[],
): Promise<Estimate> {
  await requireLists(sql, spender.customerId, list_ids);
  const cost = await mostForChosen(sql, spender.customerId, UNLOCK_COST, ids, known);
  return { matches: known.length, cost, available: await findSpendable(sql, spender, pool) };
}

/** Returns those of the prospects that the catalog has. */
export const findChosen = (catalog: Pick<Catalog, 'find'>, ids: readonly string[]): Promise<Prospect[]> =>
  catalog.find([...new Set(ids)]);

/** Returns those of the prospects that the catalog has; none if it does not respond. */
export async function findChosenIfUp(catalog: Pick<Catalog, 'find'>, ids: readonly string[]): Promise<Prospect[]> {
  try {
    return await findChosen(catalog, ids);
  } catch (error) {
    if (error instanceof DomainError && error.code === 'unavailable') return [];
    throw error;
  }
}
