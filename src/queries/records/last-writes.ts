import type { Transaction } from '../../database/db.ts';
import type { EventNoun } from '../../schemas/events/types.ts';
import { changesOf } from '../events/changes.ts';
import { addToJournal, type NewEvent, type Totals } from '../events/journal.ts';

/** What each event tells of a record: its id, and the caller's own id, which lists do not have. */
type Told<Noun extends EventNoun> = { id: string } & (Noun extends 'list' ? unknown : { external_id: string | null });

class Writes {
  readonly #changes: Totals = { contacts: 0, companies: 0 };
  readonly #events: NewEvent[] = [];

  /** Adds to the number of a customer's records. */
  count(counted: keyof Totals, change: number): void {
    this.#changes[counted] += change;
  }

  /**
   * Records the event that a record was created.
   * @param more `restored`: its deletion was undone
   */
  created<Noun extends EventNoun>(noun: Noun, record: Told<Noun>, more: { restored?: true } = {}): void {
    this.#record(noun, 'created', record, more);
  }

  /**
   * Records the event that a record was updated, unless no member differs.
   * @param stored the record's columns before this transaction
   * @param columns the columns after it, named like the members of the record's GET
   * @returns false if no member differs
   */
  updated<Noun extends EventNoun>(noun: Noun, record: Told<Noun>, stored: object, columns: object): boolean {
    const changes = changesOf(noun, stored, columns);
    if (!changes) return false;
    const { changed, before, after } = changes;
    this.#record(noun, 'updated', record, { changed }, { before, after });
    return true;
  }

  /**
   * Records the event that a record was deleted.
   * @param values its columns and links, by which its deletion can be undone; undefined: it cannot
   * @param more `merged_into`: the id of the record that replaces it
   */
  deleted<Noun extends EventNoun>(
    noun: Noun,
    record: Told<Noun>,
    values: object | undefined,
    more: { merged_into?: string | undefined } = {},
  ): void {
    const before = values && Object.fromEntries(Object.entries(values).filter(([, value]) => value !== null));
    this.#record(noun, 'deleted', record, more, before && { before });
  }

  /** Records the event that a person whom the customer had unlocked was erased from the catalog. */
  removed(prospectId: string): void {
    this.event({ type: 'prospect.removed', data: { id: prospectId } });
  }

  /** Records an event that is not about a record. */
  event(event: NewEvent): void {
    this.#events.push(event);
  }

  #record(
    noun: EventNoun,
    verb: 'created' | 'updated' | 'deleted',
    told: object,
    more: object = {},
    values: Pick<NewEvent, 'before' | 'after'> = {},
  ): void {
    const { id, external_id } = told as { id: string; external_id?: string | null };
    this.event({
      type: `${noun}.${verb}`,
      data: { id, ...(external_id === undefined ? {} : { external_id }), ...more },
      ...values,
    });
  }

  /** Runs a part of the transaction. If `work` throws, its writes are dropped: the caller rolls this part back. */
  async attempt<T>(work: (last: LastWrites) => Promise<T>): Promise<T> {
    const own = new Writes();
    const result = await work(own);
    this.count('contacts', own.changes.contacts);
    this.count('companies', own.changes.companies);
    this.#events.push(...own.#events);
    return result;
  }

  get changes(): Readonly<Totals> {
    return this.#changes;
  }

  get events(): readonly NewEvent[] {
    return this.#events;
  }
}

/** Why contacts or companies are removed, and what is kept of them. */
export interface Removal {
  /** The record that replaces them. */
  merged_into?: string;
  /** What a merge has moved before, by record; kept with its values. */
  moved?: ReadonlyMap<string, object>;
  /** None of their values are kept. */
  isPurged?: boolean;
}

/**
 * What a transaction of one customer tells its journal, and how it changes the customer's totals. Only `withLastWrites`
 * creates this object and writes its contents.
 */
export type LastWrites = Writes;

/**
 * Runs the part of a transaction that changes records. What it collects is written with the commit: other transactions
 * of the customer wait from then on.
 * @param sql the transaction itself, not a savepoint of it
 */
export async function withLastWrites<T>(
  sql: Transaction,
  customerId: string,
  work: (last: LastWrites) => Promise<T>,
): Promise<T> {
  const last = new Writes();
  const result = await work(last);
  addToJournal(sql, customerId, last.events, last.changes);
  return result;
}

/** Runs work without its last writes, because the caller rolls the work back. */
export const withoutLastWrites = <T>(work: (last: LastWrites) => Promise<T>): Promise<T> => work(new Writes());
