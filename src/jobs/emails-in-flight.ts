import type { EmailInput } from '../queries/job-inputs.ts';
import type { Verification } from '../schemas/verification.ts';
import type { JobContext } from './handler.ts';

/** Maximum number of emails in flight. */
const maxInFlight = 1_000;
/** Maximum number of emails in flight for one domain, so that a slow domain leaves capacity for others. */
const maxPerDomain = 50;
/** Maximum number of emails started at once: each one looks up its domain in the DNS. */
const maxStarts = 200;
/** Milliseconds after which a batch starts no more emails, so that other jobs get their turn. */
const beginMs = 8_000;
/**
 * Milliseconds between settlements: short, so that progress is visible and few mailboxes are checked again after a
 * crash.
 */
const settleMs = 500;

/** An email and the outcome of its verification. */
export interface VerifiedEmail {
  input: EmailInput;
  verification: Verification;
}

/**
 * The emails that a batch has in flight. Each waits for its domain, is being checked by a mail server, or is verified
 * and not settled yet.
 *
 * A mailbox should be checked only once. So an email stays in flight until it is settled, or is released before its
 * check began. Only a worker that lost its lease, or whose shutdown time is over, abandons its emails.
 */
export class EmailsInFlight {
  readonly #verifier: JobContext['verifier'];
  readonly #customerId: string;
  readonly #maxPerDomain: number;
  readonly #inFlight = new Map<number, EmailInput>();
  readonly #verified = new Map<number, VerifiedEmail>();
  readonly #closed = new AbortController();
  /** Aborted when no more emails may be started. Emails that still wait for their domain are released then. */
  readonly #late: AbortSignal;
  #isAbandoned = false;
  #fault: unknown;
  /** Ends the current wait of `sleep`. */
  #resume = () => undefined as void;

  /** @param signal the signal of the batch: aborted when the worker is asked to stop or the lease is lost */
  constructor({ verifier, config, stopping }: JobContext, customerId: string, signal: AbortSignal) {
    this.#verifier = verifier;
    this.#customerId = customerId;
    // Without SMTP checks no domain is slow.
    this.#maxPerDomain = config.VERIFY_SMTP === 'on' ? maxPerDomain : maxInFlight;
    this.#late = AbortSignal.any([signal, this.#closed.signal, AbortSignal.timeout(beginMs)]);
    const stop = () => (stopping.aborted ? this.#abandonAfter(graceMs(config)) : this.#abandon());
    if (signal.aborted) stop();
    else signal.addEventListener('abort', stop, { once: true });
  }

  /** Number of emails that may be started now. */
  get capacity(): number {
    return this.#late.aborted ? 0 : Math.min(maxStarts, maxInFlight - this.#inFlight.size);
  }

  /** Number of emails in flight. */
  get size(): number {
    return this.#inFlight.size;
  }

  /** Domains that have reached their maximum number of emails in flight. */
  get fullDomains(): string[] {
    return [...this.#countDomains()].filter(([, count]) => count >= this.#maxPerDomain).map(([domain]) => domain);
  }

  /** Emails that are verified and not settled yet. */
  get verified(): VerifiedEmail[] {
    return [...this.#verified.values()];
  }

  /** Whether the batch has no more outcomes to settle, now or later. */
  get isOver(): boolean {
    return this.#isAbandoned ? this.#verified.size === 0 : this.#late.aborted && this.#inFlight.size === 0;
  }

  get isAbandoned(): boolean {
    return this.#isAbandoned;
  }

  /** The first unexpected error of a verification, if any. The other emails in flight are still settled. */
  get fault(): unknown {
    return this.#fault;
  }

  /**
   * Starts to verify emails. Skips emails that are in flight already and emails of full domains.
   * @param max maximum number of emails to start
   * @returns the number of emails started
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

  /** Waits up to 500 ms for verifications in flight. Returns at once if there are none. */
  async pause(): Promise<void> {
    if (this.#isAbandoned || !this.#isWaiting) return;
    await this.sleep();
  }

  /** Waits 500 ms, or until the last verification in flight ends or the work is abandoned. */
  async sleep(): Promise<void> {
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, settleMs);
      this.#resume = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  /** Removes settled emails from those in flight. */
  release(settled: readonly VerifiedEmail[]): void {
    for (const { input } of settled) this.#drop(input);
  }

  /** Releases all emails that still wait for their domain, and starts no more. */
  end(): void {
    this.#closed.abort();
  }

  /** Whether any email in flight is not verified yet. */
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
      const verification = await this.#verifier.verify(input.item, this.#late, this.#customerId);
      // Once abandoned, the verifier may be closed, and its result would be meaningless.
      if (!this.#isAbandoned) this.#verified.set(input.position, { input, verification });
    } catch (error) {
      // Released while it waited for its domain, or failed. A later batch verifies it.
      this.#drop(input);
      if (!this.#late.aborted) this.#fail(error);
    }
    if (!this.#isWaiting) this.#resume();
  }

  #drop({ position }: EmailInput): void {
    this.#inFlight.delete(position);
    this.#verified.delete(position);
  }

  #fail(error: unknown): void {
    this.#fault ??= error;
    this.#closed.abort();
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
 * Milliseconds that a stopping worker waits for verifications in flight. The remaining shutdown time is for settling
 * them.
 */
const graceMs = ({ SHUTDOWN_MS }: JobContext['config']): number => Math.max(SHUTDOWN_MS / 2, SHUTDOWN_MS - 2_000);
