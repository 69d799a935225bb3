import type { Transaction } from '../../database/db.ts';
import { retryLevel } from '../../database/outages.ts';
import { isUnavailable } from '../../errors.ts';
import { saveVerifications, type ContactVerification } from '../../queries/crm/contact-verifications.ts';
import { lockVerified, sinceOfJob } from '../../queries/records/earlier-verifications.ts';
import { contactsAtOnce } from '../../queries/memberships/list-rule-limits.ts';
import {
  findDuplicateInputs,
  findFirstOpenInput,
  findNextEmails,
  findSettledPositions,
  type JobInput,
} from '../../queries/jobs/job-inputs.ts';
import { endWait, hasWaitedTooLong, waitForNameServer } from '../../queries/jobs/job-waits.ts';
import { backOff, type LeasedJob } from '../../queries/jobs/leases.ts';
import { reuseHoursOf, type JobRow, type NewResult } from '../../queries/jobs/jobs.ts';
import type { Verification } from '../../schemas/verification.ts';
import { emailKey } from '../../text/normalise.ts';
import { EmailsInFlight } from './emails-in-flight.ts';
import type { JobContext } from '../handler.ts';
import { settle, settledUpTo, underLease, type Delivery } from '../settle.ts';
import type { JobBatch } from '../turns.ts';

/** After this time a batch that waits for slow mail servers continues in the background. */
const yieldMs = 10_000;

/** Maximum number of contacts with which one transaction stores outcomes: thousands can have the same email. */
const maxContactsAtOnce = 1_000;

/**
 * Stores each outcome soon after the verification ends, and also with the contacts if the job has the option
 * `sync_crm`.
 */
export const verifyEmails: JobBatch = async (context, job, signal, continueInBackground) => {
  const duplicates = await context.db.lookup((sql) => findDuplicateInputs(sql, job.customer_id, job.id));
  const mayWait =
    job.waiting_since === null || !(await context.db.lookup((sql) => hasWaitedTooLong(sql, job.customer_id, job.id)));
  const work = new EmailsInFlight(context, job.customer_id, signal, mayWait);
  const yieldTimer = setTimeout(continueInBackground, yieldMs);
  const step = stepOf(context, job, work, new Duplicates(duplicates));
  let isCompleted = false;
  try {
    while (!isCompleted && !work.isOver) {
      isCompleted = await step().catch(async (error: unknown) => {
        if (!isUnavailable(error) || work.size === 0 || work.isAbandoned) throw error;
        context.log[retryLevel(error)]({ err: error }, 'verified emails could not be settled yet; retrying');
        await work.sleep();
        return false;
      });
    }
  } finally {
    clearTimeout(yieldTimer);
    work.end();
  }
  if (work.fault !== undefined) throw work.fault;
  if (!isCompleted && !work.isAbandoned) await noteWait(context, job, { hasDoubts: work.hasDoubts, mayWait });
};

/** After this time a job that waits for the name server tries again (seconds). */
const waitSeconds = 20;

/** Stores whether the job waits for the name server. If so, lets it rest before its next batch. */
async function noteWait(
  { db, log }: JobContext,
  job: LeasedJob,
  { hasDoubts, mayWait }: { hasDoubts: boolean; mayWait: boolean },
): Promise<void> {
  const { customer_id: customerId } = job;
  if (hasDoubts && mayWait) {
    log.warn('the name server knows no domain; a verification waits');
    await underLease(db, job, async (sql, held) => {
      await waitForNameServer(sql, customerId, held.id);
      await backOff(sql, customerId, job, { seconds: waitSeconds, failed: false });
    });
  } else if (!hasDoubts && job.waiting_since !== null)
    await underLease(db, job, (sql, held) => endWait(sql, customerId, held.id));
}

/**
 * Returns a step: starts more verifications, waits up to 500 ms, and stores finished ones. The step returns true if the
 * job is COMPLETED.
 */
function stepOf(
  context: JobContext,
  job: LeasedJob,
  work: EmailsInFlight,
  duplicates: Duplicates,
): () => Promise<boolean> {
  const source = new Source(context, job);
  return async () => {
    const isExhausted = await source.takeInto(work);
    await work.pause();
    const verified = work.verified;
    if (verified.length === 0 && !isExhausted) return false;
    const items = isExhausted ? duplicates.all : verified.flatMap((email) => [email, ...duplicates.of(email.input)]);
    const last = await saveAllButLast(context, job, items, duplicates);
    const settled = await settle(context, job, (sql, held) => deliver(sql, held, items, last));
    source.after = settledUpTo(settled);
    work.release(verified);
    return settled.isCompleted;
  };
}

/** Reads a job's emails without a result, and starts their verification. */
class Source {
  readonly #context: JobContext;
  readonly #job: LeasedJob;
  /** Domains of all emails whose verification has not started. Undefined if they are not known. */
  #rest: readonly string[] | undefined;
  /** Position up to which all inputs have their results. */
  after: number;

