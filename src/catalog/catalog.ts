import type { Gate } from '../limits/gate.ts';
import type { Requester } from '../requester.ts';
import type { Prospect, Suggestion, SuggestionQuery } from '../schemas/prospects.ts';
import type { Criterion } from './criteria.ts';
import type { CatalogDocument } from './document.ts';
import type { ProspectOrder, ProspectPosition } from './order.ts';

/** A search for prospects: the conditions that prospects must meet, and the order of the result. */
export interface Search {
  /** Conditions that a prospect must all meet. */
  criteria: Criterion[];
  order: ProspectOrder;
  /** The id of a customer, to exclude the prospects that this customer has unlocked. Undefined excludes nobody. */
  netNewFor?: string | undefined;
}

/**
 * Which page of a search's result to return: `limit` prospects, after the first `skip` prospects or after the position
 * `after`. Set at most one of the two.
 */
export interface PageWindow {
  limit: number;
  skip?: number;
  after?: ProspectPosition | undefined;
}

/**
 * A person, encoded in UTF-8 as it is sent to Postgres or Elasticsearch. An import holds many people in memory until
 * they are written, and JavaScript objects would fill the heap.
 */
export interface EncodedPerson {
  id: string;
  bytes: Buffer;
}

/** The highest allowed value of `page × limit` in a request for a list of prospects. Deeper pages need a cursor. */
export const maxPageDepth = 10_000;

/** The catalog's part of the output of `catalog status`. */
export interface CatalogStatus {
  engine: 'postgres' | 'elasticsearch';
  people: number;
  suggestions: number;
  details: Record<string, string | number>;
}

/**
 * The read methods of the prospect catalog. Postgres and Elasticsearch each implement them and return the same results.
 * Each method throws DomainError `unavailable` in bounded time if the database or cluster does not respond.
 */
export interface CatalogReads {
  /**
   * Returns one page of the matching prospects, with unmasked e-mail addresses and phone numbers. Sorts by the
   * requested order, then by id.
   */
  search(search: Search, window: PageWindow): Promise<Prospect[]>;
  /** Returns the exact number of matching prospects. */
  count(search: Pick<Search, 'criteria' | 'netNewFor'>): Promise<number>;
  /** Returns the prospects with these ids, in no particular order. Unknown ids are skipped. */
  find(ids: string[]): Promise<Prospect[]>;
  /**
   * Returns at most ten values of one text field, or of all text fields, the most frequent first. A value matches if
   * each word of the search text is the beginning of one of the value's words.
   */
  suggest(query: SuggestionQuery): Promise<Suggestion[]>;
}

/**
 * The prospect catalog. Call its read methods directly for work of the service itself. For a customer's request, use
 * the read methods that `for` returns.
 */
export interface Catalog extends CatalogReads {
  readonly engine: 'postgres' | 'elasticsearch';
  /** The name under which Postgres records the imports of this catalog. */
  readonly name: string;
  /** The queues in which reads of the catalog wait while too many are running. Metrics report their length. */
  readonly gates: readonly Gate[];
  /**
   * Whether the catalog rejects reads at the moment without sending them, because its cluster did not respond to
   * earlier ones.
   */
  readonly isRefusing: boolean;

  /**
   * Returns the catalog's read methods for a request. Customers share the number of concurrent searches fairly, and
   * these reads count for the requester's customer. They end when the requester's signal aborts.
   */
  for(requester: Requester): CatalogReads;

  /**
   * Copies the unlocks of these prospects (which customers have unlocked them) from Postgres into the catalog. Includes
   * all unlocks that were committed before the call. Searches see them after `refresh`.
   */
  syncUnlocks(ids: string[]): Promise<void>;
  /** Makes all earlier writes visible to later searches. */
  refresh(): Promise<void>;
  /** Returns whether the catalog can be searched and written to now. */
  isUp(): Promise<boolean>;

  /**
   * Prepares the catalog for writes, and repairs it if needed. Call it once before the first write.
   * @param notify receives a message for each repair
   * @returns the id of the index or table file that writes go to. If a later call returns another id, the catalog was
   *   replaced, and people written before may be missing
   */
  prepare(notify?: (text: string) => unknown): Promise<string>;
  /** Encodes a person as the text that `write` sends to the engine. */
  encode(document: CatalogDocument): string;
  /**
   * Writes people. Replaces people of the same id and keeps their unlocks. The promise resolves when all people are
   * stored; then the caller may reuse the bytes.
   * @param people with distinct ids
   */
  write(people: EncodedPerson[]): Promise<void>;
  /** Removes people and keeps their unlocks. Returns the number of people removed. */
  remove(ids: string[]): Promise<number>;
  /**
   * Ends an import: makes all writes visible to searches, and counts anew how many people have each suggested value.
   * @returns the number of people, counted in the catalog
   * @throws DomainError `unavailable`, also if searches no longer use the index that was written to
   */
  finish(): Promise<number>;
  /**
   * Rebuilds the search index from the people stored in it and from the unlocks in Postgres. Searches use the old index
   * until the new one is complete.
   * @param progress called and awaited after each batch; an error that it throws ends the reindex
   * @returns the number of people, counted in the new index
   */
  reindex(progress: (done: number, total: number) => Promise<void> | void): Promise<number>;
  status(): Promise<CatalogStatus>;

  close(): Promise<void>;
}
