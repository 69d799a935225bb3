import { unavailable } from '../errors.ts';

/** Spares callers the wait for a service that is down, and the service the callers. */
export class Breaker {
  readonly #openMs: number;
  readonly #what: string;
  #isDown = false;
  #openUntil = 0;

  /**
   * @param what is down, for the message
   * @param openMs for how long nobody is let through once it is down; then one caller is let through to try
   */
  constructor(what: string, openMs: number) {
    this.#what = what;
    this.#openMs = openMs;
  }

  /** Whether the next caller would be refused. */
  get isOpen(): boolean {
    return this.#isDown && performance.now() < this.#openUntil;
  }

  /** @throws DomainError `unavailable` while nobody is let through */
  demandClosed(): void {
    if (this.isOpen) throw unavailable(`${this.#what} does not answer at the moment`);
  }

  /**
   * Runs work unless the service is down.
   * @param judge tells by an error of the work whether the service is down; undefined when the error says nothing of that
   * @throws DomainError `unavailable` without running it
   */
  async run<T>(work: () => Promise<T>, judge: (error: unknown) => Promise<boolean | undefined>): Promise<T> {
    this.demandClosed();
    // Whoever comes while this one tries is refused.
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

  /** Lets nobody through for a while. */
  #open(): void {
    this.#openUntil = performance.now() + this.#openMs;
  }
}