  constructor(context: JobContext, job: LeasedJob) {
    this.#context = context;
    this.#job = job;
    this.after = settledUpTo(job);
  }

  /**
   * Starts more verifications, up to the capacity of `work`.
   * @returns true if no email of the job is left to verify
   */
  async takeInto(work: EmailsInFlight): Promise<boolean> {
    for (let room = work.capacity, begun = 0; room > 0; room -= begun) {
      const full = work.fullDomains;
      // All remaining emails belong to full domains, so a query would find none.
      if (this.#rest?.every((domain) => full.includes(domain)) && work.size > 0) return false;
      const limit = room + work.size;
      const inputs = await this.#read(full, limit);
      begun = work.begin(inputs, room);
      // The time to start emails can end during the read. Then nothing was started, and nothing would be next time.
      if (work.capacity === 0) return false;
      if (inputs.length === 0 && full.length === 0) return work.size === 0;
      if (inputs.length < limit && begun < room) {
        this.#rest = work.fullDomains;
        return false;
      }
    }
    return false;
  }

  #read(without: readonly string[], limit: number) {
    const { customer_id: customerId, id } = this.#job;
    const reuseHours = reuseHoursOf(this.#job);
    return this.#context.db.lookup((sql) =>
      findNextEmails(sql, customerId, id, { after: this.after, without, limit, reuseHours }),
    );
  }
}

/** Inputs whose email also occurs in an earlier one, with which they get their result. */
class Duplicates {
  readonly #byAddress: Map<string, JobInput[]>;
  readonly all: readonly Item[];

  constructor(inputs: readonly JobInput[]) {
    this.all = inputs.map((input) => ({ input }));
    this.#byAddress = Map.groupBy(inputs, ({ item }) => emailKey(item));
  }

  of({ item }: JobInput): Item[] {
    return (this.#byAddress.get(emailKey(item)) ?? []).map((input) => ({ input }));
  }
}

interface Item {
  input: JobInput;
  /** Undefined for a duplicate input. */
  verification?: Verification;
}

/**
 * If the job has the option `sync_crm`, stores the outcomes with the contacts, in transactions of limited size. The
 * last group of contacts is stored together with the results. A worker that dies before that repeats the verification,
 * and stores its outcome with all contacts again.
 * @returns the outcomes for the last group
 */
async function saveAllButLast(
  { db }: JobContext,
  job: LeasedJob,
  items: readonly Item[],
  duplicates: Duplicates,
): Promise<readonly Outcome[]> {
  if (!job.sync_crm) return [];
  const outcomes = items.flatMap(forContacts(duplicates));
  const size = await db.lookup((sql) => contactsAtOnce(sql, job.customer_id, maxContactsAtOnce));
  const groups = Array.from({ length: Math.ceil(outcomes.length / size) }, (_, i) =>
    outcomes.slice(i * size, (i + 1) * size),
  );
  for (const group of groups.slice(0, -1))
    await underLease(db, job, (sql) => saveVerifications(sql, job.customer_id, group));
  return groups.at(-1) ?? [];
}

/** Converts verified inputs to results, except those that have one, and stores `outcomes` with contacts. */
async function deliver(
  sql: Transaction,
  job: JobRow,
  items: readonly Item[],
  outcomes: readonly Outcome[],
): Promise<Delivery> {
  const { customer_id: customerId, id } = job;
  const positions = items.map(({ input }) => input.position);
  const settled = await findSettledPositions(sql, customerId, id, positions);
  const open = items.filter(({ input }) => !settled.has(input.position));
  const toSave = outcomes.filter(({ position }) => !settled.has(position));
  await saveVerifications(sql, customerId, toSave);
  // Read before these results are saved. That is enough: the position only says where the next search for inputs
  // begins.
  const after = settledUpTo(job);
  const first = await findFirstOpenInput(sql, customerId, id, after);
  const results = price(job, await markReused(sql, job, open));
  return { results, progress: { position: first === undefined ? after : first - 1 }, mayComplete: true };
}

/** The outcome of the input at `position`, for one contact. */
interface Outcome extends ContactVerification {
  position: number;
}

const forContacts =
  (duplicates: Duplicates) =>
  ({ input, verification }: Item): Outcome[] => {
    if (!verification) return [];
    const inputs = [input, ...duplicates.of(input).map((duplicate) => duplicate.input)];
    const contactIds = new Set(inputs.flatMap(({ contact_ids }) => contact_ids));
    const outcome = { position: input.position, address: input.item, status: verification.status };
    return [...contactIds].map((contactId) => ({ ...outcome, contactId }));
  };

/**
 * Marks verifications as reused (free) if another job has verified the same address meanwhile, or if an earlier item has
 * it, written with other accents.
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

/** Returns the address if later jobs can reuse the item's result: it was verified for this job, with a clear outcome. */
const reusableAddress = ({ input, verification }: Item): string | null =>
  verification && !verification.reused && verification.status !== 'unknown' ? input.address : null;

/** An unknown outcome is free: the mail server gave no clear answer. So is a reused one. */
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
