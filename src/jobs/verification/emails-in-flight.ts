import type { EmailInput } from '../../queries/jobs/job-inputs.ts';
import type { Verification } from '../../schemas/verification.ts';
import type { JobContext } from '../handler.ts';

/** Maximum number of emails that one batch verifies at the same time. */
const maxInFlight = 1_000;
/**
 * Maximum number of emails of one domain that are verified at the same time, so that a slow domain leaves capacity for
 * others.
 */
const maxPerDomain = 50;
/** Maximum number of verifications that are started together. Each verification begins with a DNS lookup. */
const maxStarts = 200;
/** Milliseconds after which a batch starts no more verifications, so that the worker can run other jobs. */
const beginMs = 8_000;
/**
 * Milliseconds between two writes of finished verifications to the database. After a crash, the verifications that
 * ended since the last write, and those that were running, are repeated.
 */
const settleMs = 500;

/** An email and the outcome of its verification. */
export interface VerifiedEmail {
  input: EmailInput;
  verification: Verification;
}

/**
 * A set of emails whose verification has started and whose result is not stored in the database yet. Each batch has its
 * own set.
 */
export class EmailsInFlight {
  readonly #verifier: JobContext['verifier'];
  readonly #customerId: string;
  readonly #maxPerDomain: number;
  readonly #inFlight = new Map<number, EmailInput>();
  readonly #verified = new Map<number, VerifiedEmail>();
  /**
   * Aborts when no more verifications may start. Emails that still wait for their mailbox check are then removed from
   * the set, and a later batch verifies them.
   */
  readonly #late = new AbortController();
  readonly #beginTimer = setTimeout(() => this.end(), beginMs);
  #isAbandoned = false;
  #fault: unknown;
  /** Ends the current wait in `sleep` early. */
  #resume = () => undefined as void;

  /**
   * Creates an empty set of emails for one batch.
   * @param customerId Id of the customer whose job is processed.
   * @param signal Aborts when the batch must end, because the worker shuts down or has lost the lease on the job. It must
   *   not outlive the batch, because it keeps this set in memory.
   */
  constructor({ verifier, config, stopping }: JobContext, customerId: string, signal: AbortSignal) {
    this.#verifier = verifier;
    this.#customerId = customerId;
    // Without SMTP checks no domain is slow.
    this.#maxPerDomain = config.VERIFY_SMTP === 'on' ? maxPerDomain : maxInFlight;
    const stop = () => {
      this.end();
      if (stopping.aborted) this.#abandonAfter(graceMs(config));
      else this.#abandon();
    };
    if (signal.aborted) stop();
    else signal.addEventListener('abort', stop, { once: true });
  }

  /** Maximum number of verifications that may be started now. */
  get capacity(): number {
    return this.#late.signal.aborted ? 0 : Math.min(maxStarts, maxInFlight - this.#inFlight.size);
  }

  /** Number of emails in the set: verification started, result not stored yet. */
  get size(): number {
    return this.#inFlight.size;
  }

  /** Email domains that have reached the maximum number of concurrent verifications. */
  get fullDomains(): string[] {
    return [...this.#countDomains()].filter(([, count]) => count >= this.#maxPerDomain).map(([domain]) => domain);
  }

  /** Emails whose verification has finished and whose results are not stored yet. */
  get verified(): VerifiedEmail[] {
    return [...this.#verified.values()];
  }

  /**
   * True if the batch can end: all finished verifications are stored, and the batch waits for no other verification.
   */
  get isOver(): boolean {
    return this.#isAbandoned ? this.#verified.size === 0 : this.#late.signal.aborted && this.#inFlight.size === 0;
  }

  get isAbandoned(): boolean {
    return this.#isAbandoned;
  }

  /** The first unexpected error of a verification, or undefined if no such error has occurred. */
  get fault(): unknown {
    return this.#fault;
  }

  /**
   * Starts to verify emails. Skips emails that are already being verified, and emails of a domain that has reached its
   * maximum number of concurrent verifications.
   * @param max Maximum number of verifications to start.
   * @returns The number of verifications started.
   */
  begin(inputs: readonly EmailInput[], max: number): number {
    const counts = this.#countDomains();
    let begun = 0;
    for (const input of inputs) {
      const count = counts.get(input.domain) ?? 0;
      if (begun === max || this.capacity === 0) break;
      if (this.#inFlight.has(input.position) || count >= this.#maxPerDomain) continue;
      counts.set(input.domain, count + 1);
      this.#inFlight.set(input.position, input);
      void this.#verify(input);
      begun += 1;
    }
    return begun;
  }

  /** Waits up to 500 ms for running verifications. Returns at once if none is running. */
  async pause(): Promise<void> {
    if (this.#isAbandoned || !this.#isWaiting) return;
    await this.sleep();
  }

  /** Waits up to 500 ms. Ends earlier when the last running verification ends or the batch is aborted. */
  async sleep(): Promise<void> {
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, settleMs);
      this.#resume = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  /** Removes emails from the set. Call this after their results were stored. */
  release(settled: readonly VerifiedEmail[]): void {
    for (const { input } of settled) this.#drop(input);
  }

  /**
   * Stops the start of new verifications. Emails that still wait for their mailbox check are removed from the set, and
   * a later batch verifies them.
   */
  end(): void {
    clearTimeout(this.#beginTimer);
    this.#late.abort();
  }

  /** True if at least one verification is still running. */
  get #isWaiting(): boolean {
    return this.#verified.size < this.#inFlight.size;
  }

  #countDomains(): Map<string, number> {
    const counts = new Map<string, number>();
    for (const { domain } of this.#inFlight.values()) counts.set(domain, (counts.get(domain) ?? 0) + 1);
    return counts;
  }

  async #verify(input: EmailInput): Promise<void> {
    try {
      const verification = await this.#verifier.verify(input.item, this.#late.signal, this.#customerId);
      // Once abandoned, the verifier may be closed, and its result would be meaningless.
      if (!this.#isAbandoned) this.#verified.set(input.position, { input, verification });
    } catch (error) {
      // Released while it waited for its domain, or failed. A later batch verifies it.
      this.#drop(input);
      if (!this.#late.signal.aborted) this.#fail(error);
    }
    if (!this.#isWaiting) this.#resume();
  }

  #drop({ position }: EmailInput): void {
    this.#inFlight.delete(position);
    this.#verified.delete(position);
  }

  #fail(error: unknown): void {
    this.#fault ??= error;
    this.end();
  }

  #abandonAfter(ms: number): void {
    setTimeout(() => this.#abandon(), ms).unref();
  }

  #abandon(): void {
    this.#isAbandoned = true;
    this.#resume();
  }
}

/**
 * Returns how long a worker that shuts down waits for running verifications (ms). The rest of the shutdown time
 * `SHUTDOWN_MS` is for storing the results.
 */
const graceMs = ({ SHUTDOWN_MS }: JobContext['config']): number => Math.max(SHUTDOWN_MS / 2, SHUTDOWN_MS - 2_000);
