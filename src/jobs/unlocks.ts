import type { Locked, Transaction } from '../database/db.ts';
import { syncProspects } from '../queries/crm/crm-sync.ts';
import { contactsAtOnce, requireLists } from '../queries/crm/list-members.ts';
import type { JobRow, NewResult } from '../queries/jobs/jobs.ts';
import { findUnindexedUnlocksOfJob, unlockPeople } from '../queries/jobs/unlocks.ts';
import type { UnlockContacts, UnlockSelectedContacts } from '../schemas/jobs.ts';
import type { Prospect } from '../schemas/prospects.ts';
import { type WorkingJob, type JobContext, settle, type BatchResults, type JobBatch, nextInputsOf } from './turns.ts';
import { priceOf, maxCostOfChosen, takeOpenInputs, toInputs, type JobCode, type Plan } from './start-job.ts';
import { type Catalog, type Search, positionOf, type ProspectPosition } from '../catalog/catalog.ts';
import { toSearch } from '../catalog/prospects.ts';
import type { Spender } from '../access/credentials.ts';
import type { Config } from '../process/config.ts';
import { isUnavailable } from '../errors.ts';
import { parseOrder } from '../filters/columns.ts';
import type { JobInput } from '../queries/jobs/runs.ts';

/** Ids of the lists to which an unlock job adds its contacts. Stored with the job, if it has any lists. */
type Listing = Pick<UnlockContacts, 'list_ids'>;

const maxBatchSize = 250;

const listsOf = ({ request }: Pick<JobRow, 'request'>): string[] => (request as Listing).list_ids ?? [];

const unlockBatchSize = (job: JobRow): number =>
  job.sync_crm ? contactsAtOnce(maxBatchSize, listsOf(job).length) : maxBatchSize;

/**
 * With the job's option `sync_crm`, creates or updates a contact for each prospect, and adds it to the job's lists.
 * Otherwise does nothing.
 * @returns contact ids by prospect id
 */
const toContacts = async (sql: Transaction, job: JobRow, prospects: readonly Prospect[]) =>
  job.sync_crm ? syncProspects(sql, job.customer_id, prospects, listsOf(job)) : new Map<string, string>();

const unlockResult = (
  job: JobRow,
  position: number,
  prospect: Prospect,
  contacts: ReadonlyMap<string, string>,
  left = Infinity,
): NewResult => ({
  position,
  item: prospect._id,
  contact_id: contacts.get(prospect._id) ?? null,
  status: 'succeeded',
  charged: Math.min(priceOf(job.cost, prospect), left),
  result: prospect,
});

/**
 * Ends a batch of unlocks, and writes them to the search index if there is one. After the last batch, completes the
 * job.
 * @throws DomainError `unavailable` if the catalog does not respond. The job is then retried
 */
export async function settleUnlocks(
  context: JobContext,
  job: WorkingJob,
  deliver: (sql: Transaction, held: Locked<JobRow>) => Promise<BatchResults & { unlocked: Iterable<string> }>,
): Promise<void> {
  const { catalog } = context;
  const hasIndex = catalog.engine === 'elasticsearch';
  let ids: string[] = [];
  let isLast = false;
  await settle(context, job, async (sql, held) => {
    const { unlocked, mayComplete, ...delivered } = await deliver(sql, held);
    ids = [...unlocked];
    isLast = mayComplete;
    return { ...delivered, mayComplete: mayComplete && !hasIndex };
  });
  if (hasIndex) await catalog.syncUnlocks(ids);
  if (hasIndex && isLast) await completeUnlocks(context, job);
}

/**
 * Writes all unlocks of the job to the search index, then completes the job.
 * @throws DomainError `unavailable` if the catalog does not respond. The job is then retried
 */
export async function completeUnlocks(context: JobContext, job: WorkingJob): Promise<void> {
  const { db, catalog } = context;
  // So the customer's next searches leave these prospects out.
  await catalog.syncUnlocks(await db.lookup((sql) => findUnindexedUnlocksOfJob(sql, job.customer_id, job.id)));
  await catalog.refresh();
  await settle(context, job, async () => ({ results: [], mayComplete: true }));
}

type Costs = Pick<Config, 'UNLOCK_COST'>;

const searchOf = (customerId: string, { filters, order_by }: Pick<UnlockContacts, 'filters' | 'order_by'>): Search =>
  toSearch(customerId, { filters, ...(order_by === undefined ? {} : { order_by }) });

/**
 * Plans a job that unlocks the first prospects that match the filters.
 * @param matches number of prospects that matched when the request arrived; no more are unlocked
 * @throws DomainError `not_found` with the JSON pointer of every unknown list
 */
export async function planUnlock(
  sql: Transaction,
  { customerId }: Spender,
  { UNLOCK_COST: cost }: Costs,
  { filters, order_by, total_records, ...rest }: UnlockContacts,
  matches: number,
): Promise<Plan> {
  const total = Math.min(total_records, matches);
  const { lists, sync_crm } = await destinationOf(sql, customerId, rest);
  // As an array: the column is jsonb, which does not keep the order of members.
  const order = order_by === undefined ? {} : { order_by: parseOrder(order_by) };
  const request = { filters, total_records, ...order, ...lists };
  const reserved = cost * total;
  return { type: 'unlock_contacts', sync_crm, request, total, cost, reserved, inputs: [], matches };
}

/**
 * Plans a job that unlocks the prospects with these ids. The job itself checks whether they exist.
 * @param known the prospects that the catalog found. No credits are reserved for free ones
 * @throws DomainError `not_found` with the JSON pointer of every unknown list
 */
