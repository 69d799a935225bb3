import type { Gate } from '../limits/gate.ts';
import type { Requester } from '../credentials/requester.ts';
import type { Prospect, Suggestion, SuggestionQuery } from '../schemas/prospects.ts';
import type { Criterion } from './criteria.ts';
import type { CatalogDocument } from './document.ts';
import type { ProspectOrder, ProspectPosition } from './order.ts';

/** A search for prospects: the conditions that prospects must meet, and the order of the result. */
export interface Search {
  /** The conditions. A prospect must meet all of them. */
  criteria: Criterion[];
  order: ProspectOrder;
  /**
   * The id of a customer. If set, the search leaves out the prospects that this customer has unlocked (paid to see).
   */
  netNewFor?: string | undefined;
}

/**
 * Which page of a search's result to return. The page has at most `limit` prospects. It starts after the first `skip`
 * prospects, or after the position `after` in the sort order. Do not set both `skip` and `after`.
 */
export interface PageWindow {
  limit: number;
  skip?: number;
  after?: ProspectPosition | undefined;
}

/**
 * A person, encoded as the UTF-8 bytes that are sent to Postgres or Elasticsearch. Imports use bytes, because many
 * JavaScript objects would take more memory.
 */
export interface EncodedPerson {
  id: string;
  bytes: Buffer;
}

/**
 * The maximum product of page number and page size in a request for prospects. Clients must use a cursor to read later
 * pages.
 */
export const maxPageDepth = 10_000;

/** The engine, the counts and other details of the prospect catalog, for the output of the command `catalog status`. */
export interface CatalogStatus {
  engine: 'postgres' | 'elasticsearch';
  people: number;
  suggestions: number;
  details: Record<string, string | number>;
}

/**
 * The read methods of the prospect catalog. Postgres and Elasticsearch each implement them and return the same results.
 * Each method throws DomainError `unavailable` if the database or cluster does not respond in time.
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
   * Returns at most ten suggested values of one text field, or of all text fields, the most frequent first. A value
   * matches if each word of the search text is the beginning of one of the value's words.
   */
  suggest(query: SuggestionQuery): Promise<Suggestion[]>;
}

/**
 * The prospect catalog. Its own read methods are for internal work of the service, such as commands and background
 * jobs. For a customer's request, call `for` and use the read methods that it returns.
 */
export interface Catalog extends CatalogReads {
  readonly engine: 'postgres' | 'elasticsearch';
  /** The name under which Postgres stores the state of this catalog, such as the time of its last import. */
  readonly name: string;
  /** The limiters of concurrent reads of the catalog, with the queues of waiting reads. Used for metrics. */
  readonly gates: readonly Gate[];
  /** True if the catalog rejects all reads at the moment, because its search cluster is down. */
  readonly isRefusing: boolean;

  /**
   * Returns the read methods for one request. The number of concurrent reads is limited and shared fairly between
   * customers. The reads of this request use the share of the customer who sent it. If the signal of `requester`
   * aborts, the reads are cancelled.
   */
  for(requester: Requester): CatalogReads;

  /**
   * Copies unlocks from Postgres into the catalog. An unlock means that a customer has paid to see a prospect. The
   * catalog stores, with each prospect, the ids of these customers. All unlocks that were committed before the call are
   * copied. Searches see them after `refresh`.
   * @param ids the ids of the prospects
   */
  syncUnlocks(ids: string[]): Promise<void>;
  /** Makes all earlier writes visible to later searches. */
  refresh(): Promise<void>;
  /** Returns whether the catalog can be searched and written to now. */
  isUp(): Promise<boolean>;

  /**
   * Prepares the catalog for writes, and repairs it if needed. Call it once before the first write.
   * @param notify receives a message for each repair
   * @returns the id of the place to which people are written: an Elasticsearch index or a Postgres table file. If a
   *   later call returns another id, the catalog was replaced, and people who were written earlier may be missing
   */
  prepare(notify?: (text: string) => unknown): Promise<string>;
  /** Encodes a person as text for `write`: a row as JSON for Postgres, a bulk operation for Elasticsearch. */
  encode(document: CatalogDocument): string;
  /**
   * Writes people to the catalog. If the catalog already has a person with the same id, the new data replaces the
   * stored data, except the ids of the customers who have unlocked the person. When the promise resolves, all people
   * are stored, and the caller may reuse the bytes.
   * @param people the people to write; their ids must be distinct
   */
  write(people: EncodedPerson[]): Promise<void>;
  /** Returns those of these ids under which `write` would replace a person. Sees all people who are written. */
  findStored(ids: string[]): Promise<string[]>;
  /**
   * Removes people from the catalog, and returns the number of removed people. Postgres still stores which customers
   * have unlocked them.
   */
  remove(ids: string[]): Promise<number>;
  /**
   * Ends an import: makes all written people visible to searches, and recomputes the suggested values, each with the
   * number of people who have it.
   * @returns the number of people in the catalog
   * @throws DomainError `unavailable` if the database or cluster does not respond in time, or if the catalog was
   *   replaced during the import
   */
  finish(): Promise<number>;
  /**
   * Rebuilds the search index from the people stored in it and from the unlocks in Postgres. Searches use the old index
   * until the new one is complete.
   * @param progress called and awaited after each batch; if it throws, the reindex ends with this error
   * @returns the number of people in the new index
   */
  reindex(progress: (done: number, total: number) => Promise<void> | void): Promise<number>;
  status(): Promise<CatalogStatus>;

  close(): Promise<void>;
}
