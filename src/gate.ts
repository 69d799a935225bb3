import { unavailable } from './errors.ts';

/** How many may be inside at once, how many may wait for that, and how long each waits at most (ms). */
export interface GateLimits {
  limit: number;
  maxWaiting: number;
  maxWaitMs: number;
}

interface Waiter {
  admit: () => void;
  refuse: (error: Error) => void;
  timer: NodeJS.Timeout;
}

/**
 * Keeps a resource from being asked for more than it can give: a bounded number of works inside, a bounded number of
 * waiters for a bounded time, first come, first served. Everyone else is told `unavailable` at once.
 */
export class Gate {
  readonly #limits: GateLimits;
  /** In order of arrival; a set, because a waiter that gives up leaves from the middle. */
  readonly #waiting = new Set<Waiter>();
  #inside = 0;
  #closed = false;
  #emptied: (() => void) | undefined;

  constructor(limits: GateLimits) {
    this.#limits = limits;
  }

  /** Works inside at this moment. */
  get inside(): number {
    return this.#inside;
  }

  /** Callers that wait to get in. */
  get waiting(): number {
    return this.#waiting.size;
  }

  /**
   * Runs `work` inside, after waiting for a place if need be.
   * @throws DomainError `unavailable` when there is no place in time, or the gate is closed
   */
  async run<T>(work: () => Promise<T>): Promise<T> {
    if (this.#closed) throw unavailable('The service is shutting down');
    if (this.#inside < this.#limits.limit) this.#inside += 1;
    else await this.#wait();
    try {
      return await work();
    } finally {
      this.#leave();
    }
  }

  /** Admits nobody new from now on; resolves when the last one inside or waiting has left. */
  close(): Promise<void> {
    this.#closed = true;
    if (this.#inside === 0) return Promise.resolve();
    return new Promise((resolve) => (this.#emptied = resolve));
  }

  #wait(): Promise<void> {
    if (this.#waiting.size >= this.#limits.maxWaiting) throw unavailable('The service is at its limit');
    return new Promise((admit, refuse) => {
      const timer = setTimeout(() => this.#giveUp(waiter), this.#limits.maxWaitMs);
      const waiter: Waiter = { admit, refuse, timer };
      this.#waiting.add(waiter);
    });
  }

  #giveUp(waiter: Waiter): void {
    this.#waiting.delete(waiter);
    waiter.refuse(unavailable('The service is at its limit'));
  }

  /** Hands the place to whoever waits longest, or gives it back. */
  #leave(): void {
    const [next] = this.#waiting;
    if (!next) {
      this.#inside -= 1;
      if (this.#inside === 0) this.#emptied?.();
      return;
    }
    this.#waiting.delete(next);
    clearTimeout(next.timer);
    next.admit();
  }
}
