import PQueue from 'p-queue';

interface DomainLimits {
  perDomain: number;
  overall: number;
  /** Minimum time between the starts of two tasks for one mail domain (ms). */
  domainIntervalMs: number;
}

interface Claim {
  /** Id of the customer. Customers who wait for the same domain are served alternately. */
  owner: string;
  /** Cancels the task only while it waits: its promise rejects with the signal's reason. */
  signal?: AbortSignal | undefined;
}

/** Limits tasks that run at the same time, for each mail domain and together. All customers share these limits. */
export class DomainLimiter {
  readonly #limits: DomainLimits;
  readonly #domains = new Map<string, Line>();
  readonly #overall: Line;

  constructor(limits: DomainLimits) {
    this.#limits = limits;
    this.#overall = new Line({ concurrency: limits.overall });
  }

  get domains(): number {
    return this.#domains.size;
  }

  async run<T>(domain: string, work: () => Promise<T>, claim: Claim): Promise<T> {
    const line = this.#domains.get(domain) ?? this.#open(domain);
    try {
      return await line.inTurn(() => this.#overall.inTurn(work, claim), claim);
    } finally {
      if (line.isIdle) this.#forgetLater(domain, line);
    }
  }

  #open(domain: string): Line {
    const { perDomain, domainIntervalMs } = this.#limits;
    const pace = domainIntervalMs > 0 ? { interval: domainIntervalMs, intervalCap: 1, strict: true } : {};
    const line = new Line({ concurrency: perDomain, ...pace });
    this.#domains.set(domain, line);
    return line;
  }

  /** Deletes a domain's empty queue after `domainIntervalMs`: until then it stores the start of the last task. */
  #forgetLater(domain: string, line: Line): void {
    const forget = () => {
      if (line.isIdle && this.#domains.get(domain) === line) this.#domains.delete(domain);
    };
    setTimeout(forget, this.#limits.domainIntervalMs).unref();
  }
}

/** A queue that is fair between owners: the first waiting task of each runs before the second of any, and so on. */
class Line {
  readonly #queue: PQueue;
  readonly #waiting = new Map<string, number>();

  constructor(options: ConstructorParameters<typeof PQueue>[0]) {
    this.#queue = new PQueue(options);
  }

  get isIdle(): boolean {
    return this.#queue.size === 0 && this.#queue.pending === 0;
  }

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
