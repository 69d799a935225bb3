import { addressKey } from '../normalise.ts';
import { contactsOfDuplicates, saveVerifications, type ContactVerification } from '../queries/contact-verifications.ts';
import { nextInputs, type JobInput, type JobRow, type NewResult } from '../queries/jobs.ts';
import type { LeasedJob } from '../queries/turns.ts';
import type { Verification } from '../schemas/verification.ts';
import type { JobContext } from './handler.ts';
import { settle } from './settle.ts';
import type { Slice } from './turns.ts';

/** Addresses of a slice, which are verified at once. */
const sliceSize = 200;
/** How often what is verified is settled (ms), so that progress is seen, and little is verified twice after a crash. */
const settleMs = 500;
/** After so long (ms) what still waits for its turn at its domain is left to the job's next turn: others want theirs. */
const sliceMs = 8_000;

/** An address that is verified, and not settled yet. */
interface Verified {
  input: JobInput;
  /** None of a duplicate. */
  verification?: Verification;
}

/** Verifies addresses, and writes what becomes of them to the contacts they are for, if the job is to. */
export const verifyEmails: Slice = async (context, job, signal) => {
  const { position: after } = (job.progress ?? { position: 0 }) as { position: number };
  const inputs = await context.db.lookup((sql) =>
    nextInputs(sql, job.customer_id, job.id, { after, limit: sliceSize }),
  );
  const sharing = await contactsSharing(context, job);
  const work = new Work(context, inputs, signal);
  try {
    for (let isOver = false; !isOver;) {
      isOver = await work.pause();
      const verified = work.take();
      if (verified.length === 0 && inputs.length > 0) continue;
      const position = (work.firstUnsettled ?? (inputs.at(-1)?.position ?? after) + 1) - 1;
      await settle(context, job, async (sql, held) => {
        if (held.sync_crm) await saveVerifications(sql, held.customer_id, verified.flatMap(forContacts(sharing)));
        const results = verified.map((one) => resultOf(held, one));
        const isLast = held.succeeded + held.failed + held.skipped + results.length === held.total;
        return { results, progress: { position }, isLast };
      });
    }
  } finally {
    work.end();
  }
};

/** Addresses that are verified at once, as far as their domains allow. */
class Work {
  readonly #unsettled: Map<number, JobInput>;
  readonly #ended = new AbortController();
  /** Resolves when there is nothing to wait for any more. */
  readonly #over: Promise<true>;
  #verified: Verified[] = [];

  constructor({ verifier }: JobContext, inputs: readonly JobInput[], signal: AbortSignal) {
    this.#unsettled = new Map(inputs.map((input) => [input.position, input]));
    const late = AbortSignal.any([signal, this.#ended.signal, AbortSignal.timeout(sliceMs)]);
    const verify = async (input: JobInput): Promise<void> => {
      const one = input.is_duplicate ? { input } : { input, verification: await verifier.verify(input.item, late) };
      this.#verified.push(one);
    };
    const all = inputs.map((input) =>
      verify(input).catch((error: unknown) => {
        // Sent away while it waited for its turn: the next slice takes it up.
        if (!late.aborted) throw error;
      }),
    );
    // Told to stop, what is under way is left to another worker.
    const stopped = new Promise<true>((resolve) => {
      signal.addEventListener('abort', () => resolve(true), { once: true });
      if (signal.aborted) resolve(true);
    });
    this.#over = Promise.race([Promise.all(all).then(() => true as const), stopped]);
  }

  /** The position of the first address that was not taken. */
  get firstUnsettled(): number | undefined {
    return this.#unsettled.keys().next().value;
  }

  /** Waits until there may be something to settle; answers whether it was for the last time. */
  async pause(): Promise<boolean> {
    let timer: NodeJS.Timeout | undefined;
    const tick = new Promise<false>((resolve) => (timer = setTimeout(() => resolve(false), settleMs)));
    try {
      return await Promise.race([this.#over, tick]);
    } finally {
      clearTimeout(timer);
    }
  }

  /** What was verified since the last time. */
  take(): Verified[] {
    const taken = this.#verified;
    this.#verified = [];
    for (const { input } of taken) this.#unsettled.delete(input.position);
    return taken;
  }

  /** Nobody waits for the rest. */
  end(): void {
    this.#ended.abort();
  }
}

/** The contacts of inputs that repeat an address, by address: what becomes of it is for them too. */
async function contactsSharing({ db }: JobContext, job: LeasedJob): Promise<Map<string, string[]>> {
  const sharing = new Map<string, string[]>();
  if (!job.sync_crm) return sharing;
  const duplicates = await db.lookup((sql) => contactsOfDuplicates(sql, job.customer_id, job.id));
  for (const { item, contact_ids } of duplicates)
    sharing.set(addressKey(item), [...(sharing.get(addressKey(item)) ?? []), ...contact_ids]);
  return sharing;
}

const forContacts =
  (sharing: Map<string, string[]>) =>
  ({ input, verification }: Verified): ContactVerification[] => {
    if (!verification) return [];
    const contactIds = [...new Set([...input.contact_ids, ...(sharing.get(addressKey(input.item)) ?? [])])];
    return [{ address: input.item, status: verification.status, contactIds }];
  };

function resultOf({ cost }: JobRow, { input, verification }: Verified): NewResult {
  const { position, item, contact_ids } = input;
  const about = { position, item, contact_id: contact_ids.length === 1 ? contact_ids[0]! : null };
  if (!verification) return { ...about, status: 'skipped', reason: 'duplicate', charged: 0 };
  // Who was asked did not know: not for the customer to pay.
  const charged = verification.status === 'unknown' ? 0 : cost;
  return { ...about, status: 'succeeded', charged, result: verification };
}
