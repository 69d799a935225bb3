import { unavailable } from '../errors.ts';
import { gateRefusals, gateWait } from '../metrics.ts';
import { unlessAborted, type Requester } from '../requester.ts';

/** Who takes a slot of a limited resource: a customer (its id), or one operation without a customer (a symbol). */
export type SlotHolder = string | symbol;

/**
 * A fixed number of slots, shared fairly between customers. A customer without a slot may take any free slot. A
 * customer with slots may take another one only if at least as many slots then remain free as it holds. So one customer
 * alone gets half of the slots, and two get a third each.
 */
export class FairSlots {
  readonly #count: number;
  readonly #held = new Map<SlotHolder, number>();
  #taken = 0;

  constructor(count: number) {
    this.#count = count;
  }

  /** Number of slots that are taken now. */
  get taken(): number {
    return this.#taken;
  }

  /** Returns the number of slots that a customer has. */
  heldBy(holder: SlotHolder): number {
    return this.#held.get(holder) ?? 0;
  }

  /** Returns whether a customer may take a slot now. */
  admits(holder: SlotHolder): boolean {
    const free = this.#count - this.#taken;
    const held = this.heldBy(holder);
    return free > 0 && (held === 0 || held + 1 <= free - 1);
  }

  /** Takes a slot for a customer. Call `admits` first. */
  take(holder: SlotHolder): void {
    this.#held.set(holder, this.heldBy(holder) + 1);
    this.#taken += 1;
  }

  /** Releases one slot of a customer. */
  release(holder: SlotHolder): void {
    const left = this.heldBy(holder) - 1;
    if (left === 0) this.#held.delete(holder);
    else this.#held.set(holder, left);
    this.#taken -= 1;
  }
}

/**
 * The limits of a `Gate`: how many operations may run at once (`limit`), how many may wait (`maxWaiting`), and how long
 * each may wait (`maxWaitMs`).
 */
export interface GateLimits {
  /** The name of this gate in the metrics. */
  name: string;
  limit: number;
  maxWaiting: number;
  maxWaitMs: number;
}

interface Waiter {
  admit: () => void;
}

/**
 * Limits how many operations use a resource (such as the database) at once, how many wait for it, and how long. Both
 * are shared fairly between customers. When an operation ends, the next customer in the round is served; operations of
 * one customer are served in order of arrival. An operation that may not wait is rejected at once with `unavailable`.
 */
export class Gate {
  readonly name: string;
  /** Maximum number of operations running at once. */
  readonly limit: number;
  readonly #waits: ReturnType<typeof gateWait.labels>;
  readonly #maxWaitMs: number;
  readonly #inside: FairSlots;
  readonly #queue: FairSlots;
  /**
   * The waiting operations of each customer. The first customer in the map is served next. An operation can leave the
   * middle of its set, when its wait ends.
   */
  readonly #waiting = new Map<SlotHolder, Set<Waiter>>();
  #closed = false;
  #emptied: (() => void) | undefined;

  constructor({ name, limit, maxWaiting, maxWaitMs }: GateLimits) {
    this.name = name;
    this.limit = limit;
    this.#waits = gateWait.labels(name);
    this.#maxWaitMs = maxWaitMs;
    this.#inside = new FairSlots(limit);
    this.#queue = new FairSlots(maxWaiting);
  }

  /** Number of operations running now. */
  get inside(): number {
    return this.#inside.taken;
  }

  /** Number of operations that wait until they may run. */
  get waiting(): number {
    return this.#queue.taken;
  }

