import type { Queryable, Transaction, LockedId, Sql } from '../../database/db.ts';
import { Gate } from '../../access/gate.ts';
import type { Fragment } from '../../filters/sql.ts';
import type { EventNoun } from '../../schemas/events.ts';
import { changesOf, addToJournal, type NewEvent, type Totals } from './journal.ts';

/*
 * The order of locks. Every transaction that writes records takes its locks in this order, so that no two
 * of them can wait for each other (deadlock):
 *
 * 1. the customer's lock of bulk writers (`lockBulk`),
 * 2. the customer's lock of company names (`lockNames`),
 * 3. rows of `companies`, by id,
 * 4. rows of `contacts`, by id,
 * 5. rows of `opportunities`, by id,
 * 6. rows of `activities`, by id,
 * 7. the customer's lock of the journal, as the last but one statement.
 *
 * Rows of `lists` are locked at any step: who locks one so that others wait locks no records after it.
 *
 * A transaction may leave out steps. It must not wait for an earlier step after a later one, but a row that it has
 * inserted itself is free: nobody else can see it. With a single row in step 3, a transaction may go back to step 2 if
 * that row did not exist, because then it holds no row.
 */

/**
 * Locks a customer for bulk writers until the transaction ends: batches, imports, merges, jobs, undo and erasure come one
 * after the other. So between its search for a record and its writing of one, no other bulk writer makes the same.
 * Single writes do not wait: unique constraints decide between them and a bulk writer.
 */
export const lockBulk = (sql: Transaction, customerId: string): Promise<void> => lock(sql, `bulk:${customerId}`);

/** Batches and imports of one customer wait here for those of the same process, so that they hold no connection meanwhile. */
export const bulkWriters = new Gate({ name: 'bulk_writers', limit: Infinity, perHolder: 1 });

/** Locks the names of a customer's companies until the transaction ends, for those who create a company by its name. */
export const lockNames = (sql: Transaction, customerId: string): Promise<void> => lock(sql, `names:${customerId}`);

async function lock(sql: Queryable, key: string): Promise<void> {
  await sql`select pg_advisory_xact_lock(hashtextextended(${key}, 0))`;
}

/**
 * SQL clauses for the end of a `select` of contacts: they lock the selected rows, in the order of their ids, until the
 * transaction ends. All transactions lock contacts in this order, to avoid deadlocks.
 */
export const lockedInOrder = (sql: Queryable): Fragment => sql`
    order by id
    for no key update`;

export async function findContactIds(sql: Sql, customerId: string, ids: readonly string[]): Promise<string[]> {
  const contacts = await sql<{ id: string }[]>`
    select id
    from contacts
    where customer_id = ${customerId}
      and id = any(${ids as string[]}::uuid[])`;
  return contacts.map(({ id }) => id);
}

export async function lockContacts(sql: Transaction, customerId: string, ids: readonly string[]): Promise<LockedId[]> {
  if (ids.length === 0) return [];
  const contacts = await sql<{ id: LockedId }[]>`
    select id
    from contacts
    where customer_id = ${customerId}
      and id = any(${ids as string[]}::uuid[])
    ${lockedInOrder(sql)}`;
  return contacts.map(({ id }) => id);
}

export async function lockContactsOfCompanies(
  sql: Transaction,
  customerId: string,
  companyIds: readonly string[],
): Promise<LockedId[]> {
  const contacts = await sql<{ id: LockedId }[]>`
    select id
    from contacts
    where customer_id = ${customerId}
      and company_id = any(${companyIds as string[]}::uuid[])
    ${lockedInOrder(sql)}`;
  return contacts.map(({ id }) => id);
}

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
