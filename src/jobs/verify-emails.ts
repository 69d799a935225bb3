import type { Spender } from '../access/credentials.ts';
import type { Config } from '../process/config.ts';
import type { Transaction } from '../database/db.ts';
import { countReusable, findReusable, lockVerified, saveVerifications } from '../queries/crm/enrichment.ts';
import { sinceNow, sinceOfJob, type ContactVerification } from '../queries/crm/enrichment.ts';
import { countListAddresses, insertListInputs } from '../queries/crm/list-emails.ts';
import { requireReferences } from '../queries/records/references.ts';
import type { VerifyEmail, VerifyList } from '../schemas/jobs.ts';
import { takeOpenInputs, toInputs, type JobCode, type Plan } from './start-job.ts';
import { findDuplicateInputs, findNextEmails, type EmailInput, type JobInput } from '../queries/jobs/runs.ts';
import { reuseHoursOf, setWaiting, type JobRow, type NewResult, type Reusing } from '../queries/jobs/jobs.ts';
import type { Verification } from '../schemas/verification.ts';
import { emailKey, fold } from '../text/fold.ts';
import { withLinkedAbort } from '../process/event-loop.ts';
import { isDoubted } from '../verification/mail-hosts.ts';
import { inAttempt, type WorkingJob, type JobContext, settle, completedUpTo, type JobBatch } from './turns.ts';

type Settings = Pick<Config, 'VERIFY_COST' | 'VERIFY_REUSE_HOURS'>;

const reuseHours = ({ VERIFY_REUSE_HOURS }: Settings, { fresh = false }: { fresh?: boolean }): number =>
  fresh ? 0 : VERIFY_REUSE_HOURS;

/**
 * Plans a job that verifies emails. A repeated email (in any case) is verified and charged once. Emails with a reusable
 * result are free.
 * @throws DomainError `not_found` with one fault for each unknown contact
 */
async function planEmailVerification(
  sql: Transaction,
  { customerId }: Spender,
  settings: Settings,
  body: VerifyEmail,
): Promise<Plan> {
  const { emails, sync_crm = false } = body;
  const contacts = emails.flatMap(({ contact_id: id }, i) =>
    id === undefined ? [] : [{ noun: 'contact' as const, id, path: `/emails/${i}/contact_id` }],
  );
  await requireReferences(sql, customerId, contacts);
  const inputs = toInputs(
    emails,
    ({ email, contact_id: id }) => ({ item: email, address: fold(email), contact_ids: id === undefined ? [] : [id] }),
    emailKey,
  );
  const addresses = inputs.flatMap(({ is_duplicate, address }) => (is_duplicate ? [] : address!));
  const reuse_hours = reuseHours(settings, body);
  const reusable = await findReusable(sql, customerId, addresses, sinceNow(sql, reuse_hours));
  const cost = settings.VERIFY_COST;
  const reserved = addresses.filter((address) => !reusable.has(address)).length * cost;
  const request = { reuse_hours } satisfies Reusing;
  const [total, matches] = [inputs.length, addresses.length];
  return { type: 'verify_email', sync_crm, request, cost, total, reserved, inputs, matches, records: matches };
}

/**
 * Plans a job that verifies the work emails of all contacts in a list, and stores the outcomes with the contacts.
 * @throws DomainError `not_found`; `conflict` if the list has too many contacts
 */
async function planListVerification(
  sql: Transaction,
  { customerId }: Spender,
  settings: Settings,
  { list_id, ...body }: VerifyList & { list_id: string },
): Promise<Plan> {
  const cost = settings.VERIFY_COST;
  const reuse_hours = reuseHours(settings, body);
  const request = { list_id, reuse_hours } satisfies Reusing & { list_id: string };
  const { addresses, reusable } = await countListAddresses(sql, customerId, list_id, reuse_hours);
  const sizeOf = (total: number, free: number) => ({ total, reserved: (total - free) * cost });
  // The list can change between the two statements.
  const inputs = async (_sql: Transaction, jobId: string) => {
    const total = await insertListInputs(sql, customerId, jobId, list_id);
    return sizeOf(total, await countReusable(sql, customerId, jobId, reuse_hours));
  };
  const size = sizeOf(addresses, reusable);
  return { type: 'verify_list', sync_crm: true, request, cost, ...size, inputs, matches: addresses };
}

