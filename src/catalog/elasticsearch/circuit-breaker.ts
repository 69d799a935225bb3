import { unavailable } from '../../errors.ts';

/**
 * Stops calls to a remote service while the service is down. If a call fails because the service is down, rejects all
 * calls for a while. Then allows one call as a test. If this call succeeds, allows all calls again.
 */
export class CircuitBreaker {
  readonly #openMs: number;
  readonly #what: string;
  #isDown = false;
  #openUntil = 0;

  /**
   * Creates a circuit breaker. It allows all calls until the first failure.
   * @param what name of the service, for the error message
   * @param openMs how long callers are rejected after a failure (ms)
   */
  constructor(what: string, openMs: number) {
    this.#what = what;
    this.#openMs = openMs;
  }

  /** True if callers are rejected at the moment. */
  get isOpen(): boolean {
    return this.#isDown && performance.now() < this.#openUntil;
  }

  /**
   * Throws if callers are rejected at the moment, because the remote service is down.
   * @throws DomainError `unavailable`
   */
  requireClosed(): void {
    if (this.isOpen) throw unavailable(`${this.#what} does not answer at the moment`);
  }

  /**
   * Calls `work`. If callers are rejected at the moment, throws without calling `work`.
   * @param judge is called if `work` throws. It returns true if the service is down, false if it is up, and undefined
   *   if the error does not show this.
   * @throws DomainError `unavailable` if callers are rejected at the moment
   */
  async run<T>(work: () => Promise<T>, judge: (error: unknown) => Promise<boolean | undefined>): Promise<T> {
    this.requireClosed();
    // Rejects other callers while this one tries.
    if (this.#isDown) this.#open();
    try {
      const result = await work();
      this.#isDown = false;
      return result;
    } catch (error) {
      this.#isDown = (await judge(error)) ?? this.#isDown;
      if (this.#isDown) this.#open();
      throw error;
    }
  }

  /** Starts to reject all callers, for `openMs` milliseconds. */
  #open(): void {
    this.#openUntil = performance.now() + this.#openMs;
  }
}
