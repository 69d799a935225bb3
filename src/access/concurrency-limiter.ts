import { unavailable } from '../errors.ts';
import { gateRefusals, gateWait } from '../process/metrics.ts';
import { unlessAborted, type Requester } from './credentials.ts';

/**
 * Who holds slots: a customer (by id), or a caller without a credential (by IP address). Work of neither uses a unique
 * symbol.
 */
type SlotHolder = string | symbol;

/**
 * Limits the use of a resource, such as connections or bytes of memory, to a number of permits ("slots"). Shares them
 * fairly: one holder gets at most half of the slots, each of two holders at most a third.
 */
export class FairSemaphore {
  readonly #count: number;
  readonly #perHolder: number;
  readonly #held = new Map<SlotHolder, number>();
  #taken = 0;

  /** @param count number of slots; with `Infinity`, slots are only counted */
  constructor(count: number, perHolder = Infinity) {
    this.#count = count;
    this.#perHolder = perHolder;
  }

  get taken(): number {
    return this.#taken;
  }

  heldBy(holder: SlotHolder): number {
    return this.#held.get(holder) ?? 0;
  }

  tryTake(holder: SlotHolder, count = 1): boolean {
    const isAdmitted = this.#admits(holder, count);
    if (isAdmitted) this.take(holder, count);
    return isAdmitted;
  }

  take(holder: SlotHolder, count = 1): void {
    this.#held.set(holder, this.heldBy(holder) + count);
    this.#taken += count;
  }

  release(holder: SlotHolder, count = 1): void {
    const left = this.heldBy(holder) - count;
    if (left === 0) this.#held.delete(holder);
    else this.#held.set(holder, left);
    this.#taken -= count;
  }

  #admits(holder: SlotHolder, count: number): boolean {
    // A holder without a slot may take any free slots. A holder with slots may take more only if at least as many slots
    // then remain free as it holds.
    const free = this.#count - this.#taken;
    const held = this.heldBy(holder);
    return count <= free && (held === 0 || held + count <= Math.min(free - count, this.#perHolder));
  }
}

export interface ConcurrencyLimits {
  name: string;
  limit: number;
  perHolder?: number;
  maxWaiting?: number;
  maxWaitMs?: number;
}

type Patience = Pick<Requester, 'signal' | 'retryTimeoutMs' | 'waitMs'>;

type Admit = () => void;

/**
 * Limits how many operations use a resource (such as the database) at the same time, and how many wait for it. Shares
 * both fairly between customers. Rejects an operation with `unavailable` if too many are waiting, or if it has waited
 * too long.
 */
export class ConcurrencyLimiter {
  readonly name: string;
  readonly limit: number;
  readonly #waits: ReturnType<typeof gateWait.labels>;
  readonly #maxWaitMs: number;
  readonly #inside: FairSemaphore;
  readonly #queue: FairSemaphore;
  /** What admits the waiting operations of each customer, in order of arrival. The first customer is served next. */
  readonly #waiting = new Map<SlotHolder, Set<Admit>>();
  #closed = false;
  #emptied: (() => void) | undefined;

  constructor({ name, limit, perHolder, maxWaiting = Infinity, maxWaitMs = Infinity }: ConcurrencyLimits) {
    this.name = name;
    this.limit = limit;
    this.#waits = gateWait.labels(name);
    this.#maxWaitMs = maxWaitMs;
    this.#inside = new FairSemaphore(limit, perHolder);
    this.#queue = new FairSemaphore(maxWaiting);
  }

  get inside(): number {
    return this.#inside.taken;
  }

  get waiting(): number {
    return this.#queue.taken;
  }

  /**
   * Runs `work` for a customer as soon as the limits allow it. If the requester's signal aborts, rejects with its
   * reason, but does not stop `work`.
   * @throws DomainError `unavailable` if the wait takes too long, too many operations are waiting, or the limiter is
   * closed
   */
  run<T>(requester: Requester, work: () => Promise<T>): Promise<T> {
    return this.#run(requester.customerId, requester, work);
  }

