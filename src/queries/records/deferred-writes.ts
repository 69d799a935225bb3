import type { Queryable, Transaction, LockedId, Sql } from '../../database/db.ts';
import { ConcurrencyLimiter } from '../../access/concurrency-limiter.ts';
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

// Unique constraints decide between a single write and a bulk writer.
/**
 * Locks a customer for bulk writers: batches, imports, merges, jobs, undo and erasure run one after the other. So no
 * two of them create the same record. Single writes do not wait.
 */
export const lockBulk = (sql: Transaction, customerId: string): Promise<void> => lock(sql, `bulk:${customerId}`);

/** Makes batches and imports of one customer wait for each other within this process, without a database connection. */
export const bulkWriters = new ConcurrencyLimiter({ name: 'bulk_writers', limit: Infinity, perHolder: 1 });

export const lockNames = (sql: Transaction, customerId: string): Promise<void> => lock(sql, `names:${customerId}`);

async function lock(sql: Queryable, key: string): Promise<void> {
  await sql`select pg_advisory_xact_lock(hashtextextended(${key}, 0))`;
}

/**
 * Returns SQL clauses for the end of a `select` of contacts. They lock the selected rows in the order of their ids, as
 * all transactions do, to avoid deadlocks.
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

type EventSubject<Noun extends EventNoun> = { id: string } & (Noun extends 'list'
  ? unknown
  : { external_id: string | null });

class Writes {
  readonly #changes: Totals = { contacts: 0, companies: 0 };
  readonly #events: NewEvent[] = [];

  count(counted: keyof Totals, change: number): void {
    this.#changes[counted] += change;
  }

  created<Noun extends EventNoun>(noun: Noun, record: EventSubject<Noun>, more: { restored?: true } = {}): void {
    this.#record(noun, 'created', record, more);
  }

  /**
   * Adds the event that a record was updated, unless no member differs.
   * @param stored the record's columns before this transaction
   * @param columns the columns after it, named like the members of the record's GET
   * @returns false if no member differs
   */
  updated<Noun extends EventNoun>(noun: Noun, record: EventSubject<Noun>, stored: object, columns: object): boolean {
    const changes = changesOf(noun, stored, columns);
    if (!changes) return false;
    const { changed, before, after } = changes;
    this.#record(noun, 'updated', record, { changed }, { before, after });
    return true;
  }

  /**
   * Adds the event that a record was deleted.
   * @param values columns and links of the record, for an undo of the deletion. Undefined: it cannot be undone
   * @param more `merged_into`: the id of the record that replaces it
   */
  deleted<Noun extends EventNoun>(
    noun: Noun,
    record: EventSubject<Noun>,
    values: object | undefined,
    more: { merged_into?: string | undefined } = {},
  ): void {
    const before = values && Object.fromEntries(Object.entries(values).filter(([, value]) => value !== null));
    this.#record(noun, 'deleted', record, more, before && { before });
  }

  removed(prospectId: string): void {
    this.event({ type: 'prospect.removed', data: { id: prospectId } });
  }

  event(event: NewEvent): void {
    this.#events.push(event);
  }

  #record(
    noun: EventNoun,
    verb: 'created' | 'updated' | 'deleted',
    subject: object,
    more: object = {},
    values: Pick<NewEvent, 'before' | 'after'> = {},
  ): void {
    const { id, external_id } = subject as { id: string; external_id?: string | null };
    this.event({
      type: `${noun}.${verb}`,
      data: { id, ...(external_id === undefined ? {} : { external_id }), ...more },
      ...values,
    });
  }

  /**
   * Runs a part of the transaction. If `work` throws, drops the events and counts of this part. The caller rolls back
   * its writes.
   */
  async attempt<T>(work: (deferred: DeferredWrites) => Promise<T>): Promise<T> {
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

export interface Removal {
  merged_into?: string;
  moved?: ReadonlyMap<string, object>;
  isPurged?: boolean;
}

export type DeferredWrites = Writes;

/**
 * Runs the part of a transaction that changes records. The collected events and totals are written with the commit.
 * @param sql the transaction itself, not a savepoint of it
 */
export async function withDeferredWrites<T>(
  sql: Transaction,
  customerId: string,
  work: (deferred: DeferredWrites) => Promise<T>,
): Promise<T> {
  const deferred = new Writes();
  const result = await work(deferred);
  addToJournal(sql, customerId, deferred.events, deferred.changes);
  return result;
}

export const withoutDeferredWrites = <T>(work: (deferred: DeferredWrites) => Promise<T>): Promise<T> =>
  work(new Writes());
