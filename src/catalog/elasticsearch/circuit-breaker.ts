import { unavailable } from '../../errors.ts';

/**
 * Protects a remote service that is down from more calls. After a failure that shows that the service is down, rejects
 * all callers for a while. Then one caller may try; if its call succeeds, all callers are admitted again.
 */
export class CircuitBreaker {
  readonly #openMs: number;
  readonly #what: string;
  #isDown = false;
  #openUntil = 0;

  /**
   * Creates a circuit breaker that admits all callers until the first failure.
   * @param what name of the service, for the error message
   * @param openMs how long callers are rejected after a failure (ms); then one caller may try
   */
  constructor(what: string, openMs: number) {
    this.#what = what;
    this.#openMs = openMs;
  }

  /** Whether callers are rejected at the moment. */
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
   * Runs work, or throws at once while callers are rejected.
   * @param judge receives an error of the work; returns whether the service is down, or undefined if the error does not
   *   show it
   * @throws DomainError `unavailable` if callers are rejected at the moment; the work does not run then
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

  /** Rejects all callers for the next `openMs` milliseconds. */
  #open(): void {
    this.#openUntil = performance.now() + this.#openMs;
  }
}
