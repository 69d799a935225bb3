import { unavailable } from '../../errors.ts';

/**
 * Rejects calls to a remote service for a while after one failed because it is down. Then lets one through as a test,
 * and all if it succeeds.
 */
export class CircuitBreaker {
  readonly #openMs: number;
  readonly #what: string;
  #isDown = false;
  #openUntil = 0;

  /**
   * @param what names the service in the error message
   * @param openMs how long callers are rejected after a failure (ms)
   */
  constructor(what: string, openMs: number) {
    this.#what = what;
    this.#openMs = openMs;
  }

  get isOpen(): boolean {
    return this.#isDown && performance.now() < this.#openUntil;
  }

  /** @throws DomainError `unavailable` if callers are rejected at the moment */
  requireClosed(): void {
    if (this.isOpen) throw unavailable(`${this.#what} does not answer at the moment`);
  }

  /**
   * @param judge is called if `work` throws: true if the service is down, false if it is up, undefined if the error
   * does not show it
   * @throws DomainError `unavailable`, without calling `work`, if callers are rejected at the moment
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

  #open(): void {
    this.#openUntil = performance.now() + this.#openMs;
  }
}
