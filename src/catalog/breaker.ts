import { unavailable } from '../errors.ts';

/** After so many failures in a row nobody is let through, for so long (ms); then one is let through to try. */
export interface BreakerLimits {
  failures: number;
  openMs: number;
}

/** Spares callers the wait for a service that does not answer, and the service the callers. */
export class Breaker {
  readonly #limits: BreakerLimits;
  readonly #what: string;
  #failures = 0;
  #openUntil = 0;

  /** @param what does not answer, for the message */
  constructor(what: string, limits: BreakerLimits) {
    this.#what = what;
    this.#limits = limits;
  }

  /** Whether the next caller would be turned away. */
  get isOpen(): boolean {
    return this.#failures >= this.#limits.failures && performance.now() < this.#openUntil;
  }

  /**
   * Runs work unless too much of it failed lately.
   * @param isFailure which errors say that the service does not answer
   * @throws DomainError `unavailable` without running it
   */
  async run<T>(work: () => Promise<T>, isFailure: (error: unknown) => boolean): Promise<T> {
    if (this.isOpen) throw unavailable(`${this.#what} does not answer at the moment`);
    // Whoever comes while this one tries is turned away.
    if (this.#failures >= this.#limits.failures) this.#openUntil = performance.now() + this.#limits.openMs;
    try {
      const result = await work();
      this.#failures = 0;
      return result;
    } catch (error) {
      if (isFailure(error)) this.#fail();
      else this.#failures = 0;
      throw error;
    }
  }

  #fail(): void {
    this.#failures += 1;
    if (this.#failures >= this.#limits.failures) this.#openUntil = performance.now() + this.#limits.openMs;
  }
}