export async function planSelectedUnlock(
  sql: Transaction,
  { customerId }: Spender,
  { UNLOCK_COST: cost }: Costs,
  { ids, ...rest }: UnlockSelectedContacts,
  known: readonly Prospect[],
): Promise<Plan> {
  const { lists: request, sync_crm } = await destinationOf(sql, customerId, rest);
  const inputs = toInputs(ids, (item) => ({ item }));
  const reserved = await maxCostOfChosen(sql, customerId, cost, ids, known);
  const [total, matches] = [ids.length, known.length];
  return { type: 'unlock_selected_contacts', sync_crm, request, total, cost, reserved, inputs, matches };
}

/** Returns where an unlock job stores its contacts. With lists, contacts are always created. */
async function destinationOf(
  sql: Transaction,
  customerId: string,
  { list_ids, sync_crm = false }: Pick<UnlockContacts, 'list_ids' | 'sync_crm'>,
): Promise<{ lists: Listing; sync_crm: boolean }> {
  const known = await requireLists(sql, customerId, list_ids);
  return { lists: known.length > 0 ? { list_ids: known } : {}, sync_crm: sync_crm || known.length > 0 };
}

const findChosen = (catalog: Pick<Catalog, 'find'>, ids: readonly string[]) => catalog.find([...new Set(ids)]);

/** Returns the prospects with these ids that the catalog has. Returns none if the catalog does not respond. */
export async function findChosenIfUp(catalog: Pick<Catalog, 'find'>, ids: readonly string[]): Promise<Prospect[]> {
  try {
    return await findChosen(catalog, ids);
  } catch (error) {
    if (isUnavailable(error)) return [];
    throw error;
  }
}

interface Progress {
  after?: ProspectPosition;
  isExhausted?: true;
}

const unlockMatching: JobBatch = async (context, job) => {
  const { after, isExhausted } = (job.progress ?? {}) as Progress;
  const limit = Math.min(unlockBatchSize(job), job.total - job.succeeded);
  if (limit === 0 || isExhausted) return completeUnlocks(context, job);
  const search = searchOf(job.customer_id, job.request as UnlockContacts);
  const found = await context.catalog.search(search, { limit, after });
  const isSearchExhausted = found.length < limit;
  await settleUnlocks(context, job, async (sql, held) => {
    const { unlocked, suppressed } = await unlockPeople(sql, held.customer_id, found, held.id);
    // Another job may have unlocked some of these prospects since the search, or the search index did not know it yet.
    // Others may have been suppressed.
    const prospects = found.filter(({ _id }) => unlocked.has(_id));
    const contacts = await toContacts(sql, held, prospects);
    const results = prospects.map((prospect, i) => unlockResult(held, held.succeeded + i + 1, prospect, contacts));
    // The values of somebody who is being erased are not kept. With nobody else, the search would never pass them.
    const last = found.findLast(({ _id }) => !suppressed.has(_id)) ?? found.at(-1);
    const progress: Progress =
      isSearchExhausted || !last ? { isExhausted: true } : { after: positionOf(last, search.order) };
    const mayComplete = isSearchExhausted || held.succeeded + results.length === held.total;
    return { results, progress, mayComplete, unlocked };
  });
};

/** Unlocks the next of a job's chosen prospects. A prospect that the customer has already unlocked costs nothing. */
const unlockSelected: JobBatch = async (context, job) => {
  const { db, catalog } = context;
  const limit = unlockBatchSize(job);
  const inputs = await db.lookup((sql) => nextInputsOf(sql, job, limit));
  const last = inputs.at(-1);
  if (!last) return completeUnlocks(context, job);
  const wanted = inputs.filter((input) => !input.is_duplicate).map(({ item }) => item);
  const prospects = await catalog.find(wanted);
  const found = new Map(prospects.map((prospect) => [prospect._id, prospect]));
  await settleUnlocks(context, job, async (sql, held) => {
    const { unlocked, suppressed } = await unlockPeople(sql, held.customer_id, prospects, held.id);
    for (const id of suppressed) found.delete(id);
    const delivered = wanted.flatMap((id) => found.get(id) ?? []);
    const contacts = await toContacts(sql, held, delivered);
    // Who was free at the start was not reserved for, and may have got an address since.
    let left = held.reserved - held.charged;
    const results = inputs.map((input): NewResult => {
      if (input.is_duplicate) return { ...nothing(input), status: 'skipped', reason: 'duplicate' };
      const prospect = found.get(input.item);
      if (!prospect) return { ...nothing(input), status: 'failed', reason: 'not_found' };
      const result = unlockResult(held, input.position, prospect, contacts, left);
      if (!unlocked.has(input.item)) return { ...result, status: 'skipped', reason: 'already_unlocked', charged: 0 };
      left -= result.charged;
      return result;
    });
    return { results, progress: { position: last.position }, mayComplete: inputs.length < limit, unlocked };
  });
};

const nothing = ({ position, item }: JobInput) => ({ position, item, charged: 0 });

export const unlockByFilter: JobCode = {
  start: {
    find: ({ catalog, caller }, body: UnlockContacts) => catalog.count(searchOf(caller.customerId, body)),
    plan: planUnlock,
  },
  batch: unlockMatching,
  remaining: async (_sql, job) => {
    const total = job.total - job.succeeded;
    return { total, reserved: job.cost * total };
  },
};

export const unlockChosen: JobCode = {
  start: {
    find: ({ catalog }, { ids, dry_run }: UnlockSelectedContacts) =>
      dry_run ? findChosen(catalog, ids) : findChosenIfUp(catalog, ids),
    plan: planSelectedUnlock,
  },
  batch: unlockSelected,
  remaining: async (sql, job, to) => {
    const { total, items } = await takeOpenInputs(sql, job, to);
    return { total, reserved: await maxCostOfChosen(sql, job.customer_id, job.cost, items, []) };
  },
};
