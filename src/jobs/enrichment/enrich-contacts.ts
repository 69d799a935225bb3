import { matchPeople, type Match, type Wanted } from '../../catalog/matching/match-people.ts';
import type { Transaction } from '../../database/db.ts';
import { countryCodes, type CountryCodes } from '../../files/values/country-codes.ts';
import { lockAndFindSuppressed } from '../../queries/catalog/suppressions.ts';
import { findUnlocked, insertUnlocks } from '../../queries/catalog/unlocks.ts';
import {
  enrichmentOf,
  lockEnrichments,
  readEnriched,
  writeEnrichments,
  type EnrichedContact,
  type Enrichment,
  type EnrichOptions,
  type LockedEnrichments,
} from '../../queries/crm/enrichment.ts';
import { findNextInputs, type JobInput } from '../../queries/jobs/job-inputs.ts';
import type { JobRow, NewResult } from '../../queries/jobs/jobs.ts';
import type { ItemReason } from '../../schemas/jobs.ts';
import type { Prospect } from '../../schemas/prospects.ts';
import { priceOf } from '../prices.ts';
import { settledUpTo } from '../settle.ts';
import type { JobBatch } from '../turns.ts';
import { completeUnlocks, settleUnlocks } from '../unlocks/unlocks.ts';

/** Maximum number of contacts that one batch enriches. */
const maxBatchSize = 100;

/** An input, and what is known of it before its contact is locked. */
interface Item {
  input: JobInput;
  contact: EnrichedContact | undefined;
  /** Why the contact cannot be enriched. Undefined while it may be. */
  reason: Extract<ItemReason, 'not_found' | 'duplicate' | 'no_match' | 'ambiguous'> | undefined;
  prospect: Prospect | undefined;
}

/** Finds the next contacts in the catalog, unlocks these people, and fills the contacts' fields. */
export const enrichContacts: JobBatch = async (context, job) => {
  const { db, catalog } = context;
  const codeOf = await countryCodes();
  const options = job.request as EnrichOptions;
  const inputs = await db.lookup((sql) =>
    findNextInputs(sql, job.customer_id, job.id, { after: settledUpTo(job), limit: maxBatchSize }),
  );
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

/** A contact that two inputs name, because others were merged into it, is enriched once. */
function itemsOf(inputs: readonly JobInput[], contacts: ReadonlyMap<string, EnrichedContact>): Item[] {
  const seen = new Set<string>();
  return inputs.map((input) => {
    const contact = contacts.get(input.item);
    const isAgain = contact !== undefined && seen.size === seen.add(contact.id).size;
    const reason = input.is_duplicate || isAgain ? 'duplicate' : contact ? undefined : 'not_found';
    return { input, contact, reason, prospect: undefined };
  });
}

/** The values of a contact by which it is found in the catalog. */
const wantedOf = (contact: EnrichedContact): Wanted => ({
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

/** What became of the items of a batch. */
interface Enriched {
  results: NewResult[];
  /** The people that were unlocked. */
  unlocked: Set<string>;
}

/** Some people were unlocked although nothing can be filled from them any more. Their unlocks are rolled back. */
class Wasted extends Error {
  readonly prospectIds: ReadonlySet<string>;

  constructor(prospectIds: ReadonlySet<string>) {
    super('Some people would be unlocked in vain');
    this.prospectIds = prospectIds;
  }
}

/**
 * Unlocks the people who fill something, as far as the reserved credits suffice, and fills the contacts. People are
 * unlocked before contacts are locked, as by every other job. So whom to unlock is decided by what was read before.
 */
async function enrichAll(
  sql: Transaction,
  held: JobRow,
  items: readonly Item[],
  codeOf: CountryCodes,
  options: EnrichOptions,
): Promise<Enriched> {
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
      const { locked, unlocked } = await unlockAndLock(sql, held, { matched, chosen, codeOf, options });
      const free = new Set([...known, ...chosen]);
      const applied = matched.flatMap(({ input, prospect }) => {
        const enrichment = locked.enrichments.get(input.item);
        return enrichment && enrichment.changed.length > 0 && free.has(prospect!._id) ? enrichment : [];
      });
      await writeEnrichments(sql, customerId, locked, applied);
      return { results: resultsOf(held, items, { locked, unlocked, free }), unlocked };
    } catch (error) {
      if (!(error instanceof Wasted)) throw error;
      wanted = wanted.difference(error.prospectIds);
    }
  }
}

/** People who were suppressed since they were matched count as not in the catalog. No other is until the commit. */
async function leaveOutSuppressed(sql: Transaction, items: readonly Item[]): Promise<void> {
  const prospects = items.flatMap(({ prospect }) => prospect ?? []);
  const suppressed = await lockAndFindSuppressed(sql, prospects);
  for (const item of items)
    if (item.prospect && suppressed.has(item.prospect._id)) {
      item.reason = 'no_match';
      item.prospect = undefined;
    }
}

/** Returns the people to unlock: those who fill something, until the reserved credits are used up. */
function choose(
  held: JobRow,
  matched: readonly Item[],
  known: ReadonlySet<string>,
  fills: (item: Item) => boolean,
): Set<string> {
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

/** @throws Wasted, with the unlocks rolled back and the locks released, if some of the people fill nothing any more */
async function unlockAndLock(
  sql: Transaction,
  { customer_id: customerId, id: jobId }: JobRow,
  {
    matched,
    chosen,
    codeOf,
    options,
  }: { matched: readonly Item[]; chosen: Set<string>; codeOf: CountryCodes; options: EnrichOptions },
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
    if (wasted.size > 0) throw new Wasted(wasted);
    return { locked, unlocked };
  });
}

/**
 * Returns the result of each item. The first item that uses a newly unlocked person is charged. What is free does not tell
 * whether somebody who is not unlocked has the contact's address: then a person who would fill nothing is no match, and
 * whom no credits are left for is not looked for.
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