const batchSize = 200;
// A slow domain must not delay the emails of others.
/** Milliseconds after which a batch starts no more mailbox checks. Emails that still wait are left to a later batch. */
const beginMs = 8_000;

const maxContactsAtOnce = 1_000;

const verifyNext: JobBatch = async (context, job, signal) => {
  const { db } = context;
  const { id, customer_id: customerId } = job;
  const mayWait = !job.has_waited;
  const after = completedUpTo(job);
  const next = { after, limit: batchSize, reuseHours: reuseHoursOf(job) };
  const inputs = await db.lookup((sql) => findNextEmails(sql, customerId, id, next));
  const { verified, hasDoubts } = await verifyAll(context, inputs, { customerId, signal, mayWait });
  const waits = hasDoubts && mayWait;
  const waitsNoMore = job.is_waiting && !hasDoubts;
  if (verified.length === 0 && inputs.length > 0 && !waits && !waitsNoMore) return;
  if (waits) context.log.warn('the name server knows no domain; a verification waits');
  const duplicates = await db.lookup((sql) => findDuplicateInputs(sql, customerId, id));
  const byAddress = Map.groupBy(duplicates, addressOf);
  const items: Item[] =
    inputs.length === 0
      ? duplicates.map((input) => ({ input }))
      : verified.flatMap((email) => [email, ...duplicatesOf(email, byAddress).map((input) => ({ input }))]);
  const last = await saveAllButLast(context, job, items, byAddress);
  // Where the next search for inputs begins. A duplicate gets its result with an earlier input.
  const progress = { position: inputs[0] ? inputs[0].position - 1 : after };
  await settle(context, job, async (sql, held) => {
    if (waits || waitsNoMore) await setWaiting(sql, customerId, held.id, waits);
    await saveVerifications(sql, customerId, last);
    const results = price(held, await markReused(sql, held, items));
    return { results, progress, mayComplete: true, ...(waits && { pauseForSeconds: waitSeconds }) };
  });
};

/**
 * Verifies emails, or reuses earlier results. Waits for all started checks. If the worker must stop, waits only for a
 * short time.
 * @param batch `mayWait`: what happens to an email while the name server is not trusted. True: a later batch verifies
 *   it. False: its outcome is `unknown`
 * @returns the emails with an outcome. `hasDoubts`: true if the name server was not trusted for some emails
 */
async function verifyAll(
  { verifier, config, stopping }: JobContext,
  inputs: readonly EmailInput[],
  { customerId, signal, mayWait }: { customerId: string; signal: AbortSignal; mayWait: boolean },
): Promise<{ verified: Item[]; hasDoubts: boolean }> {
  const gaveUp = Promise.withResolvers<undefined>();
  let hasDoubts = false;
  const verified = await withLinkedAbort(signal, async (late) => {
    const giveUp = () => void setTimeout(gaveUp.resolve, stopping.aborted ? graceMs(config) : 0, undefined).unref();
    if (signal.aborted) giveUp();
    else signal.addEventListener('abort', giveUp, { once: true });
    const timer = setTimeout(() => late.abort(), beginMs);
    const verify = async (input: EmailInput): Promise<Item | undefined> => {
      if (input.earlier) return { input, verification: { ...input.earlier, reused: true } };
      const verification = await verifier.verify(input.item, late.signal, customerId).catch((error: unknown) => {
        if (!late.signal.aborted) throw error;
        return undefined; // it still waited for its mailbox check
      });
      if (!verification || !isDoubted(verification)) return verification && { input, verification };
      hasDoubts = true;
      if (!mayWait) return { input, verification: { ...verification, status: 'unknown' } };
      late.abort();
      return undefined;
    };
    try {
      return await Promise.all(inputs.map((input) => Promise.race([verify(input), gaveUp.promise])));
    } finally {
      clearTimeout(timer);
    }
  });
  return { verified: verified.filter((item) => item !== undefined), hasDoubts };
}

/**
 * Milliseconds that a worker waits for verifications when it shuts down. The rest of `SHUTDOWN_MS` is for storing the
 * results.
 */
