import PQueue from 'p-queue';

export interface PlaceLimits {
  /** Works at once, of one domain and of all. */
  perDomain: number;
  overall: number;
  /** Shortest time between the beginnings of two works of one domain (ms); 0: none. */
  domainIntervalMs: number;
}

/** Who wants a place. */
export interface Claim {
  /** Those who want many places share them: each has its turn as often as any other. */
  owner: string;
  /** Whoever waits when it is aborted is sent away with its reason; what has begun is done to its end. */
  signal?: AbortSignal | undefined;
}

/** Lets work at a domain begin when there is a place for it, whoever it is for: the limits hold for all owners together. */
export class Places {
  readonly #limits: PlaceLimits;
  readonly #domains = new Map<string, Line>();
  readonly #overall: Line;

  constructor(limits: PlaceLimits) {
    this.#limits = limits;
    this.#overall = new Line({ concurrency: limits.overall });
  }

  /** Domains that are remembered. */
  get domains(): number {
    return this.#domains.size;
  }

  /** Does the work when there is a place for it. */
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

  /** Not at once: a new line would not know when the last work began. */
  #forgetLater(domain: string, line: Line): void {
    const forget = () => {
      if (line.isIdle && this.#domains.get(domain) === line) this.#domains.delete(domain);
    };
    setTimeout(forget, this.#limits.domainIntervalMs).unref();
  }
}

/** Waiting works. An owner's first one waits behind the first ones of others, not behind all that they want. */
class Line {
  readonly #queue: PQueue;
  /** How many works of an owner wait. */
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
    // The queue gives up the place of work whose signal is aborted, though the work goes on: it hears only of those who wait.
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

  /** Counts one more that waits. Returns what counts it out, once. */
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
