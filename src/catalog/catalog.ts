import type { Gate } from '../limits/gate.ts';
import type { Requester } from '../requester.ts';
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
   * The id of a customer. The search leaves out prospects that this customer has unlocked (paid to see). If undefined,
   * it leaves out none.
   */
  netNewFor?: string | undefined;
}

/**
 * The page of a search's result to return: at most `limit` prospects. The page starts after the first `skip` prospects,
 * or after the position `after`. Set at most one of the two.
 */
export interface PageWindow {
  limit: number;
  skip?: number;
  after?: ProspectPosition | undefined;
}

/**
 * A person as UTF-8 bytes, in the form that is sent to Postgres or Elasticsearch. An import holds many people in
 * memory, and bytes take less heap than JavaScript objects.
 */
export interface EncodedPerson {
  id: string;
  bytes: Buffer;
}

/**
 * The maximum of page number × page size in a request for prospects. To read later pages, clients must use a cursor.
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
 * The prospect catalog, with its read and write methods. Use the read methods of the catalog itself for the service's
 * own work. For a customer's request, use the read methods that `for` returns.
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
   * customers, so each read counts for the customer of the request. If the signal of `requester` aborts, the reads are
   * cancelled.
   */
  for(requester: Requester): CatalogReads;

  /**
   * Copies unlocks of prospects from Postgres into the catalog. An unlock means that a customer has paid to see a
   * prospect; the catalog stores the ids of these customers with each prospect. All unlocks that are committed before
   * the call are copied. Searches see them after `refresh`.
   * @param ids ids of the prospects
   */
  syncUnlocks(ids: string[]): Promise<void>;
  /** Makes all earlier writes visible to later searches. */
  refresh(): Promise<void>;
  /** Returns whether the catalog can be searched and written to now. */
  isUp(): Promise<boolean>;

  /**
   * Prepares the catalog for writes, and repairs it if needed. Call it once before the first write.
   * @param notify receives a message for each repair
   * @returns the id of the Elasticsearch index or Postgres table file that writes go to. If a later call returns
   *   another id, the catalog was replaced, and people written before may be missing
   */
  prepare(notify?: (text: string) => unknown): Promise<string>;
  /** Encodes a person as text for `write`: a row as JSON for Postgres, a bulk operation for Elasticsearch. */
  encode(document: CatalogDocument): string;
  /**
   * Writes people to the catalog. A person with an existing id replaces the stored person; the ids of the customers who
   * have unlocked the person are kept. When the promise resolves, all people are stored, and the caller may reuse the
   * bytes.
   * @param people with distinct ids
   */
  write(people: EncodedPerson[]): Promise<void>;
  /**
   * Removes people from the catalog, and returns the number of removed people. Postgres still stores which customers
   * have unlocked them.
   */
  remove(ids: string[]): Promise<number>;
  /**
   * Ends an import: makes all written people visible to searches, and updates the number of people with each suggested
   * value.
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
