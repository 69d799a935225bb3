import PQueue from 'p-queue';

/** Limits for concurrent tasks that connect to mail servers. */
export interface DomainLimits {
  /** The maximum number of tasks that run at the same time for one mail domain. */
  perDomain: number;
  /** The maximum number of tasks that run at the same time for all mail domains together. */
  overall: number;
  /** The minimum time between the starts of two tasks for one mail domain (ms). 0 means that there is no minimum. */
  domainIntervalMs: number;
}

/** The customer for whom a task runs, and an optional signal to cancel the task while it waits in the queue. */
export interface Claim {
  /** Id of the customer for whom the task runs. Customers who wait for the same domain are served alternately. */
  owner: string;
  /**
   * Cancels the task while it waits in the queue: when the signal aborts, the task's promise rejects with the signal's
   * reason. A task that has already started is not affected.
   */
  signal?: AbortSignal | undefined;
}

/**
 * Limits how many tasks run at the same time, for each mail domain and for all domains together. All customers share
 * these limits.
 */
export class DomainLimiter {
  readonly #limits: DomainLimits;
  readonly #domains = new Map<string, Line>();
  readonly #overall: Line;

  constructor(limits: DomainLimits) {
    this.#limits = limits;
    this.#overall = new Line({ concurrency: limits.overall });
  }

  /** Number of mail domains that currently have a queue of tasks. */
  get domains(): number {
    return this.#domains.size;
  }

  /** Runs `work` as soon as the limit of this domain and the overall limit allow another task. */
  async run<T>(domain: string, work: () => Promise<T>, claim: Claim): Promise<T> {
    const line = this.#domains.get(domain) ?? this.#open(domain);
    try {
      return await line.inTurn(() => this.#overall.inTurn(work, claim), claim);
    } finally {
      if (line.isIdle) this.#forgetLater(domain, line);
    }
  }

  /** Creates the queue of tasks for a mail domain. */
  #open(domain: string): Line {
    const { perDomain, domainIntervalMs } = this.#limits;
    const pace = domainIntervalMs > 0 ? { interval: domainIntervalMs, intervalCap: 1, strict: true } : {};
    const line = new Line({ concurrency: perDomain, ...pace });
    this.#domains.set(domain, line);
    return line;
  }

  /**
   * Deletes the empty queue of a domain after `domainIntervalMs`. Until then the queue is needed, because it stores the
   * start time of the last task.
   */
  #forgetLater(domain: string, line: Line): void {
    const forget = () => {
      if (line.isIdle && this.#domains.get(domain) === line) this.#domains.delete(domain);
    };
    setTimeout(forget, this.#limits.domainIntervalMs).unref();
  }
}

/**
 * A queue of tasks that is fair between owners (customers): the first waiting task of each owner runs before the second
 * task of any owner, and so on.
 */
class Line {
  readonly #queue: PQueue;
  /** The number of waiting tasks by owner (customer id). */
  readonly #waiting = new Map<string, number>();

  constructor(options: ConstructorParameters<typeof PQueue>[0]) {
    this.#queue = new PQueue(options);
  }

  get isIdle(): boolean {
    return this.#queue.size === 0 && this.#queue.pending === 0;
  }

  /** Runs `work` as soon as the limits of this queue allow another task. */
  async inTurn<T>(work: () => Promise<T>, { owner, signal }: Claim): Promise<T> {
    signal?.throwIfAborted();
    const leave = this.#join(owner);
    // PQueue also frees the slot of a running task when its signal aborts, though the task runs on. So it gets its own
    // signal, which aborts only while the task waits.
    const waiting = new AbortController();
    const giveUp = () => waiting.abort(signal?.reason);
    signal?.addEventListener('abort', giveUp, { once: true });
    const begin = () => {
      signal?.removeEventListener('abort', giveUp);
      leave();
      return work();
    };
    try {
      return await this.#queue.add(begin, { signal: waiting.signal, priority: -this.#waiting.get(owner)! });
    } finally {
      signal?.removeEventListener('abort', giveUp);
      leave();
    }
  }

  /**
   * Adds 1 to the number of a customer's waiting tasks.
   * @returns A function that subtracts 1 again. Further calls of this function have no effect.
   */
  #join(owner: string): () => void {
    this.#waiting.set(owner, (this.#waiting.get(owner) ?? 0) + 1);
    let isIn = true;
    return () => {
      if (!isIn) return;
      isIn = false;
      const left = this.#waiting.get(owner)! - 1;
      if (left > 0) this.#waiting.set(owner, left);
      else this.#waiting.delete(owner);
    };
  }
}
