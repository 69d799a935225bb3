import PQueue from 'p-queue';

export interface PlaceLimits {
  /** Works at once, of one domain and of all. */
  perDomain: number;
  overall: number;
  /** Shortest time between the beginnings of two works of one domain (ms); 0: none. */
  domainIntervalMs: number;
}

/** Lets work at a domain begin when it is its turn, first come, first served: whoever it is for, so it holds for all together. */
export class Places {
  readonly #limits: PlaceLimits;
  readonly #domains = new Map<string, PQueue>();
  readonly #overall: PQueue;

  constructor(limits: PlaceLimits) {
    this.#limits = limits;
    this.#overall = new PQueue({ concurrency: limits.overall });
  }

  /** Domains that are remembered. */
  get domains(): number {
    return this.#domains.size;
  }

  /**
   * Does the work when there is a place for it.
   * @param signal whoever waits when it is aborted is sent away with its reason; what has begun is done to its end
   */
  async run<T>(domain: string, work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    const queue = this.#domains.get(domain) ?? this.#open(domain);
    try {
      return await inTurn(queue, () => inTurn(this.#overall, work, signal), signal);
    } finally {
      if (isIdle(queue)) this.#forgetLater(domain, queue);
    }
  }

  #open(domain: string): PQueue {
    const { perDomain, domainIntervalMs } = this.#limits;
    const pace = domainIntervalMs > 0 ? { interval: domainIntervalMs, intervalCap: 1, strict: true } : {};
    const queue = new PQueue({ concurrency: perDomain, ...pace });
    this.#domains.set(domain, queue);
    return queue;
  }

  /** Not at once: a new queue would not know when the last work began. */
  #forgetLater(domain: string, queue: PQueue): void {
    const forget = () => {
      if (isIdle(queue) && this.#domains.get(domain) === queue) this.#domains.delete(domain);
    };
    setTimeout(forget, this.#limits.domainIntervalMs).unref();
  }
}

const isIdle = (queue: PQueue): boolean => queue.size === 0 && queue.pending === 0;

async function inTurn<T>(queue: PQueue, work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
  signal?.throwIfAborted();
  // The queue gives up the place of work whose signal is aborted, though the work goes on: it hears only of those who wait.
  const waiting = new AbortController();
  const giveUp = () => waiting.abort(signal?.reason);
  signal?.addEventListener('abort', giveUp, { once: true });
  const begin = () => {
    signal?.removeEventListener('abort', giveUp);
    return work();
  };
  try {
    return await queue.add(begin, { signal: waiting.signal });
  } finally {
    signal?.removeEventListener('abort', giveUp);
  }
}