  /**
   * Runs `work` for the requester's customer. Waits first if all slots, or those of this customer, are taken. Rejects
   * at once when the requester's signal aborts. Work that has already started then keeps its slot until it ends.
   * @throws DomainError `unavailable` when the wait takes too long, too many operations wait, or the gate is closed
   * @throws the signal's reason when the signal aborts
   */
  async run<T>(requester: Requester, work: () => Promise<T>): Promise<T> {
    requester.signal?.throwIfAborted();
    const waiting = this.#enter(requester.customerId, requester);
    if (waiting) await waiting;
    return unlessAborted(this.#runInside(requester.customerId, work), requester.signal);
  }

  /**
   * Runs `work` that belongs to no customer. It counts as a separate customer, so such operations are served in order
   * of arrival.
   */
  async runAlone<T>(work: () => Promise<T>): Promise<T> {
    const holder = Symbol('work');
    const waiting = this.#enter(holder, {});
    if (waiting) await waiting;
    return this.#runInside(holder, work);
  }

  /** Rejects new operations from now on. Resolves when the last running or waiting operation has ended. */
  close(): Promise<void> {
    this.#closed = true;
    if (this.inside === 0) return Promise.resolve();
    return new Promise((resolve) => (this.#emptied = resolve));
  }

  async #runInside<T>(holder: SlotHolder, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } finally {
      this.#leave(holder);
    }
  }

  /**
   * Admits an operation at once and returns undefined. If the operation must wait, returns a promise that resolves when
   * it may run.
   */
  #enter(holder: SlotHolder, patience: Pick<Requester, 'signal' | 'patienceMs'>): Promise<void> | undefined {
    if (this.#closed) throw unavailable('The service is shutting down');
    // Waiting holders are not admissible now, so an admissible newcomer delays none of them. Behind its own operations
    // it queues.
    if (this.#waiting.has(holder) || !this.#inside.admits(holder)) return this.#wait(holder, patience);
    this.#inside.take(holder);
    this.#waits.observe(0);
    return undefined;
  }

  async #wait(holder: SlotHolder, patience: Pick<Requester, 'signal' | 'patienceMs'>): Promise<void> {
    if (!this.#queue.admits(holder)) throw this.#refusal();
    this.#queue.take(holder);
    const start = performance.now();
    const { promise, resolve: admit, reject } = Promise.withResolvers<void>();
    const waiter = { admit };
    this.#queueOf(holder).add(waiter);
    const maxWaitMs = Math.min(this.#maxWaitMs, patience.patienceMs ?? Infinity);
    const timer = setTimeout(() => reject(this.#refusal()), maxWaitMs);
    try {
      await unlessAborted(promise, patience.signal);
    } catch (error) {
      // Admitted and aborted in the same tick: release the slot.
      if (!this.#withdraw(holder, waiter)) this.#leave(holder);
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

  #queueOf(holder: SlotHolder): Set<Waiter> {
    const line = this.#waiting.get(holder) ?? new Set();
    this.#waiting.set(holder, line);
    return line;
  }

  /** Removes an operation from the queue of waiting ones. Returns false if it was not in the queue any more. */
  #withdraw(holder: SlotHolder, waiter: Waiter): boolean {
    const line = this.#waiting.get(holder);
    if (!line?.delete(waiter)) return false;
    if (line.size === 0) this.#waiting.delete(holder);
    this.#queue.release(holder);
    return true;
  }

  #leave(holder: SlotHolder): void {
    this.#inside.release(holder);
    this.#admitWaiters();
    if (this.inside === 0) this.#emptied?.();
  }

  /** Starts waiting operations, until no slot is free or each waiting customer already has its share. */
  #admitWaiters(): void {
    for (let holder = this.#nextInTurn(); holder !== undefined; holder = this.#nextInTurn()) {
      const line = this.#waiting.get(holder)!;
      const waiter = line.values().next().value!;
      this.#withdraw(holder, waiter);
      // The holder's next waiter comes after those of all other holders.
      if (this.#waiting.delete(holder)) this.#waiting.set(holder, line);
      this.#inside.take(holder);
      waiter.admit();
    }
  }

  #nextInTurn(): SlotHolder | undefined {
    for (const holder of this.#waiting.keys()) if (this.#inside.admits(holder)) return holder;
    return undefined;
  }
}
