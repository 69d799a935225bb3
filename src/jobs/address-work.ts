import type { AddressInput } from '../queries/job-inputs.ts';
import type { Verification } from '../schemas/verification.ts';
import type { JobContext } from './handler.ts';

/** Addresses in hand at most. */
const handSize = 1_000;
/** Of these, addresses of one domain at most: where a domain answers slowly, others must find room beside it. */
const domainShare = 50;
/** Addresses that are begun at once at most: the DNS is asked for each of their domains. */
const begunAtOnce = 200;
/** After so long (ms) no address is begun: other jobs want their turn. */
const beginMs = 8_000;
/** How often answers are settled (ms), so that progress is seen and little is asked twice after a crash. */
const settleMs = 500;

/** An address that is verified. */
export interface Verified {
  input: AddressInput;
  verification: Verification;
}

/**
 * The addresses that a slice has in hand: they wait for their turn at their domain, or a mail server is being asked, or they
 * are verified and not settled yet.
 *
 * A mailbox is to be asked once. So an address stays in hand until it is settled, or was sent away before its turn came. Only
 * a worker that lost its lease, or whose time to shut down is over, abandons what it has.
 */
export class AddressWork {
  readonly #verifier: JobContext['verifier'];
  readonly #customerId: string;
  readonly #domainShare: number;
  readonly #inHand = new Map<number, AddressInput>();
  readonly #verified = new Map<number, Verified>();
  readonly #closed = new AbortController();
  /** Aborted when no address may be begun any more; those that wait for their turn are sent away. */
  readonly #late: AbortSignal;
  #isAbandoned = false;
  #fault: unknown;
  /** Ends a pause. */
  #wake = () => undefined as void;

  /** @param signal as a slice gets it */
  constructor({ verifier, config, stopping }: JobContext, customerId: string, signal: AbortSignal) {
    this.#verifier = verifier;
    this.#customerId = customerId;
    // Where no mail server is asked, no domain is slow.
    this.#domainShare = config.VERIFY_SMTP === 'on' ? domainShare : handSize;
    this.#late = AbortSignal.any([signal, this.#closed.signal, AbortSignal.timeout(beginMs)]);
    const stop = () => (stopping.aborted ? this.#abandonAfter(graceMs(config)) : this.#abandon());
    if (signal.aborted) stop();
    else signal.addEventListener('abort', stop, { once: true });
  }

  /** How many addresses may be begun now. */
  get room(): number {
    return this.#late.aborted ? 0 : Math.min(begunAtOnce, handSize - this.#inHand.size);
  }

  /** How many addresses are in hand. */
  get size(): number {
    return this.#inHand.size;
  }

  /** Domains that have their share of what is in hand. */
  get fullDomains(): string[] {
    return [...this.#countDomains()].filter(([, count]) => count >= this.#domainShare).map(([domain]) => domain);
  }

  /** What is verified and not settled yet. */
  get verified(): Verified[] {
    return [...this.#verified.values()];
  }

  /** Whether nothing can come of it any more that has to be settled. */
  get isOver(): boolean {
    return this.#isAbandoned ? this.#verified.size === 0 : this.#late.aborted && this.#inHand.size === 0;
  }

  get isAbandoned(): boolean {
    return this.#isAbandoned;
  }

  /** What went wrong unexpectedly with an address; what else was in hand is not lost by it. */
  get fault(): unknown {
    return this.#fault;
  }

  /**
   * Begins to verify addresses, except those that are in hand and those of domains that have their share.
   * @param most how many at most
   * @returns how many
   */
  begin(inputs: readonly AddressInput[], most: number): number {
    const counts = this.#countDomains();
    let begun = 0;
    for (const input of inputs) {
      const count = counts.get(input.domain) ?? 0;
      if (begun === most || this.room === 0) break;
      if (this.#inHand.has(input.position) || count >= this.#domainShare) continue;
      counts.set(input.domain, count + 1);
      this.#inHand.set(input.position, input);
      void this.#verify(input);
      begun += 1;
    }
    return begun;
  }

  /** Waits a little, or until there is nothing to wait for. */
  async pause(): Promise<void> {
    if (this.#isAbandoned || !this.#isWaiting) return;
    await this.rest();
  }

  /** Waits a little, in any case unless it is woken. */
  async rest(): Promise<void> {
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, settleMs);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  /** Lets go of addresses that are settled. */
  letGo(settled: readonly Verified[]): void {
    for (const { input } of settled) this.#drop(input);
  }

  /** Nobody waits for the rest. */
  end(): void {
    this.#closed.abort();
  }

  /** Whether somebody is still being asked, or waits for that. */
  get #isWaiting(): boolean {
    return this.#verified.size < this.#inHand.size;
  }

  #countDomains(): Map<string, number> {
    const counts = new Map<string, number>();
    for (const { domain } of this.#inHand.values()) counts.set(domain, (counts.get(domain) ?? 0) + 1);
    return counts;
  }

  async #verify(input: AddressInput): Promise<void> {
    try {
      const verification = await this.#verifier.verify(input.item, this.#late, this.#customerId);
      // The verifier may be closed by then, and its answer would be none.
      if (!this.#isAbandoned) this.#verified.set(input.position, { input, verification });
    } catch (error) {
      // Sent away while it waited for its turn: a later slice takes it up.
      this.#drop(input);
      if (!this.#late.aborted) this.#fail(error);
    }
    if (!this.#isWaiting) this.#wake();
  }

  #drop({ position }: AddressInput): void {
    this.#inHand.delete(position);
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
    this.#wake();
  }
}

/** How long a worker that stops waits for answers: some of its time is for settling them. */
const graceMs = ({ SHUTDOWN_MS }: JobContext['config']): number => Math.max(SHUTDOWN_MS / 2, SHUTDOWN_MS - 2_000);
