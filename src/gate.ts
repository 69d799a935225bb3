import { unavailable } from './errors.ts';
import { gateRefusals, gateWait } from './metrics.ts';
import { unlessAborted, type Requester } from './requester.ts';

/** Whoever holds places: a customer's id, or a symbol for a work that stands for itself. */
export type Party = string | symbol;

/**
 * A number of places and who holds them. A party that holds none takes any free place. One that holds some is admitted as
 * long as it then holds no more places than remain free. So one party alone gets half of the places, two get a third each.
 */
export class Places {
  readonly #count: number;
  readonly #held = new Map<Party, number>();
  #taken = 0;

  constructor(count: number) {
    this.#count = count;
  }

  /** Places held by all parties together. */
  get taken(): number {
    return this.#taken;
  }

  /** Places held by the party. */
  heldBy(party: Party): number {
    return this.#held.get(party) ?? 0;
  }

  /** Whether the party may take a place now. */
  admits(party: Party): boolean {
    const free = this.#count - this.#taken;
    const held = this.heldBy(party);
    return free > 0 && (held === 0 || held + 1 <= free - 1);
  }

  /** Takes a place for the party. Ask `admits` first. */
  take(party: Party): void {
    this.#held.set(party, this.heldBy(party) + 1);
    this.#taken += 1;
  }

  /** Gives back a place that the party holds. */
  give(party: Party): void {
    const left = this.heldBy(party) - 1;
    if (left === 0) this.#held.delete(party);
    else this.#held.set(party, left);
    this.#taken -= 1;
  }
}

/** How many may be inside at once, how many may wait for that, and how long each waits at most (ms). */
export interface GateLimits {
  /** By which metrics name the gate. */
  name: string;
  limit: number;
  maxWaiting: number;
  maxWaitMs: number;
}

interface Waiter {
  admit: () => void;
}

/**
 * Keeps a resource from being asked for more than it can give: a bounded number of works inside, and a bounded number of
 * waiters for a bounded time. Both are shared between customers by the rule of `Places`. Waiting customers are served in
 * turn, and each customer's works in the order of arrival. Everyone else is refused at once with `unavailable`.
 */
export class Gate {
  readonly name: string;
  /** Works that may be inside at once. */
  readonly limit: number;
  readonly #waits: ReturnType<typeof gateWait.labels>;
  readonly #maxWaitMs: number;
  readonly #inside: Places;
  readonly #queue: Places;
  /** Waiters of each party. The next turn is that of the first party; a set, because a waiter may leave from the middle. */
  readonly #waiting = new Map<Party, Set<Waiter>>();
  #closed = false;
  #emptied: (() => void) | undefined;

  constructor({ name, limit, maxWaiting, maxWaitMs }: GateLimits) {
    this.name = name;
    this.limit = limit;
    this.#waits = gateWait.labels(name);
    this.#maxWaitMs = maxWaitMs;
    this.#inside = new Places(limit);
    this.#queue = new Places(maxWaiting);
  }

  /** Works inside at this moment. */
  get inside(): number {
    return this.#inside.taken;
  }

  /** Callers that wait to get in. */
  get waiting(): number {
    return this.#queue.taken;
  }

  /**
   * Runs `work` inside, for a customer, after waiting for a place if need be. When the requester's signal is aborted, the
   * caller is told so at once; a waiter leaves the queue, and work that has begun keeps its place until it ends.
   * @throws DomainError `unavailable` when there is no place in time, or the gate is closed; the signal's reason
   */
  async run<T>(requester: Requester, work: () => Promise<T>): Promise<T> {
    requester.signal?.throwIfAborted();
    const waiting = this.#enter(requester.customerId, requester);
    if (waiting) await waiting;
    return unlessAborted(this.#stay(requester.customerId, work), requester.signal);
  }

  /** Runs `work` inside for nobody in particular: it is a party of its own, so such works are served in order of arrival. */
  async runAlone<T>(work: () => Promise<T>): Promise<T> {
    const party = Symbol('work');
    const waiting = this.#enter(party, {});
    if (waiting) await waiting;
    return this.#stay(party, work);
  }

  /** Admits nobody new from now on. Resolves when the last one inside or waiting has left. */
  close(): Promise<void> {
    this.#closed = true;
    if (this.inside === 0) return Promise.resolve();
    return new Promise((resolve) => (this.#emptied = resolve));
  }

  async #stay<T>(party: Party, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } finally {
      this.#leave(party);
    }
  }

  /** Takes a place, or returns the wait for one. */
  #enter(party: Party, patience: Pick<Requester, 'signal' | 'patienceMs'>): Promise<void> | undefined {
    if (this.#closed) throw unavailable('The service is shutting down');
    // Whoever waits is not admissible, so a newcomer that is overtakes none but their own works.
    if (this.#waiting.has(party) || !this.#inside.admits(party)) return this.#wait(party, patience);
    this.#inside.take(party);
    this.#waits.observe(0);
    return undefined;
  }

  async #wait(party: Party, patience: Pick<Requester, 'signal' | 'patienceMs'>): Promise<void> {
    if (!this.#queue.admits(party)) throw this.#refusal();
    this.#queue.take(party);
    const start = performance.now();
    const { promise, resolve: admit, reject } = Promise.withResolvers<void>();
    const waiter = { admit };
    this.#line(party).add(waiter);
    const maxWaitMs = Math.min(this.#maxWaitMs, patience.patienceMs ?? Infinity);
    const timer = setTimeout(() => reject(this.#refusal()), maxWaitMs);
    try {
      await unlessAborted(promise, patience.signal);
    } catch (error) {
      // Admitted and aborted in one go: the place is given back.
      if (!this.#withdraw(party, waiter)) this.#leave(party);
      throw error;
    } finally {
      clearTimeout(timer);
      const waitedMs = performance.now() - start;
      this.#waits.observe(waitedMs / 1000);
      if (patience.patienceMs !== undefined) patience.patienceMs = Math.max(0, patience.patienceMs - waitedMs);
    }
  }

  #refusal(): Error {
    gateRefusals.inc({ gate: this.name });
    return unavailable('The service is at its limit');
  }

  #line(party: Party): Set<Waiter> {
    const line = this.#waiting.get(party) ?? new Set();
    this.#waiting.set(party, line);
    return line;
  }

  /** Takes a waiter out of the queue; false when it is no longer there. */
  #withdraw(party: Party, waiter: Waiter): boolean {
    const line = this.#waiting.get(party);
    if (!line?.delete(waiter)) return false;
    if (line.size === 0) this.#waiting.delete(party);
    this.#queue.give(party);
    return true;
  }

  #leave(party: Party): void {
    this.#inside.give(party);
    this.#admitWaiters();
    if (this.inside === 0) this.#emptied?.();
  }

  /** Fills the free places, so that none is idle while somebody who may have it waits. */
  #admitWaiters(): void {
    for (let party = this.#nextInTurn(); party !== undefined; party = this.#nextInTurn()) {
      const line = this.#waiting.get(party)!;
      const waiter = line.values().next().value!;
      this.#withdraw(party, waiter);
      // The party's next turn comes after those of all others.
      if (this.#waiting.delete(party)) this.#waiting.set(party, line);
      this.#inside.take(party);
      waiter.admit();
    }
  }

  #nextInTurn(): Party | undefined {
    for (const party of this.#waiting.keys()) if (this.#inside.admits(party)) return party;
    return undefined;
  }
}
