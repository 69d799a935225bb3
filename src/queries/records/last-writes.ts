import type { Transaction } from '../../database/db.ts';
import type { TurnKind } from '../../database/queues.ts';
import { saveCounts, type Counted } from './counters.ts';
import { enqueueTurn } from './turns.ts';

class Writes {
  readonly #counts = new Map<Counted, number>();
  readonly #queues = new Set<TurnKind>();
  #areCountsTaken = false;

  /** Adds a change to a counter. */
  count(counted: Counted, change: number): void {
    if (change === 0) return;
    if (this.#areCountsTaken) throw new Error('The counters of this transaction are saved already');
    this.#counts.set(counted, (this.#counts.get(counted) ?? 0) + change);
  }

  /** Makes a worker process the customer's work in this queue, after the commit. */
  enqueue(queue: TurnKind): void {
    this.#queues.add(queue);
  }

  /** Runs a part of the transaction. If `work` throws, its writes are dropped: the caller rolls this part back. */
  async attempt<T>(work: (last: LastWrites) => Promise<T>): Promise<T> {
    const own = new Writes();
    const result = await work(own);
    for (const [counted, change] of own.#counts) this.count(counted, change);
    for (const queue of own.#queues) this.enqueue(queue);
    return result;
  }

  /**
   * Returns the changes of counters as two parallel arrays of names and differences, for the statement that saves them.
   * No change can be added afterwards, and none is returned again.
   */
  takeCounts(): { counted: Counted[]; changes: number[] } {
    const changed = this.#areCountsTaken ? [] : [...this.#counts].filter(([, change]) => change !== 0);
    this.#areCountsTaken = true;
    return { counted: changed.map(([counted]) => counted), changes: changed.map(([, change]) => change) };
  }

  /** Returns the queues in which the customer has new work. */
  get queues(): Iterable<TurnKind> {
    return this.#queues;
  }
}

/**
 * What a transaction of one customer writes last: changes of counters, then messages for workers. Only
 * `withLastWrites` creates this object and writes its contents.
 */
export type LastWrites = Writes;

/**
 * Runs the part of a transaction that changes records, and then writes what it collected. Other transactions of the
 * same customer wait while a counter or a queue is locked, and two that lock them in different orders can wait for each
 * other. So a transaction calls this function once, and as its last step.
 */
export async function withLastWrites<T>(
  sql: Transaction,
  customerId: string,
  work: (last: LastWrites) => Promise<T>,
): Promise<T> {
  const last = new Writes();
  const result = await work(last);
  await saveCounts(sql, customerId, last.takeCounts());
  for (const queue of last.queues) await enqueueTurn(sql, queue, customerId);
  return result;
}

/** Runs work without its last writes, because the caller rolls the work back. */
export const withoutLastWrites = <T>(work: (last: LastWrites) => Promise<T>): Promise<T> => work(new Writes());
