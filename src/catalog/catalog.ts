import type { Gate } from '../limits/gate.ts';
import type { Requester } from '../requester.ts';
import type { Prospect, Suggestion, SuggestionQuery } from '../schemas/prospects.ts';
import type { Criterion } from './criteria.ts';
import type { CatalogDocument } from './document.ts';
import type { ProspectOrder, ProspectPosition } from './order.ts';

/** A search for prospects: conditions and order. */
export interface Search {
  /** Conditions that a prospect must all meet. */
  criteria: Criterion[];
  order: ProspectOrder;
  /** Excludes the prospects that this customer has unlocked: the search is net-new for the customer. */
  netNewFor?: string | undefined;
}

/** One page of a search's result. It starts after `skip` prospects or after a position, not both. */
export interface PageWindow {
  limit: number;
  skip?: number;
  after?: ProspectPosition | undefined;
}

/**
 * A person in the form that is sent to an engine, in UTF-8. An import holds many of them while they wait to be written;
 * objects would fill the heap.
 */
export interface EncodedPerson {
  id: string;
  bytes: Buffer;
}

/** The highest allowed value of `page × limit`. Deeper pages need a cursor. */
export const maxPageDepth = 10_000;

/** The catalog's part of the output of `catalog status`. */
export interface CatalogStatus {
  engine: 'postgres' | 'elasticsearch';
  people: number;
  suggestions: number;
  details: Record<string, string | number>;
}

/**
 * The read methods of the prospect catalog. Two engines implement them and return the same results for the same search.
 * If an engine cannot answer, each method throws DomainError `unavailable` in bounded time.
 */
export interface CatalogReads {
  /** Returns one page of the matching prospects, unmasked, in the requested order and then by id. */
  search(search: Search, window: PageWindow): Promise<Prospect[]>;
  /** Returns the exact number of matching prospects. */
  count(search: Pick<Search, 'criteria' | 'netNewFor'>): Promise<number>;
  /** Returns the prospects with these ids, in no particular order. Unknown ids are skipped. */
  find(ids: string[]): Promise<Prospect[]>;
  /**
   * Returns at most ten values of one field, or of all fields, the most frequent first. A value matches if it has, for
   * each word of the search text, a word that begins with it.
   */
  suggest(query: SuggestionQuery): Promise<Suggestion[]>;
}

/**
 * The prospect catalog. Its own read methods are for the service itself; those of `for` count as a customer's reads.
 */
export interface Catalog extends CatalogReads {
  readonly engine: 'postgres' | 'elasticsearch';
  /** The name under which Postgres records the catalog's imports. */
  readonly name: string;
  /** Gates where reads wait for a slot before they are sent, for metrics. */
  readonly gates: readonly Gate[];
  /** Whether reads are refused at the moment without being sent, since the catalog's cluster did not answer. */
  readonly isRefusing: boolean;

  /**
   * Returns the read methods for a requester. Its reads use its customer's fair share of the search slots, and end when
   * the requester's signal aborts.
   */
  for(requester: Requester): CatalogReads;

  /**
   * Copies the unlocks of these prospects from Postgres into the catalog, as they are at some moment after the call.
   * Searches see them after `refresh`.
   */
  syncUnlocks(ids: string[]): Promise<void>;
  /** Makes all earlier writes visible to later searches. */
  refresh(): Promise<void>;
  /** Returns whether the catalog can be searched and written to now. */
  isUp(): Promise<boolean>;

  /**
   * Prepares the catalog for writes, and repairs it if needed. Call it once before the first write.
   * @param notify receives a message for each repair
   * @returns the incarnation: an id of the index or table file that all writes go to until the next call. If a later
   *   call returns another incarnation, people written before may be missing
   */
  prepare(notify?: (text: string) => unknown): Promise<string>;
  /** Encodes a person as the text that `write` sends to the engine. */
  encode(document: CatalogDocument): string;
  /**
   * Writes people. Replaces people of the same id and keeps their unlocks. When the promise resolves, the writes are
   * confirmed and the bytes may be reused.
   * @param people with distinct ids
   */
  write(people: EncodedPerson[]): Promise<void>;
  /** Removes people and keeps their unlocks. Returns the number of people removed. */
  remove(ids: string[]): Promise<number>;
  /**
   * Ends an import: makes all writes visible and counts the suggestions again.
   * @returns the number of people, counted in the catalog
   * @throws DomainError `unavailable`, also if searches no longer use the index that was written to
   */
  finish(): Promise<number>;
  /**
   * Rebuilds the index from the stored people and from the unlocks in Postgres. Searches use the old index meanwhile.
   * @param progress called and awaited after each batch; an error that it throws ends the reindex
   * @returns the number of people, counted in the new index
   */
  reindex(progress: (done: number, total: number) => Promise<void> | void): Promise<number>;
  status(): Promise<CatalogStatus>;

  close(): Promise<void>;
}
