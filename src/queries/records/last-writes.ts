import { sendWithCommit } from '../../database/after-commit.ts';
import type { Transaction } from '../../database/db.ts';
import { eventSourceOf } from '../../database/origin.ts';
import type { EventNoun } from '../../schemas/events/types.ts';
import { changedMembers } from '../events/changes.ts';
import { insertsOf, type NewEvent } from '../events/recording.ts';
import { savesOf, type Counted } from './counters.ts';

/** What each event tells of a record: its id, and of contacts and companies the caller's own id. */
type Told<Noun extends EventNoun> = { id: string } & (Noun extends 'contact' | 'company'
  ? { external_id: string | null }
  : unknown);

class Writes {
  readonly #counts = new Map<Counted, number>();
  readonly #events: NewEvent[] = [];
  readonly #isRecording: boolean;

  /** @param isRecording false if events are turned off */
  constructor(isRecording: boolean) {
    this.#isRecording = isRecording;
  }

  /** Adds a change to a counter. */
  count(counted: Counted, change: number): void {
    if (change === 0) return;
    this.#counts.set(counted, (this.#counts.get(counted) ?? 0) + change);
  }

  /** Records the event that a record was created. */
  created<Noun extends EventNoun>(noun: Noun, record: Told<Noun>): void {
    this.#record(noun, 'created', record);
  }

  /**
   * Records the event that a record was updated, unless no member differs.
   * @param stored the record's columns before this transaction
   * @param columns the columns after it, named like the members of the record's GET
   */
  updated<Noun extends EventNoun>(noun: Noun, record: Told<Noun>, stored: object, columns: object): void {
    if (!this.#isRecording) return;
    const changed = changedMembers(noun, stored, columns);
    if (changed.length > 0) this.#record(noun, 'updated', record, { changed });
  }

  /**
   * Records the event that a record was deleted.
   * @param more `merged_into`: the id of the record that replaces it
   */
  deleted<Noun extends EventNoun>(noun: Noun, record: Told<Noun>, more: { merged_into?: string } = {}): void {
    this.#record(noun, 'deleted', record, more);
  }

  /** Records the event that a person whom the customer had unlocked was erased from the catalog. */
  removed(prospectId: string): void {
    this.event({ type: 'prospect.removed', data: { id: prospectId } });
  }

  /** Records an event that is not about a record. */
  event(event: NewEvent): void {
    if (this.#isRecording) this.#events.push(event);
  }

  #record(noun: EventNoun, verb: 'created' | 'updated' | 'deleted', told: object, more: object = {}): void {
    const { id, external_id } = told as { id: string; external_id?: string | null };
    this.event({
      type: `${noun}.${verb}`,
      data: { id, ...(external_id === undefined ? {} : { external_id }), ...more },
    });
  }

  /** Runs a part of the transaction. If `work` throws, its writes are dropped: the caller rolls this part back. */
  async attempt<T>(work: (last: LastWrites) => Promise<T>): Promise<T> {
    const own = new Writes(this.#isRecording);
    const result = await work(own);
    for (const [counted, change] of own.#counts) this.count(counted, change);
    this.#events.push(...own.#events);
    return result;
  }

  /** Returns the changes of counters as two parallel arrays of names and differences. */
  get counts(): { counted: Counted[]; changes: number[] } {
    const changed = [...this.#counts].filter(([, change]) => change !== 0);
    return { counted: changed.map(([counted]) => counted), changes: changed.map(([, change]) => change) };
  }

  get events(): readonly NewEvent[] {
    return this.#events;
  }
}

/**
 * What a transaction of one customer writes last: changes of counters, then events. Only `withLastWrites` creates this
 * object and writes its contents.
 */
export type LastWrites = Writes;

/**
 * Runs the part of a transaction that changes records, and then writes what it collected. Other transactions of the
 * same customer wait while a counter is locked, and two that lock counters in different orders can wait for each other.
 * So a transaction calls this function once, and as its last step.
 * @param sql the transaction itself, not a savepoint of it
 */
export async function withLastWrites<T>(
  sql: Transaction,
  customerId: string,
  work: (last: LastWrites) => Promise<T>,
): Promise<T> {
  const last = new Writes(eventSourceOf(sql) !== undefined);
  const result = await work(last);
  const counts = savesOf(sql, customerId, last.counts);
  sendWithCommit(sql, [...counts, ...insertsOf(sql, customerId, last.events)]);
  return result;
}

/** Runs work without its last writes, because the caller rolls the work back. */
export const withoutLastWrites = <T>(work: (last: LastWrites) => Promise<T>): Promise<T> => work(new Writes(false));
