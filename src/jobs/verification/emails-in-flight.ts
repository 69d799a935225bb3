import type { EmailInput } from '../../queries/jobs/job-inputs.ts';
import type { Verification } from '../../schemas/verification.ts';
import { isDoubted } from '../../verification/verifier.ts';
import type { JobContext } from '../handler.ts';

const maxInFlight = 1_000;
/** Emails of one domain at the same time, so that a slow domain leaves capacity for others. */
const maxPerDomain = 50;
/** Verifications that are started together. Each begins with a DNS lookup. */
const maxStarts = 200;
/** After this time a batch starts no more verifications, so that the worker can run other jobs. */
const beginMs = 8_000;
/**
 * Time between two writes of finished verifications. Those that ended since the last one are repeated after a crash.
 */
const settleMs = 500;

interface VerifiedEmail {
  input: EmailInput;
  verification: Verification;
}

/** A batch's emails whose verification has started and whose result is not stored yet. */
export class EmailsInFlight {
  readonly #verifier: JobContext['verifier'];
  readonly #customerId: string;
  readonly #maxPerDomain: number;
  readonly #inFlight = new Map<number, EmailInput>();
  readonly #verified = new Map<number, VerifiedEmail>();
  /**
   * Aborts when no more verifications may start. Emails that still wait for their mailbox check are then left to a
   * later batch.
   */
  readonly #late = new AbortController();
  readonly #beginTimer = setTimeout(() => this.end(), beginMs);
  #isAbandoned = false;
  #hasDoubts = false;
  readonly #mayWait: boolean;
  #fault: unknown;
  /** Ends the current wait in `sleep` early. */
  #resume = () => undefined as void;

  /**
   * @param signal aborts when the batch must end. It must not outlive the batch, because it keeps this set in memory
   * @param mayWait false: while the name server is not believed, emails of unknown domains end `unknown`. True: the
   * batch ends, and they are left to a later one
   */
  constructor({ verifier, config, stopping }: JobContext, customerId: string, signal: AbortSignal, mayWait = true) {
    this.#mayWait = mayWait;
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

  get capacity(): number {
    return this.#late.signal.aborted ? 0 : Math.min(maxStarts, maxInFlight - this.#inFlight.size);
  }

  get size(): number {
    return this.#inFlight.size;
  }

  get fullDomains(): string[] {
    return [...this.#countDomains()].filter(([, count]) => count >= this.#maxPerDomain).map(([domain]) => domain);
  }

  get verified(): VerifiedEmail[] {
    return [...this.#verified.values()];
  }

  /** The batch can end: all finished verifications are stored, and it waits for no other. */
  get isOver(): boolean {
    return this.#isAbandoned ? this.#verified.size === 0 : this.#late.signal.aborted && this.#inFlight.size === 0;
  }

  get isAbandoned(): boolean {
    return this.#isAbandoned;
  }

  /** The name server was not believed for one of the emails. */
  get hasDoubts(): boolean {
    return this.#hasDoubts;
  }

  get fault(): unknown {
    return this.#fault;
  }

  /**
   * Starts to verify emails, or takes their earlier results. Skips those that are being verified, and those of full
   * domains.
   * @param max how many to start
   * @returns how many were started
   */
  begin(inputs: readonly EmailInput[], max: number): number {
    const counts = this.#countDomains();
    let begun = 0;
    for (const input of inputs) {
      const count = counts.get(input.domain) ?? 0;
      if (begun === max || this.capacity === 0) break;
      if (this.#inFlight.has(input.position) || (!input.earlier && count >= this.#maxPerDomain)) continue;
      if (!input.earlier) counts.set(input.domain, count + 1);
      this.#inFlight.set(input.position, input);
      if (input.earlier)
        this.#verified.set(input.position, { input, verification: { ...input.earlier, reused: true } });
      else void this.#verify(input);
      begun += 1;
    }
    return begun;
  }

  /** Waits up to 500 ms for running verifications. Returns at once if none is running. */
  async pause(): Promise<void> {
    if (this.#isAbandoned || !this.#isWaiting) return;
    await this.sleep();
  }

  /** Waits up to 500 ms, or until the last running verification ends or the batch is aborted. */
  async sleep(): Promise<void> {
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, settleMs);
      this.#resume = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  /** Call this after the results of these emails were stored. */
  release(settled: readonly VerifiedEmail[]): void {
    for (const { input } of settled) this.#drop(input);
  }

  /** Starts no more verifications. Emails that still wait for their mailbox check are left to a later batch. */
  end(): void {
    clearTimeout(this.#beginTimer);
    this.#late.abort();
  }

  get #isWaiting(): boolean {
    return this.#verified.size < this.#inFlight.size;
  }

  #countDomains(): Map<string, number> {
    const counts = new Map<string, number>();
    for (const { domain, earlier } of this.#inFlight.values())
      if (!earlier) counts.set(domain, (counts.get(domain) ?? 0) + 1);
    return counts;
  }

  async #verify(input: EmailInput): Promise<void> {
    try {
      const verification = await this.#verifier.verify(input.item, this.#late.signal, this.#customerId);
      // Once abandoned, the verifier may be closed, and its result would be meaningless.
      if (!this.#isAbandoned) this.#keep(input, verification);
    } catch (error) {
      // Released while it waited for its domain, or failed. A later batch verifies it.
      this.#drop(input);
      if (!this.#late.signal.aborted) this.#fail(error);
    }
    if (!this.#isWaiting) this.#resume();
  }

  #keep(input: EmailInput, verification: Verification): void {
    if (!isDoubted(verification)) return void this.#verified.set(input.position, { input, verification });
    this.#hasDoubts = true;
    if (!this.#mayWait)
      return void this.#verified.set(input.position, { input, verification: { ...verification, status: 'unknown' } });
    this.#drop(input);
    this.end();
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
 * How long a worker that shuts down waits for verifications (ms). The rest of `SHUTDOWN_MS` is for storing the results.
 */
const graceMs = ({ SHUTDOWN_MS }: JobContext['config']): number => Math.max(SHUTDOWN_MS / 2, SHUTDOWN_MS - 2_000);
