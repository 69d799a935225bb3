import type { Spender } from '../access/credentials.ts';
import type { Config } from '../process/config.ts';
import type { Database, Transaction } from '../database/db.ts';
import { conflict, missingReferences, validationFailed } from '../errors.ts';
import { contactSource } from '../filters/columns.ts';
import { parseRecordQuery } from '../filters/parse.ts';
import { readIds } from '../queries/crm/record-pages.ts';
import { findContactIds } from '../queries/records/deferred-writes.ts';
import { enrichedFields, maxEnriched, type EnrichContacts, type EnrichEstimate } from '../schemas/clean-data.ts';
import type { Estimate, ItemReason } from '../schemas/jobs.ts';
import { maxWithin, toInputs, priceOf, takeOpenInputs } from './start-job.ts';
import type { JobCode, Plan, PlanServices } from './start-job.ts';
import { matchPeople, type Match, type MatchQuery } from '../catalog/matching.ts';
import { countryCodes, type CountryCodes } from '../files/phones.ts';
import { lockAndFindSuppressed } from '../queries/jobs/privacy.ts';
import { findUnlocked, insertUnlocks } from '../queries/jobs/unlocks.ts';
import { enrichmentOf, lockEnrichments, readEnriched, writeEnrichments } from '../queries/crm/enrichment.ts';
import type { EnrichedContact, Enrichment, EnrichOptions, LockedEnrichments } from '../queries/crm/enrichment.ts';
import type { JobInput } from '../queries/jobs/runs.ts';
import type { JobRow, NewResult } from '../queries/jobs/jobs.ts';
import type { Prospect } from '../schemas/prospects.ts';
import { nextInputsOf, type JobBatch } from './turns.ts';
import { completeUnlocks, settleUnlocks } from './unlocks.ts';

/**
 * Returns the distinct ids of the contacts that a request selects by ids or by filters.
 * @throws DomainError `validation_failed` if the request has both or neither; `not_found` with one fault for each
 * unknown id; `conflict` if more than `maxEnriched` contacts match
 */
