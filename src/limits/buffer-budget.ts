import { FairSlots } from './gate.ts';

/** Returns reserved bytes to the budget. Further calls have no effect. */
export type Release = () => void;

interface Waiter {
  holder: string;
  bytes: number;
  admit: (release: Release) => void;
}

/** A number of bytes of memory that requests and responses may hold, shared fairly between customers. */
export class BufferBudget {
  readonly #bytes: FairSlots;
  readonly #largest: number;
  /** Those who wait for room, in order of arrival. */
  readonly #waiting = new Set<Waiter>();

  constructor(bytes: number) {
    this.#bytes = new FairSlots(bytes);
    this.#largest = Math.floor(bytes / 2);
  }

  /** Number of bytes that are reserved now. */
  get taken(): number {
    return this.#bytes.taken;
  }

  /**
   * Reserves bytes, or returns undefined if there is no room for them now.
   * @param holder Who holds the bytes: the id of a customer, or a name for an address.
   * @param bytes The number of bytes. More than half of the budget counts as half.
   */
  tryReserve(holder: string, bytes: number): Release | undefined {
    const counted = Math.min(bytes, this.#largest);
    return this.#bytes.admits(holder, counted) ? this.#take(holder, counted) : undefined;
  }

  /**
   * Reserves bytes, and waits until there is room for them.
   * @param signal Ends the wait. Nothing is reserved then.
   */
  async reserve(holder: string, bytes: number, signal: AbortSignal): Promise<Release> {
    const now = this.tryReserve(holder, bytes);
    if (now) return now;
    const { promise, resolve: admit } = Promise.withResolvers<Release>();
    const waiter = { holder, bytes, admit };
    const giveUp = () => {
      this.#waiting.delete(waiter);
      admit(() => undefined);
    };
    this.#waiting.add(waiter);
    signal.addEventListener('abort', giveUp);
    if (signal.aborted) giveUp();
    return promise.finally(() => signal.removeEventListener('abort', giveUp));
  }

  #take(holder: string, bytes: number): Release {
    this.#bytes.take(holder, bytes);
    let isHeld = true;
    return () => {
      if (!isHeld) return;
      isHeld = false;
      this.#bytes.release(holder, bytes);
      for (const waiter of this.#waiting) this.#admit(waiter);
    };
  }

  #admit(waiter: Waiter): void {
    const release = this.tryReserve(waiter.holder, waiter.bytes);
    if (!release) return;
    this.#waiting.delete(waiter);
    waiter.admit(release);
  }
}
