import { unavailable } from '../errors.ts';
import { gateRefusals, gateWait } from '../metrics.ts';
import { unlessAborted, type Requester } from '../requester.ts';

/** A holder of slots: a customer's id, or a symbol for a single piece of work without a customer. */
export type SlotHolder = string | symbol;

/**
 * A fixed number of slots, shared fairly between holders. A holder without a slot may take any free slot. A holder with
 * slots may take one more only if it then holds no more than remain free. So one holder alone gets half of the slots,
 * and two get a third each.
 */
export class FairSlots {
  readonly #count: number;
  readonly #held = new Map<SlotHolder, number>();
  #taken = 0;

  constructor(count: number) {
    this.#count = count;
  }

  /** Number of slots taken by all holders together. */
  get taken(): number {
    return this.#taken;
  }

  /** Returns the number of slots that a holder has. */
  heldBy(holder: SlotHolder): number {
    return this.#held.get(holder) ?? 0;
  }

  /** Returns whether a holder may take a slot now. */
  admits(holder: SlotHolder): boolean {
    const free = this.#count - this.#taken;
    const held = this.heldBy(holder);
    return free > 0 && (held === 0 || held + 1 <= free - 1);
  }

  /** Takes a slot for a holder. Call `admits` first. */
  take(holder: SlotHolder): void {
    this.#held.set(holder, this.heldBy(holder) + 1);
    this.#taken += 1;
  }

  /** Releases one slot of a holder. */
  release(holder: SlotHolder): void {
    const left = this.heldBy(holder) - 1;
    if (left === 0) this.#held.delete(holder);
    else this.#held.set(holder, left);
    this.#taken -= 1;
  }
}

/**
 * The limits of a gate: operations running at once (`limit`), operations waiting (`maxWaiting`), and how long each may
 * wait (`maxWaitMs`).
 */
export interface GateLimits {
  /** The gate's name in metrics. */
  name: string;
  limit: number;
  maxWaiting: number;
  maxWaitMs: number;
}

interface Waiter {
  admit: () => void;
}

/**
 * Limits how many operations run on a resource and how many wait, and for how long. Slots and waiting positions are
 * shared fairly between customers (`FairSlots`). Waiting customers are served round-robin; the operations of one
 * customer in order of arrival. Operations that may not wait are rejected at once with `unavailable`.
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
   * Waiting operations by holder. The first holder is served next. A set, because a waiter may leave from the middle.
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

  /** Number of operations waiting for a slot. */
  get waiting(): number {
    return this.#queue.taken;
  }

  /**
   * Runs `work` for a requester's customer, after waiting for a slot if none is free. When the requester's signal
   * aborts, the call rejects at once: a waiting operation leaves the queue; a running one keeps its slot until it ends.
   * @throws DomainError `unavailable` when no slot becomes free in time or the gate is closed; the signal's reason
   */
  async run<T>(requester: Requester, work: () => Promise<T>): Promise<T> {
    requester.signal?.throwIfAborted();
    const waiting = this.#enter(requester.customerId, requester);
    if (waiting) await waiting;
    return unlessAborted(this.#runInside(requester.customerId, work), requester.signal);
  }

  /** Runs `work` for no customer. It is its own holder, so such operations are served in order of arrival. */
  async runAlone<T>(work: () => Promise<T>): Promise<T> {
    const holder = Symbol('work');
    const waiting = this.#enter(holder, {});
    if (waiting) await waiting;
    return this.#runInside(holder, work);
  }

  /** Closes the gate to new operations. Resolves when the last running or waiting one has ended. */
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

  /** Takes a slot, or returns a promise that resolves when the slot is taken. */
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

  /** Removes a waiter from the queue. Returns false if it was no longer there. */
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

  /** Admits waiters until no free slot can be given to any of them. */
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