const graceMs = ({ SHUTDOWN_MS }: JobContext['config']): number => Math.max(SHUTDOWN_MS / 2, SHUTDOWN_MS - 2_000);

const waitSeconds = 20;

type Duplicates = ReadonlyMap<string, readonly JobInput[]>;

const addressOf = ({ item }: JobInput): string => emailKey(item);

const duplicatesOf = ({ input }: Item, byAddress: Duplicates) => byAddress.get(addressOf(input)) ?? [];

interface Item {
  input: JobInput;
  verification?: Verification;
}

// If the worker dies before the last group is stored, the batch is repeated for all contacts.
/**
 * With the job's option `sync_crm`, stores the outcomes with the contacts, in groups of limited size. Does not store
 * the last group.
 * @returns the outcomes of the last group, to be stored together with the results
 */
async function saveAllButLast({ db }: JobContext, job: WorkingJob, items: readonly Item[], duplicates: Duplicates) {
  if (!job.sync_crm) return [];
  const outcomes = items.flatMap((item) => forContacts(item, duplicates));
  const size = maxContactsAtOnce;
  const groups = Array.from({ length: Math.ceil(outcomes.length / size) }, (_, i) =>
    outcomes.slice(i * size, (i + 1) * size),
  );
  for (const group of groups.slice(0, -1))
    await inAttempt(db, job, (sql) => saveVerifications(sql, job.customer_id, group));
  return groups.at(-1) ?? [];
}

function forContacts(item: Item, duplicates: Duplicates): ContactVerification[] {
  const { input, verification } = item;
  if (!verification) return [];
  const inputs = [input, ...duplicatesOf(item, duplicates)];
  const contactIds = new Set(inputs.flatMap(({ contact_ids }) => contact_ids));
  return Array.from(contactIds, (contactId) => ({ address: input.item, status: verification.status, contactId }));
}

/**
 * Marks verifications as reused (free) if their address was verified meanwhile by another job, or by an earlier item.
 */
async function markReused(sql: Transaction, job: JobRow, items: readonly Item[]): Promise<Item[]> {
  const hours = reuseHoursOf(job);
  const addresses = items.flatMap((item) => reusableAddress(item) ?? []);
  if (hours === 0 || addresses.length === 0) return [...items];
  const verified = await lockVerified(sql, job.customer_id, addresses, sinceOfJob(sql, job.id, hours));
  return items.map((item) => {
    const address = reusableAddress(item);
    const isKnown = address !== null && verified.size === verified.add(address).size;
    return isKnown ? { ...item, verification: { ...item.verification!, reused: true } } : item;
  });
}

/** Returns the address if later jobs can reuse its result: this job verified it, and the outcome is clear. */
const reusableAddress = ({ input, verification }: Item): string | null =>
  verification && !verification.reused && verification.status !== 'unknown' ? input.address : null;

/** Returns the results with their prices. Duplicates, reused outcomes and unknown outcomes are free. */
function price(job: JobRow, items: readonly Item[]): NewResult[] {
  // Never more than was reserved, even if a result that the start could reuse is gone.
  let left = job.reserved - job.charged;
  return items.map((item) => {
    const { verification } = item;
    if (!verification) return { ...aboutOf(item), status: 'skipped', reason: 'duplicate', charged: 0 };
    const charged = verification.reused || verification.status === 'unknown' ? 0 : Math.min(job.cost, left);
    left -= charged;
    const verified_address = reusableAddress(item);
    return { ...aboutOf(item), status: 'succeeded', charged, result: verification, verified_address };
  });
}

const aboutOf = ({ input: { position, item, contact_ids } }: Item) => ({
  position,
  item,
  contact_id: contact_ids.length === 1 ? contact_ids[0]! : null,
});

const verifying = {
  batch: verifyNext,
  remaining: async (sql, job, to) => {
    const { total, items } = await takeOpenInputs(sql, job, to);
    const reusable = await countReusable(sql, job.customer_id, to, reuseHoursOf(job));
    return { total, reserved: (items.length - reusable) * job.cost };
  },
} satisfies JobCode;

export const verifyMembers: JobCode = { ...verifying, start: { plan: planListVerification } };

export const verifyEmails: JobCode = { ...verifying, start: { plan: planEmailVerification } };