async function findEnriched(
  { db, caller: { customerId } }: PlanServices,
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

async function planEnrichment(
  _sql: Transaction,
  _spender: Spender,
  { UNLOCK_COST: cost }: Config,
  { fields = [...enrichedFields], overwrite = false, max_credits }: EnrichContacts,
  ids: readonly string[],
): Promise<Plan> {
  const request = { fields: [...new Set(fields)], overwrite };
  const [total, reserved] = [ids.length, maxWithin(cost, ids.length, max_credits)];
  const inputs = toInputs(ids, (item) => ({ item }));
  return { type: 'enrich_contacts', sync_crm: true, request, cost, total, reserved, inputs, matches: total };
}

export const toEnrichEstimate = ({ matches: contacts, ...price }: Estimate): EnrichEstimate => ({ contacts, ...price });

const maxBatchSize = 100;

interface Item {
  input: JobInput;
  contact: EnrichedContact | undefined;
  reason: Extract<ItemReason, 'not_found' | 'duplicate' | 'no_match' | 'ambiguous'> | undefined;
  prospect: Prospect | undefined;
}

const enrichContacts: JobBatch = async (context, job) => {
  const { db, catalog } = context;
  const codeOf = await countryCodes();
  const options = job.request as EnrichOptions;
  const inputs = await db.lookup((sql) => nextInputsOf(sql, job, maxBatchSize));
  const last = inputs.at(-1);
  if (!last) return completeUnlocks(context, job);
  const ids = inputs.map(({ item }) => item);
  const contacts = await db.search((sql) => readEnriched(sql, job.customer_id, ids));
  const items = itemsOf(inputs, contacts);
  const open = items.filter(({ reason }) => reason === undefined);
  const wanted = open.map(({ contact }) => wantedOf(contact!));
  const matches = await matchPeople(catalog, wanted, codeOf);
  for (const [i, item] of open.entries()) setMatch(item, matches[i]!);
  await settleUnlocks(context, job, async (sql, held) => ({
    ...(await enrichAll(sql, held, items, codeOf, options)),
    progress: { position: last.position },
    mayComplete: inputs.length < maxBatchSize,
  }));
};

/**
 * Pairs the inputs of a batch with their contacts. After a merge, two inputs can name one contact: the second is marked
 * `duplicate`.
 */
function itemsOf(inputs: readonly JobInput[], contacts: ReadonlyMap<string, EnrichedContact>): Item[] {
  const seen = new Set<string>();
  return inputs.map((input) => {
    const contact = contacts.get(input.item);
    const isAgain = contact !== undefined && seen.size === seen.add(contact.id).size;
    const reason = input.is_duplicate || isAgain ? 'duplicate' : contact ? undefined : 'not_found';
    return { input, contact, reason, prospect: undefined };
  });
}

const wantedOf = (contact: EnrichedContact): MatchQuery => ({
  emails: [contact.work_email, contact.personal_email ?? '', ...(contact.other_emails ?? [])],
  profnet_url: contact.profnet_url,
  first_name: contact.first_name,
  last_name: contact.last_name,
  company_name: contact.company_name ?? '',
  location_country: contact.location_country,
});

function setMatch(item: Item, { found: [prospect, ...others] }: Match): void {
  if (!prospect) item.reason = 'no_match';
  else if (others.length > 0) item.reason = 'ambiguous';
  else item.prospect = prospect;
}

/** Thrown to roll back unlocks of people whose data would not change any contact. */
class UselessUnlocks extends Error {
  readonly prospectIds: ReadonlySet<string>;

  constructor(prospectIds: ReadonlySet<string>) {
    super('Some people would be unlocked in vain');
    this.prospectIds = prospectIds;
  }
}

// Unlocks people before it locks contacts, as every other job does. So people are chosen by data that was read before.
/**
 * Unlocks matched people within the reserved credits, and fills the contacts with their data. If someone's data would
 * change no contact, tries again without that person.
 */
async function enrichAll(
  sql: Transaction,
  held: JobRow,
  items: readonly Item[],
  codeOf: CountryCodes,
  options: EnrichOptions,
) {
  const { customer_id: customerId } = held;
  await leaveOutSuppressed(sql, items);
  const matched = items.filter(({ prospect }) => prospect);
  const ids = [...new Set(matched.map(({ prospect }) => prospect!._id))];
  const known = await findUnlocked(sql, customerId, ids);
  let wanted = choose(
    held,
    matched,
    known,
    (item) => enrichmentOf(item.contact!, item.prospect!, codeOf, options).changed.length > 0,
  );
  for (;;) {
    try {
      const chosen = wanted;
      const { locked, unlocked } = await unlockAndLock(sql, held, { matched, chosen }, codeOf, options);
      const free = new Set([...known, ...chosen]);
      const applied = matched.flatMap(({ input, prospect }) => {
        const enrichment = locked.enrichments.get(input.item);
        return enrichment && enrichment.changed.length > 0 && free.has(prospect!._id) ? enrichment : [];
      });
      await writeEnrichments(sql, customerId, locked, applied);
      return { results: resultsOf(held, items, { locked, unlocked, free }), unlocked };
    } catch (error) {
      if (!(error instanceof UselessUnlocks)) throw error;
      wanted = wanted.difference(error.prospectIds);
    }
  }
}

/**
 * Marks an item as `no_match` if its person was suppressed (excluded by the privacy rules) after the match. Holds a
 * lock, so nobody else is suppressed before the commit.
 */
async function leaveOutSuppressed(sql: Transaction, items: readonly Item[]): Promise<void> {
  const prospects = items.flatMap(({ prospect }) => prospect ?? []);
  const suppressed = await lockAndFindSuppressed(sql, prospects);
  for (const item of items)
    if (item.prospect && suppressed.has(item.prospect._id)) {
      item.reason = 'no_match';
      item.prospect = undefined;
    }
}

function choose(held: JobRow, matched: readonly Item[], known: ReadonlySet<string>, fills: (item: Item) => boolean) {
  const chosen = new Set<string>();
  let left = held.reserved - held.charged;
  for (const item of matched) {
    const { _id: id } = item.prospect!;
    const cost = priceOf(held.cost, item.prospect!);
    if (known.has(id) || chosen.has(id) || cost > left || !fills(item)) continue;
    chosen.add(id);
    left -= cost;
  }
  return chosen;
}

/**
 * Unlocks the chosen people and locks the matched contacts, in a savepoint.
 * @throws UselessUnlocks, with both undone, if the data of some people would not change any contact
 */
async function unlockAndLock(
  sql: Transaction,
  { customer_id: customerId, id: jobId }: JobRow,
  { matched, chosen }: { matched: readonly Item[]; chosen: Set<string> },
  codeOf: CountryCodes,
  options: EnrichOptions,
): Promise<{ locked: LockedEnrichments; unlocked: Set<string> }> {
  return sql.savepoint(async (nested) => {
    const attempt = nested as Transaction;
    const unlocked = new Set(await insertUnlocks(attempt, customerId, [...chosen], jobId));
    const given = new Map(matched.map(({ input, prospect }) => [input.item, prospect!]));
    const locked = await lockEnrichments(attempt, customerId, given, codeOf, options);
    const used = new Set(
      [...locked.enrichments.values()].flatMap(({ changed, prospect }) => (changed.length > 0 ? prospect._id : [])),
    );
    const wasted = unlocked.difference(used);
    if (wasted.size > 0) throw new UselessUnlocks(wasted);
    return { locked, unlocked };
  });
}

// A free result must not reveal whether a person who is not unlocked has the contact's address.
/**
 * Returns the result and price of each item. Charges a newly unlocked person once. A person who stays locked is
 * reported as `no_match`, or `max_credits` if credits are used up.
 */
function resultsOf(
  held: JobRow,
  items: readonly Item[],
  { locked, unlocked, free }: { locked: LockedEnrichments; unlocked: ReadonlySet<string>; free: ReadonlySet<string> },
): NewResult[] {
  const charged = new Set<string>();
  let left = held.reserved - held.charged;
  return items.map(({ input: { position, item }, reason, prospect }): NewResult => {
    if (reason === 'not_found') return { position, item, status: 'failed', reason, charged: 0 };
    const skipped = { position, item, contact_id: item, status: 'skipped', charged: 0 } as const;
    if (reason === 'duplicate') return { ...skipped, reason };
    const unknown = left < held.cost ? 'max_credits' : (reason ?? 'no_match');
    if (reason !== undefined) return { ...skipped, reason: unknown };
    const enrichment = locked.enrichments.get(item);
    if (!enrichment) return { position, item, status: 'failed', reason: 'not_found', charged: 0 };
    const given = { ...skipped, contact_id: enrichment.contact.id };
    const { _id: id } = prospect!;
    if (!free.has(id)) return { ...given, reason: unknown };
    const result = resultOf(enrichment);
    if (enrichment.changed.length === 0) return { ...given, reason: 'nothing_new', result };
    const cost = unlocked.has(id) && !charged.has(id) ? priceOf(held.cost, prospect!) : 0;
    charged.add(id);
    left -= cost;
    return { ...given, status: 'succeeded', charged: cost, result };
  });
}

const resultOf = ({ prospect: { _id: prospect_id }, changed }: Enrichment) => ({ prospect_id, changed });

export const enrichment: JobCode = {
  start: { find: findEnriched, plan: planEnrichment, toEstimate: toEnrichEstimate },
  batch: enrichContacts,
  // The retry reserves at most what the first job reserved and did not spend.
  remaining: async (sql, job, to) => {
    const { total, items } = await takeOpenInputs(sql, job, to);
    return { total, reserved: maxWithin(job.cost, items.length, job.reserved - job.charged) };
  },
};