  /**
   * Runs `work` that belongs to no customer, as soon as the limits allow it. Each call counts as a separate customer.
   */
  runAlone<T>(work: () => Promise<T>): Promise<T> {
    return this.#run(Symbol('work'), {}, work);
  }

  close(): Promise<void> {
    this.#closed = true;
    if (this.inside === 0) return Promise.resolve();
    return new Promise((resolve) => (this.#emptied = resolve));
  }

  async #run<T>(holder: SlotHolder, patience: Patience, work: () => Promise<T>): Promise<T> {
    patience.signal?.throwIfAborted();
    const waiting = this.#enter(holder, patience);
    if (waiting) await waiting;
    return unlessAborted(this.#runInside(holder, work), patience.signal);
  }

  async #runInside<T>(holder: SlotHolder, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } finally {
      this.#leave(holder);
    }
  }

  /**
   * Takes a slot and returns undefined, if the limits allow it. Otherwise returns a promise that resolves when the
   * operation has a slot.
   */
  #enter(holder: SlotHolder, patience: Patience): Promise<void> | undefined {
    if (this.#closed) throw unavailable('The service is shutting down');
    // Waiting holders are not admissible now, so an admissible newcomer delays none of them. Behind its own operations
    // it queues.
    if (this.#waiting.has(holder) || !this.#inside.tryTake(holder)) return this.#wait(holder, patience);
    this.#waits.observe(0);
    return undefined;
  }

  async #wait(holder: SlotHolder, patience: Patience): Promise<void> {
    if (!this.#queue.tryTake(holder)) throw this.#refusal();
    const start = performance.now();
    const { promise, resolve: admit, reject } = Promise.withResolvers<void>();
    const line = this.#waiting.get(holder) ?? new Set();
    this.#waiting.set(holder, line.add(admit));
    const maxWaitMs = patience.waitMs ?? Math.min(this.#maxWaitMs, patience.retryTimeoutMs ?? Infinity);
    const timer = maxWaitMs < Infinity ? setTimeout(() => reject(this.#refusal()), maxWaitMs) : undefined;
    try {
      await unlessAborted(promise, patience.signal);
    } catch (error) {
      // Admitted and aborted in the same tick: release the slot.
      if (!this.#withdraw(holder, admit)) this.#leave(holder);
      throw error;
    } finally {
      clearTimeout(timer);
      const waitedMs = performance.now() - start;
      this.#waits.observe(waitedMs / 1000);
      if (patience.retryTimeoutMs !== undefined)
        patience.retryTimeoutMs = Math.max(0, patience.retryTimeoutMs - waitedMs);
    }
  }

  #refusal(): Error {
    gateRefusals.inc({ gate: this.name });
    return unavailable('The service is at its limit');
  }

  #withdraw(holder: SlotHolder, admit: Admit): boolean {
    const line = this.#waiting.get(holder);
    if (!line?.delete(admit)) return false;
    if (line.size === 0) this.#waiting.delete(holder);
    this.#queue.release(holder);
    return true;
  }

  #leave(holder: SlotHolder): void {
    this.#inside.release(holder);
    if (this.#waiting.size > 0) this.#admitWaiters();
    if (this.inside === 0) this.#emptied?.();
  }

  #admitWaiters(): void {
    for (let next = this.#takeNext(); next; next = this.#takeNext()) {
      const [holder, line, admit] = next;
      this.#withdraw(holder, admit);
      // The holder's next waiter comes after those of all other holders.
      if (this.#waiting.delete(holder)) this.#waiting.set(holder, line);
      admit();
    }
  }

  /** Takes a slot for the next waiting operation that may start. Returns undefined if none may. */
  #takeNext(): [SlotHolder, Set<Admit>, Admit] | undefined {
    for (const [holder, line] of this.#waiting) {
      if (this.#inside.tryTake(holder)) return [holder, line, line.values().next().value!];
    }
    return undefined;
  }
}
